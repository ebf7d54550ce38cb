# Prints the checks that hold.
require "sequel"

DB = Sequel.connect(ENV["DATABASE_URL"])
DB.tables.include?(:orders) or raise "no table"

class Order < Sequel::Model
end

def check(name)
  puts name if yield
end

def id?(*keys)
  keys.all? { |key| key.is_a?(Integer) && key > 2**53 }
end

order = Order.create(item: "tea")
check("create") { id?(order.id) && order.reload.item == "tea" }
check("insert") { id?(DB[:orders].insert(item: "tea")) }
keys = DB[:orders].multi_insert([{ item: "a" }, { item: "b" }], return: :primary_key)
check("multi_insert") { id?(*keys) && keys.uniq.size == 2 }
check("no sequence") { DB.primary_key_sequence(:orders).nil? }
check("reset") { DB.reset_primary_key_sequence(:orders).nil? }

count = Order.where(Sequel.function(:snowflake_in, :id, Time.now - 60, Time.now + 60)).count
check("snowflake_in") { count == 4 }

DB.tables.each { |table| DB[table].truncate(cascade: true, restart: true) }
check("truncate") { Order.count == 0 }
check("create again") { id?(Order.create(item: "tea").id) }
