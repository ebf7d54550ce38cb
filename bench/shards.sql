-- What bench/shards.sh needs in its server.

CREATE UNLOGGED TABLE orders (id bigint DEFAULT snowflake_nextval());
CREATE UNLOGGED TABLE items (id bigint DEFAULT snowflake_nextval());

-- So many orders, each with its items in a transaction.  After a batch of orders the session
-- sleeps for 1 to most_ms milliseconds.
CREATE PROCEDURE put_orders(orders integer, items integer, batch integer, most_ms integer)
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. orders LOOP
        INSERT INTO orders DEFAULT VALUES;
        FOR j IN 1 .. items LOOP
            INSERT INTO items DEFAULT VALUES;
        END LOOP;
        COMMIT;
        IF i % batch = 0 THEN
            PERFORM pg_sleep((1 + floor(random() * most_ms)) / 1000);
        END IF;
    END LOOP;
END
$$;

-- How far the fullest of n classes of id % n is above its share, in percent, for the n of
-- 2 to 64 for which that is the most.
CREATE FUNCTION fullest(ids text, OUT percent float8, OUT n integer) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('
        SELECT 100 * (max(ids) * n / sum(ids) - 1), n
        FROM generate_series(2, 64) AS n, LATERAL (SELECT count(*) AS ids FROM %s GROUP BY id %% n) AS c
        GROUP BY n ORDER BY 1 DESC LIMIT 1', ids) INTO percent, n;
END
$$;

CREATE TABLE evenness (start text, sessions integer, items integer, ms bigint,
    orders float8, orders_n integer, order_items float8, chance float8);

CREATE PROCEDURE note_evenness(start text, sessions integer, items integer) LANGUAGE sql AS $$
    CREATE TEMP TABLE chance AS SELECT floor(random() * 1e9)::bigint AS id FROM orders;
    CREATE TEMP TABLE some_items AS SELECT id FROM items LIMIT (SELECT count(*) FROM orders);
    INSERT INTO evenness
    SELECT $1, $2, $3, (SELECT count(DISTINCT id >> 22) FROM orders),
           o.percent, o.n, i.percent, c.percent
    FROM fullest('orders') AS o, fullest('some_items') AS i, fullest('chance') AS c;
    DROP TABLE chance, some_items
$$;

CREATE VIEW evenness_report AS
SELECT sessions, items AS "items an order", min(ms) AS "milliseconds",
       max(orders::numeric(9, 1)) FILTER (WHERE start = 'continue') AS "orders, continue",
       max(orders_n) FILTER (WHERE start = 'continue') AS "at n",
       max(orders::numeric(9, 1)) FILTER (WHERE start = 'random') AS "orders, random",
       max(orders_n) FILTER (WHERE start = 'random') AS "at n ",
       max(chance::numeric(9, 1)) AS "chance",
       max(order_items::numeric(9, 1)) FILTER (WHERE start = 'continue') AS "items, continue",
       max(order_items::numeric(9, 1)) FILTER (WHERE start = 'random') AS "items, random"
FROM evenness
GROUP BY 1, 2 ORDER BY 1, 2;
