-- What bench/shards.sh needs in its server.

CREATE UNLOGGED TABLE orders (id bigint DEFAULT snowflake_nextval());
CREATE UNLOGGED TABLE items (id bigint DEFAULT snowflake_nextval());

CREATE FUNCTION put_order(items integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders DEFAULT VALUES;
    FOR i IN 1 .. items LOOP
        INSERT INTO items DEFAULT VALUES;
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
    CREATE TEMP TABLE chance AS SELECT (random() * 1e15)::bigint AS id FROM orders;
    INSERT INTO evenness
    SELECT $1, $2, $3, (SELECT count(DISTINCT id >> 22) FROM orders),
           o.percent, o.n, i.percent, c.percent
    FROM fullest('orders') AS o, fullest('items') AS i, fullest('chance') AS c;
    DROP TABLE chance
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
