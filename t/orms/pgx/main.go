// pgx, version 4 or 5.  It connects to where PGHOST, PGDATABASE and so on say.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v4"
)

// As JavaScript needs it
type Order struct {
	ID   int64  `json:"id,string"`
	Item string `json:"item"`
}

// What is checked, as TAP
var ran, failed int

func check(name string, passed bool, found ...interface{}) {
	ran++
	if passed {
		fmt.Printf("ok %d - %s\n", ran, name)
	} else {
		failed++
		fmt.Printf("not ok %d - %s\n# found %v\n", ran, name, found)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println("# found", err)
		os.Exit(1)
	}
}

// IDs have milliseconds.
func now() time.Time { return time.Now().Truncate(time.Millisecond) }

func keysOf(rows pgx.Rows, err error) (keys []int64) {
	must(err)
	for rows.Next() {
		var id int64
		must(rows.Scan(&id))
		keys = append(keys, id)
	}
	must(rows.Err())
	return keys
}

// keys are those in the order in which the driver returned them, and since is
// now() before they were drawn.
func checkKeys(conn *pgx.Conn, what string, keys []int64, count int, since time.Time) {
	ascending := true
	for n := 1; n < len(keys); n++ {
		ascending = ascending && keys[n-1] < keys[n]
	}
	check(fmt.Sprintf("%s: %d keys", what, count), len(keys) == count, keys)
	check(what+": ascending, all of them different", ascending, keys)
	var times, nodes int
	must(conn.QueryRow(context.Background(),
		`SELECT count(*) FILTER (WHERE p.ts BETWEEN $1 AND clock_timestamp()),
		   count(*) FILTER (WHERE p.node = current_setting('snowflake.node_id')::int)
		 FROM unnest($2::bigint[]) AS id, snowflake_parse(id) AS p`, since, keys).Scan(&times, &nodes))
	check(what+": with the time at which they were drawn", times == count, times)
	check(what+": with the server's node number", nodes == count, nodes)
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "")
	must(err)
	_, err = conn.Exec(ctx, "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)")
	must(err)
	from := now()

	// One row
	since := now()
	var id int64
	err = conn.QueryRow(ctx, "INSERT INTO orders (item) VALUES ($1) RETURNING id", "tea").Scan(&id)
	must(err)
	checkKeys(conn, "INSERT", []int64{id}, 1, since)

	// A batch has the key of each row.
	items := make([]string, 1000)
	batch := &pgx.Batch{}
	for n := range items {
		items[n] = fmt.Sprint("item ", n)
		batch.Queue("INSERT INTO orders (item) VALUES ($1) RETURNING id", items[n])
	}
	since = now()
	results := conn.SendBatch(ctx, batch)
	keys := make([]int64, len(items))
	for n := range keys {
		must(results.QueryRow().Scan(&keys[n]))
	}
	must(results.Close())
	checkKeys(conn, "a batch", keys, 1000, since)

	// Many rows in one statement
	since = now()
	keys = keysOf(conn.Query(ctx, "INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id", items))
	checkKeys(conn, "one INSERT of many rows", keys, 1000, since)

	// COPY does not return keys.  Where they are needed, draw them before.
	since = now()
	keys = keysOf(conn.Query(ctx, "SELECT snowflake_nextval($1)", 1000))
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"},
		pgx.CopyFromSlice(len(keys), func(n int) ([]interface{}, error) { return []interface{}{keys[n], items[n]}, nil }))
	must(err)
	checkKeys(conn, "keys drawn for COPY", keys, 1000, since)

	// Rows of a period, by the primary key
	till := now().Add(time.Second)
	rows, err := conn.Query(ctx, "SELECT id, item FROM orders WHERE snowflake_in(id, $1, $2)", from, till)
	must(err)
	found := 0
	for rows.Next() {
		found++
	}
	check("snowflake_in() finds the rows", found == 3001, found)
	none := keysOf(conn.Query(ctx, "SELECT id FROM orders WHERE snowflake_in(id, $1, $2)", from.Add(-time.Hour), from))
	check("and none where there are none", len(none) == 0, none)

	// One argument is a day or an instant.
	bounds := func(call string, args ...interface{}) (b [2]int64) {
		must(conn.QueryRow(ctx, "SELECT lower(r), upper(r) FROM "+call+" AS r", args...).Scan(&b[0], &b[1]))
		return b
	}
	day := bounds("id_range_for('2026-11-20', '2026-11-21')")
	check("id_range_for() of a text is the day", bounds("id_range_for($1)", "2026-11-20") == day, day)
	check("id_range_for() of a date is the day",
		bounds("id_range_for($1::date)", time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)) == day, day)
	check("id_range_for() of a time is the millisecond",
		bounds("id_range_for($1::timestamptz)", from) == bounds("id_range_for($1, $2)", from, from.Add(time.Millisecond)))
	err = conn.QueryRow(ctx, "SELECT lower(id_range_for($1))", time.Now()).Scan(&id)
	check("without a cast a time is an error",
		err != nil && strings.Contains(err.Error(), "invalid input syntax for type timestamp with time zone"), err)

	// A key is an int64.  An even one may be a float64, too.
	item := 0
	for keys[item]%2 == 0 {
		item++
	}
	id = keys[item]
	scan := func(into interface{}) error { return conn.QueryRow(ctx, "SELECT $1::bigint", id).Scan(into) }
	var small int32
	err = scan(&small)
	check("an int32 is an error", err != nil && strings.Contains(err.Error(), "is greater than maximum value for int32"), err)
	var rounded float64
	err = scan(&rounded)
	check("a float64 is an error in version 4, and another number in 5",
		err != nil && strings.Contains(err.Error(), "cannot assign") || err == nil && int64(rounded) != id, err, id, rounded)
	fmt.Println("# float64:", err, id, int64(rounded))
	var text string
	must(conn.QueryRow(ctx, "SELECT item FROM orders WHERE id = $1", fmt.Sprint(id)).Scan(&text))
	check("a text finds its row", text == items[item], text)

	// JSON
	written, err := json.Marshal(Order{id, "tea"})
	check("JSON: a text", err == nil && string(written) == fmt.Sprintf(`{"id":"%d","item":"tea"}`, id), string(written))
	var order Order
	check("which is read back", json.Unmarshal(written, &order) == nil && order.ID == id, order)
	number := fmt.Sprintf(`{"id":%d}`, id)
	var any map[string]interface{}
	must(json.Unmarshal([]byte(number), &any))
	check("JSON: a number is rounded in an interface{}", int64(any["id"].(float64)) != id, any)
	decoder := json.NewDecoder(bytes.NewReader([]byte(number)))
	decoder.UseNumber()
	must(decoder.Decode(&any))
	check("but not by UseNumber()", any["id"].(json.Number).String() == fmt.Sprint(id), any)

	fmt.Printf("1..%d\n", ran)
	if failed > 0 {
		os.Exit(1)
	}
}
