# Ruby's pg.  It connects to where PGHOST, PGDATABASE and so on say.

require "date"
require "json"
require "pg"

# What is checked, as TAP
$ran = $failed = 0

def check(name, passed, found = nil)
  $ran += 1
  puts "#{passed ? 'ok' : 'not ok'} #{$ran} - #{name}"
  unless passed
    $failed += 1
    puts "# found #{found.inspect}"
  end
end

# IDs have milliseconds.
def now = Time.now.floor(3)

# keys are those in the order in which the driver returned them, and since is
# now of before they were drawn.
def check_keys(conn, what, keys, count, since)
  check("#{what}: #{count} exact keys", keys.length == count && keys.all?(Integer), keys)
  check("#{what}: all of them different", keys.uniq.length == count, keys)
  check("#{what}: ascending", keys == keys.sort, keys)
  fields = conn.exec_params(<<~SQL, ["{#{keys.join(',')}}"]).to_a
    SELECT p.ts, p.node, current_setting('snowflake.node_id')::int AS own
    FROM unnest($1::bigint[]) AS id, snowflake_parse(id) AS p
  SQL
  last = now
  check("#{what}: with the time at which they were drawn",
        fields.length == count && fields.all? { |f| f["ts"].between?(since, last) }, [since, fields, last])
  check("#{what}: with the server's node number",
        fields.length == count && fields.all? { |f| f["node"] == f["own"] }, fields)
end

puts "# pg #{PG::VERSION}, Ruby #{RUBY_VERSION}"
conn = PG.connect
conn.set_notice_receiver { }
conn.exec("CREATE EXTENSION IF NOT EXISTS snowflake")
conn.exec(<<~SQL)
  CREATE TABLE orders (
      id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
      item text NOT NULL
  )
SQL
began = now

# Without a type map a key is a String.
key = conn.exec_params("INSERT INTO orders (item) VALUES ($1) RETURNING id", ["tea"]).getvalue(0, 0)
check("without a type map: a String", key.is_a?(String) && key.match?(/\A\d{17,19}\z/), key)

# With one it is an Integer, which has no largest number in Ruby.
conn.type_map_for_results = PG::BasicTypeMapForResults.new(conn)
since = now
key = conn.exec_params("INSERT INTO orders (item) VALUES ($1) RETURNING id", ["coffee"]).getvalue(0, 0)
check_keys(conn, "exec_params", [key], 1, since)
check("an Integer finds its row",
      conn.exec_params("SELECT item FROM orders WHERE id = $1", [key]).column_values(0) == ["coffee"])

# Many rows in one statement
items = PG::TextEncoder::Array.new.encode((0...1000).map { |n| "item #{n}" })
since = now
keys = conn.exec_params("INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id", [items]).column_values(0)
check_keys(conn, "one INSERT of many rows", keys, 1000, since)

# A prepared statement
conn.prepare("insert_order", "INSERT INTO orders (item) VALUES ($1) RETURNING id")
since = now
keys = (0...20).map { |n| conn.exec_prepared("insert_order", ["prepared #{n}"]).getvalue(0, 0) }
check_keys(conn, "exec_prepared", keys, 20, since)

# COPY without the key: the default draws it.
encoder = PG::TextEncoder::CopyRow.new
since = now
before = conn.exec("SELECT snowflake_nextval()").getvalue(0, 0)
conn.copy_data("COPY orders (item) FROM STDIN", encoder) do
  1000.times { |n| conn.put_copy_data(["copied #{n}"]) }
end
keys = conn.exec_params("SELECT id FROM orders WHERE id > $1 ORDER BY id", [before]).column_values(0)
check_keys(conn, "COPY", keys, 1000, since)

# COPY does not return keys.  Where they are needed, draw them before.
since = now
keys = conn.exec_params("SELECT snowflake_nextval($1)", [1000]).column_values(0)
conn.copy_data("COPY orders (id, item) FROM STDIN", encoder) do
  keys.each { |id| conn.put_copy_data([id, "copied with its key"]) }
end
check_keys(conn, "keys drawn for COPY", keys, 1000, since)

# Rows of a period, by the primary key.  PG::BasicTypeMapForQueries writes a
# Time with its zone and all its digits; a plain to_s loses those of a second.
conn.type_map_for_queries = PG::BasicTypeMapForQueries.new(conn)
till = now + 1
in_period = "SELECT count(*) FROM orders WHERE snowflake_in(id, $1, $2)"
total = conn.exec("SELECT count(*) FROM orders").getvalue(0, 0)
found = conn.exec_params(in_period, [began, till]).getvalue(0, 0)
check("snowflake_in() finds the rows", found == total && total == 3022, [found, total])
from = began
rows = conn.exec_params("SELECT * FROM orders WHERE snowflake_in(id, $1, $2)", [from, till])
check("and returns them", rows.ntuples == total, rows.ntuples)
found = conn.exec_params(in_period, [began - 86400, began]).getvalue(0, 0)
check("and none where there are none", found == 0, found)
lo, hi = conn.exec_params("SELECT lower(r), upper(r) FROM id_range_for($1, $2) AS r",
                          [began, till]).values[0]
found = conn.exec_params("SELECT count(*) FROM orders WHERE id >= $1 AND id < $2", [lo, hi]).getvalue(0, 0)
check("id_range_for() finds the rows", found == total, [lo, hi, found])

# One argument is a day or an instant.
id_range_for = lambda do |*args|
  conn.exec_params("SELECT id_range_for(#{(1..args.length).map { |n| "$#{n}" }.join(', ')})", args).getvalue(0, 0)
end
day = began.to_date
ids = id_range_for.call(day, day + 1)
check("id_range_for() of a Date is the day", [day, day.to_s].all? { |d| id_range_for.call(d) == ids }, ids)
ids = id_range_for.call(began, began + 0.001r)
check("id_range_for() of a Time is the millisecond",
      [began, began.strftime("%F %T.%L %z")].all? { |t| id_range_for.call(t) == ids }, ids)

# JSON in Ruby keeps all digits.
json = conn.exec_params("SELECT row_to_json(orders)::text FROM orders WHERE id = $1", [key]).getvalue(0, 0)
check("JSON keeps the digits", JSON.parse(json)["id"] == key && JSON.generate(key) == key.to_s, json)

conn.close
puts "1..#{$ran}"
exit $failed == 0
