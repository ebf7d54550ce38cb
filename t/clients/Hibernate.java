// Hibernate: keys that the server draws for each row, and keys that are drawn in
// blocks before, as its pooled optimizer does with a sequence.  Run by
// java -cp JARS Hibernate URL.

import java.io.Serializable;
import java.sql.*;
import java.util.*;
import javax.persistence.*;

import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.GenericGenerator;
import org.hibernate.cfg.Configuration;
import org.hibernate.engine.SessionImplementor;
import org.hibernate.id.IdentifierGenerator;
import org.hibernate.id.IdentifierGeneratorHelper;
import org.hibernate.id.enhanced.Optimizer;
import org.hibernate.id.enhanced.OptimizerFactory;
import org.hibernate.jdbc.Work;

public class Hibernate {
    // The key is the column's default.
    @Entity(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        public Long id;

        public String item;
    }

    // The key comes from a block.
    @Entity(name = "lines")
    public static class Line {
        @Id
        @GeneratedValue(generator = "snowflake")
        @GenericGenerator(name = "snowflake", strategy = "Hibernate$Snowflake")
        public Long id;

        public String item;
    }

    // The key comes from a sequence, also where the table has another default.
    @Entity(name = "tickets")
    public static class Ticket {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "tickets")
        @SequenceGenerator(name = "tickets", sequenceName = "tickets_seq", allocationSize = 50)
        public Long id;
    }

    // Draws 50 IDs at a time.  What was not used within a second is left out, so
    // that the time in an ID is that of the row.
    public static class Snowflake implements IdentifierGenerator {
        private final Deque<Long> drawn = new ArrayDeque<>();
        private long drawnAt;

        @Override
        public synchronized Serializable generate(SessionImplementor session, Object entity) {
            if (drawn.isEmpty() || System.nanoTime() - drawnAt > 1_000_000_000L) {
                drawn.clear();
                drawnAt = System.nanoTime();
                ((Session) session).doWork(conn -> {
                    try (Statement st = conn.createStatement();
                            ResultSet rs = st.executeQuery("SELECT snowflake_nextval(50)")) {
                        while (rs.next())
                            drawn.add(rs.getLong(1));
                    }
                });
            }
            return drawn.remove();
        }
    }

    static final int ROWS = 1010;

    public static void main(String[] args) {
        System.out.println("# Java " + System.getProperty("java.version"));
        SessionFactory factory = new Configuration()
            .addAnnotatedClass(Order.class)
            .addAnnotatedClass(Line.class)
            .addAnnotatedClass(Ticket.class)
            .setProperty("hibernate.id.new_generator_mappings", "true")
            .setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect")
            .setProperty("hibernate.connection.url", args[0])
            .setProperty("hibernate.jdbc.batch_size", "50")
            .buildSessionFactory();
        try (Connection conn = DriverManager.getConnection(args[0]); Statement st = conn.createStatement()) {
            st.execute("CREATE EXTENSION IF NOT EXISTS snowflake");
            for (String table : new String[] {"orders", "lines"})
                st.execute("CREATE TABLE " + table + " (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)");

            List<Long> keys = new ArrayList<>();
            Session session = factory.openSession();
            session.beginTransaction();
            for (int n = 0; n < 10; n++) {
                Order order = new Order();
                session.save(order);
                keys.add(order.id);
            }
            session.getTransaction().commit();
            checkKeys(st, "IDENTITY", "orders", keys);

            keys.clear();
            session.beginTransaction();
            for (int n = 0; n < ROWS; n++) {
                Line line = new Line();
                session.save(line);
                keys.add(line.id);
            }
            session.getTransaction().commit();
            checkKeys(st, "blocks", "lines", keys);
            // A block is of one moment.
            long calls = longOf(st, "SELECT count(DISTINCT snowflake_timestamp(id)) FROM lines");
            check("blocks: few draws", calls < ROWS / 10, calls);

            // What is left over of the last block, 40 IDs, is used for a second only.
            long before = longOf(st, "SELECT snowflake_nextval()");
            int old = 0;
            for (long id = 0; id < before && old < 40; Thread.sleep(100)) {
                Line line = new Line();
                session.beginTransaction();
                session.save(line);
                session.getTransaction().commit();
                id = line.id;
                old += id < before ? 1 : 0;
            }
            check("blocks: an old one is not used up", old < 40, old);

            // A pooled optimizer counts up to an ID.  The numbers below that are IDs of
            // others, which were drawn in the same millisecond.
            List<Long> drawn = new ArrayList<>();
            try (ResultSet rs = st.executeQuery("SELECT snowflake_nextval(1000)")) {
                while (rs.next())
                    drawn.add(rs.getLong(1));
            }
            long top = drawn.stream().filter(id -> drawn.contains(id - 1)).max(Long::compare).get();
            Optimizer pooled = OptimizerFactory.buildOptimizer("pooled", Long.class, 50, -1);
            Set<Object> counted = new HashSet<>();
            for (int n = 0; n < 50; n++)
                counted.add(pooled.generate(() ->
                    IdentifierGeneratorHelper.getIntegralDataTypeHolder(Long.class).initialize(top)));
            counted.remove(top);
            counted.retainAll(drawn);
            check("a pooled optimizer makes IDs that others have", !counted.isEmpty(), drawn);
            System.out.println("# " + counted.size() + " of 50");

            // SEQUENCE goes on with its numbers after a conversion.
            st.execute("CREATE SEQUENCE tickets_seq INCREMENT 50");
            st.execute("CREATE TABLE tickets (id bigint PRIMARY KEY)");
            st.execute("SELECT snowflake_convert('tickets', 'id', dry_run => false)");
            Ticket ticket = new Ticket();
            session.beginTransaction();
            session.save(ticket);
            session.getTransaction().commit();
            check("SEQUENCE: a number after a conversion", ticket.id < 50, ticket.id);
            session.close();
        } catch (SQLException | InterruptedException e) {
            check("no error", false, e);
        }
        System.out.println("1.." + ran);
        System.exit(failed > 0 ? 1 : 0);
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

    static long longOf(Statement st, String query) throws SQLException {
        try (ResultSet rs = st.executeQuery(query)) {
            rs.next();
            return rs.getLong(1);
        }
    }

    // The keys are those of the rows, in the order in which the objects got them.
    static void checkKeys(Statement st, String what, String table, List<Long> keys) throws SQLException {
        List<Long> stored = new ArrayList<>();
        try (ResultSet rs = st.executeQuery("SELECT id FROM " + table + " ORDER BY id")) {
            while (rs.next())
                stored.add(rs.getLong(1));
        }
        check(what + ": the objects have the keys of the rows, ascending", stored.equals(keys), keys);
        check(what + ": of this minute", longOf(st, "SELECT count(*) FROM " + table
            + " WHERE snowflake_in(id, now() - interval '1 minute', 'infinity')") == keys.size(), keys);
    }
}
