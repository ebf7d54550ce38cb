// JDBC, with PostgreSQL's driver.  Run by java -cp postgresql.jar Jdbc.java URL,
// or Jdbc.java URL pooled where that leads to a pgbouncer in transaction mode.

import java.math.BigDecimal;
import java.sql.*;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.*;

public class Jdbc {
    static final String INSERT = "INSERT INTO orders (item) VALUES (?)";
    static final String IN_PERIOD = "SELECT count(*) FROM orders WHERE snowflake_in(id, ?, ?)";

    public static void main(String[] args) throws SQLException {
        try (Connection conn = DriverManager.getConnection(args[0])) {
            DatabaseMetaData driver = conn.getMetaData();
            System.out.println("# " + driver.getDriverName() + " " + driver.getDriverVersion()
                + ", Java " + System.getProperty("java.version"));
            try (Statement st = conn.createStatement()) {
                st.execute("CREATE EXTENSION IF NOT EXISTS snowflake");
                st.execute("CREATE TABLE orders ("
                    + " id bigint PRIMARY KEY DEFAULT snowflake_nextval(),"
                    + " item text NOT NULL)");
            }
            OffsetDateTime began = now();
            if (args.length > 1) {
                pooled(conn, args[0]);
            } else {
                generatedKeys(conn);
                batch(conn, "batch", 1000);
                rewrittenBatch(args[0]);
                prepared(conn, began);
                ranges(conn, began);
                getters(conn);
                metadata(conn);
            }
        }
        System.out.println("1.." + ran);
        System.exit(failed > 0 ? 1 : 0);
    }

    // One row.  Name the key's column: RETURN_GENERATED_KEYS returns them all.
    static void generatedKeys(Connection conn) throws SQLException {
        OffsetDateTime since = now();
        List<Long> keys = new ArrayList<>();
        try (PreparedStatement ps = conn.prepareStatement(INSERT, new String[] {"id"})) {
            ps.setString(1, "tea");
            ps.executeUpdate();
            try (ResultSet rs = ps.getGeneratedKeys()) {
                while (rs.next())
                    keys.add(rs.getLong(1));
            }
        }
        checkKeys(conn, "getGeneratedKeys() of a named column", keys, 1, since);

        since = now();
        keys.clear();
        try (PreparedStatement ps = conn.prepareStatement(INSERT, Statement.RETURN_GENERATED_KEYS)) {
            ps.setString(1, "coffee");
            ps.executeUpdate();
            try (ResultSet rs = ps.getGeneratedKeys()) {
                while (rs.next())
                    keys.add(rs.getLong("id"));
            }
        }
        checkKeys(conn, "RETURN_GENERATED_KEYS", keys, 1, since);
    }

    // Many rows: the keys come in the order of the batch.
    static List<Long> batch(Connection conn, String what, int count) throws SQLException {
        List<String> items = new ArrayList<>();
        for (int n = 0; n < count; n++)
            items.add(what + " " + n);
        OffsetDateTime since = now();
        List<Long> keys = new ArrayList<>();
        try (PreparedStatement ps = conn.prepareStatement("INSERT INTO orders (item) VALUES (?)", new String[] {"id"})) {
            for (String item : items) {
                ps.setString(1, item);
                ps.addBatch();
            }
            ps.executeBatch();
            try (ResultSet rs = ps.getGeneratedKeys()) {
                while (rs.next())
                    keys.add(rs.getLong(1));
            }
        }
        checkKeys(conn, what, keys, count, since);

        // Each is the key of its own row.
        try (PreparedStatement ps = conn.prepareStatement(
                "SELECT array_agg(item ORDER BY n) FROM unnest(?) WITH ORDINALITY AS k (id, n)"
                + " JOIN orders USING (id)")) {
            ps.setArray(1, conn.createArrayOf("bigint", keys.toArray()));
            try (ResultSet rs = ps.executeQuery()) {
                rs.next();
                List<String> found = Arrays.asList((String[]) rs.getArray(1).getArray());
                check(what + ": each has the key of its own row", found.equals(items), found);
            }
        }
        return keys;
    }

    // reWriteBatchedInserts makes one INSERT of many rows from a batch, but not
    // where keys are asked for.  A trigger counts statements.
    static void rewrittenBatch(String url) throws SQLException {
        String rewrite = url + (url.contains("?") ? "&" : "?") + "reWriteBatchedInserts=true";
        try (Connection conn = DriverManager.getConnection(rewrite);
                Statement st = conn.createStatement()) {
            st.execute("CREATE TABLE statements (n int)");
            st.execute("CREATE FUNCTION count_it() RETURNS trigger LANGUAGE plpgsql AS"
                + " 'BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END'");
            st.execute("CREATE TRIGGER count_it AFTER INSERT ON orders"
                + " EXECUTE FUNCTION count_it()");

            batch(conn, "reWriteBatchedInserts", 1000);
            System.out.println("# " + longOf(st, "SELECT count(*) FROM statements")
                + " statements for 1000 rows with keys");

            OffsetDateTime since = now();
            st.execute("TRUNCATE statements");
            long before = longOf(st, "SELECT snowflake_nextval()");
            try (PreparedStatement ps = conn.prepareStatement(INSERT)) {
                for (int n = 0; n < 1000; n++) {
                    ps.setString(1, "rewritten " + n);
                    ps.addBatch();
                }
                ps.executeBatch();
            }
            long statements = longOf(st, "SELECT count(*) FROM statements");
            check("reWriteBatchedInserts without keys: few statements",
                statements > 0 && statements < 100, statements);
            System.out.println("# " + statements + " statements for 1000 rows without keys");
            List<Long> keys = new ArrayList<>();
            try (ResultSet rs = st.executeQuery(
                    "SELECT id FROM orders WHERE id > " + before + " ORDER BY id")) {
                while (rs.next())
                    keys.add(rs.getLong(1));
            }
            checkKeys(conn, "reWriteBatchedInserts without keys", keys, 1000, since);

            // Where both are wanted: draw the keys before.
            since = now();
            keys.clear();
            st.execute("TRUNCATE statements");
            try (ResultSet rs = st.executeQuery("SELECT snowflake_nextval(1000)")) {
                while (rs.next())
                    keys.add(rs.getLong(1));
            }
            try (PreparedStatement ps = conn.prepareStatement(
                    "INSERT INTO orders (id, item) VALUES (?, ?)")) {
                for (long key : keys) {
                    ps.setLong(1, key);
                    ps.setString(2, "drawn before");
                    ps.addBatch();
                }
                ps.executeBatch();
            }
            statements = longOf(st, "SELECT count(*) FROM statements");
            check("keys drawn before: few statements", statements > 0 && statements < 100, statements);
            checkKeys(conn, "keys drawn before", keys, 1000, since);
            st.execute("DROP TRIGGER count_it ON orders");
        }
    }

    // The driver prepares a statement on the server with its fifth execution
    // (prepareThreshold), and the server may take a generic plan five later.
    static void prepared(Connection conn, OffsetDateTime began) throws SQLException {
        OffsetDateTime since = now();
        List<Long> keys = new ArrayList<>();
        long wrong = 0;
        try (Statement st = conn.createStatement();
                PreparedStatement insert = conn.prepareStatement(INSERT, new String[] {"id"});
                PreparedStatement count = conn.prepareStatement(IN_PERIOD)) {
            long total = longOf(st, "SELECT count(*) FROM orders");
            count.setObject(1, began);
            count.setObject(2, now().plusMinutes(1));
            for (int n = 0; n < 20; n++) {
                insert.setString(1, "prepared " + n);
                insert.executeUpdate();
                try (ResultSet rs = insert.getGeneratedKeys()) {
                    rs.next();
                    keys.add(rs.getLong(1));
                }
                try (ResultSet rs = count.executeQuery()) {
                    rs.next();
                    if (rs.getLong(1) != ++total)
                        wrong++;
                }
            }
            check("snowflake_in() in a prepared statement finds the rows each time", wrong == 0, wrong);
            long prepared = longOf(st, "SELECT count(*) FROM pg_prepared_statements"
                + " WHERE statement LIKE '%snowflake_in%' AND generic_plans > 0"
                + " OR statement LIKE 'INSERT INTO orders%RETURNING%'");
            check("both were prepared, the query with a generic plan", prepared == 2, prepared);
        }
        checkKeys(conn, "prepared statements", keys, 20, since);
    }

    // Rows of a period, by the primary key.
    static void ranges(Connection conn, OffsetDateTime began) throws SQLException {
        OffsetDateTime until = now().plusSeconds(1);
        try (Statement st = conn.createStatement();
                PreparedStatement in = conn.prepareStatement(IN_PERIOD);
                PreparedStatement range = conn.prepareStatement(
                    "SELECT lower(r), upper(r) FROM id_range_for(?, ?) AS r");
                PreparedStatement between = conn.prepareStatement(
                    "SELECT count(*) FROM orders WHERE id >= ? AND id < ?")) {
            long total = longOf(st, "SELECT count(*) FROM orders");
            in.setObject(1, began);
            in.setObject(2, until);
            check("snowflake_in() finds the rows", longOf(in) == total && total == 4022, total);
            in.setObject(1, began.minusDays(1));
            in.setObject(2, began);
            check("and none where there are none", longOf(in) == 0, longOf(in));
            range.setObject(1, began);
            range.setObject(2, until);
            try (ResultSet rs = range.executeQuery()) {
                rs.next();
                between.setLong(1, rs.getLong(1));
                between.setLong(2, rs.getLong(2));
            }
            check("id_range_for() finds the rows", longOf(between) == total, longOf(between));
        }

        // One argument is a day or an instant, whatever sets it.
        LocalDate day = LocalDate.of(2026, 11, 20);
        String ids = rangeOf(conn, day, day.plusDays(1));
        for (Object date : new Object[] {day, java.sql.Date.valueOf(day), day.toString()})
            check("id_range_for() of a " + date.getClass().getName() + " is the day",
                ids.equals(rangeOf(conn, date)), rangeOf(conn, date));
        ids = rangeOf(conn, began, began.plus(1, ChronoUnit.MILLIS));
        for (Object time : new Object[] {began, Timestamp.from(began.toInstant()), began.toString()})
            check("id_range_for() of a " + time.getClass().getName() + " is the millisecond",
                ids.equals(rangeOf(conn, time)), rangeOf(conn, time));
    }

    static String rangeOf(Connection conn, Object... args) throws SQLException {
        String marks = String.join(", ", Collections.nCopies(args.length, "?"));
        try (PreparedStatement ps = conn.prepareStatement("SELECT id_range_for(" + marks + ")::text")) {
            for (int n = 0; n < args.length; n++)
                ps.setObject(n + 1, args[n]);
            try (ResultSet rs = ps.executeQuery()) {
                rs.next();
                return rs.getString(1);
            }
        }
    }

    // Two clients take turns on the connections of the pool.
    static void pooled(Connection conn, String url) throws SQLException {
        OffsetDateTime since = now();
        Set<Long> keys = new HashSet<>();
        Set<Long> backends = new HashSet<>();
        boolean ascending = true, own = true;
        try (Connection other = DriverManager.getConnection(url)) {
            Connection[] both = {conn, other};
            for (Connection each : both)
                each.setAutoCommit(false);
            for (int n = 0; n < 200; n++) {
                // One of them stays in its transaction while the other draws.
                Connection each = both[n % 2];
                long last = 0;
                for (int row = 0; row < 5; row++) {
                    try (PreparedStatement ps = each.prepareStatement(INSERT, new String[] {"id"})) {
                        ps.setString(1, "pooled " + n);
                        ps.executeUpdate();
                        try (ResultSet rs = ps.getGeneratedKeys()) {
                            rs.next();
                            ascending &= rs.getLong(1) > last;
                            last = rs.getLong(1);
                            keys.add(last);
                        }
                    }
                }
                try (Statement st = each.createStatement()) {
                    own &= longOf(st, "SELECT snowflake_currval()") == last;
                    backends.add(longOf(st, "SELECT pg_backend_pid()"));
                }
                both[(n + n / 4) % 2].commit();
            }
            other.commit();
            batch(conn, "batch", 1000);
            conn.commit();
        }
        check("two clients: 1000 keys, all of them different", keys.size() == 1000, keys.size());
        check("two clients: ascending within each transaction", ascending, keys);
        check("two clients: snowflake_currval() is the client's own within it", own, keys);
        check("two clients: on both connections of the pool", backends.size() == 2, backends);
        List<Long> sorted = new ArrayList<>(keys);
        Collections.sort(sorted);
        checkKeys(conn, "two clients", sorted, 1000, since);
        conn.commit();
    }

    // A bigint is a long.
    static void getters(Connection conn) throws SQLException {
        try (Statement st = conn.createStatement();
                ResultSet rs = st.executeQuery("SELECT id, id::text AS text FROM orders ORDER BY id LIMIT 1")) {
            rs.next();
            long key = rs.getLong(1);
            check("getLong(), getObject() and getBigDecimal() are exact",
                String.valueOf(key).equals(rs.getString(2))
                && rs.getObject(1).equals(key) && rs.getBigDecimal(1).equals(BigDecimal.valueOf(key)), key);
            String state = "";
            try {
                rs.getInt(1);
            } catch (SQLException e) {
                state = e.getSQLState();
            }
            check("getInt() is an error, not another number", state.equals("22003"), state);
        }
    }

    // The driver takes a default with "nextval(" for that of a sequence.
    static void metadata(Connection conn) throws SQLException {
        try (Statement st = conn.createStatement()) {
            st.execute("CREATE TABLE other_orders (id bigint PRIMARY KEY DEFAULT snowflake_next())");
        }
        check("snowflake_nextval() is shown as bigserial and autoincrement",
            columnOf(conn, "orders").equals("bigserial YES bigserial true"), columnOf(conn, "orders"));
        check("snowflake_next() is shown as int8",
            columnOf(conn, "other_orders").equals("int8 NO int8 false"), columnOf(conn, "other_orders"));
    }

    static String columnOf(Connection conn, String table) throws SQLException {
        try (ResultSet rs = conn.getMetaData().getColumns(null, "public", table, "id");
                Statement st = conn.createStatement();
                ResultSet rows = st.executeQuery("SELECT id FROM " + table)) {
            ResultSetMetaData row = rows.getMetaData();
            rs.next();
            return rs.getString("TYPE_NAME") + " " + rs.getString("IS_AUTOINCREMENT")
                + " " + row.getColumnTypeName(1) + " " + row.isAutoIncrement(1);
        }
    }

    //
    // What is checked, as TAP
    //

    static int ran, failed;

    static void check(String name, boolean passed, Object found) {
        ran++;
        System.out.println((passed ? "ok " : "not ok ") + ran + " - " + name);
        if (!passed) {
            failed++;
            System.out.println("# found " + found);
        }
    }

    // IDs have milliseconds.
    static OffsetDateTime now() {
        return Instant.now().truncatedTo(ChronoUnit.MILLIS).atOffset(ZoneOffset.UTC);
    }

    static long longOf(Statement st, String query) throws SQLException {
        try (ResultSet rs = st.executeQuery(query)) {
            rs.next();
            return rs.getLong(1);
        }
    }

    static long longOf(PreparedStatement ps) throws SQLException {
        try (ResultSet rs = ps.executeQuery()) {
            rs.next();
            return rs.getLong(1);
        }
    }

    // keys are in the order in which the driver returned them, and since is
    // now() before they were drawn.
    static void checkKeys(Connection conn, String what, List<Long> keys, int count,
            OffsetDateTime since) throws SQLException {
        boolean ascending = true;
        for (int n = 1; n < keys.size(); n++)
            ascending &= keys.get(n - 1) < keys.get(n);
        check(what + ": " + count + " keys", keys.size() == count, keys);
        check(what + ": all of them different", new HashSet<>(keys).size() == count, keys);
        check(what + ": ascending", ascending, keys);

        try (PreparedStatement ps = conn.prepareStatement(
                "SELECT p.ts, p.node, current_setting('snowflake.node_id')::int"
                + " FROM unnest(?) AS id, snowflake_parse(id) AS p")) {
            ps.setArray(1, conn.createArrayOf("bigint", keys.toArray()));
            int seen = 0;
            boolean times = true, nodes = true;
            try (ResultSet rs = ps.executeQuery()) {
                OffsetDateTime last = now();
                for (; rs.next(); seen++) {
                    OffsetDateTime ts = rs.getObject(1, OffsetDateTime.class);
                    times &= !ts.isBefore(since) && !ts.isAfter(last);
                    nodes &= rs.getInt(2) == rs.getInt(3);
                }
            }
            check(what + ": with the time at which they were drawn", seen == count && times, keys);
            check(what + ": with the server's node number", seen == count && nodes, keys);
        }
    }
}
