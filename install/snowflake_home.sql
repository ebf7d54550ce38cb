--
-- Made and written by the background workers of snowflake, and by nobody else.
-- An extension of its own, so that it neither depends on whether the home
-- database uses snowflake, nor gets into a dump.
--

CREATE SCHEMA snowflake_home;
COMMENT ON SCHEMA snowflake_home IS
'what the background workers of snowflake keep for this server; do not change it';

CREATE SEQUENCE snowflake_home.mark AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_home.mark IS
'the durable mark: all IDs issued so far have times before it, in microseconds since 1970';

-- The node is NULL if it is leased, or the layout has none.  The timeline is the one on
-- which it is known that no other server draws as this node.
CREATE TABLE snowflake_home.recorded (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    layout text NOT NULL,
    epoch timestamptz NOT NULL,
    node integer,
    timeline bigint NOT NULL
);
COMMENT ON TABLE snowflake_home.recorded IS
'layout, epoch and node number of this server''s snowflake IDs, to notice a change';

-- IDs of snowflake_backfill() in the time units of a stretch (2^22 units) may have sequence
-- numbers below "used"; -1 stands for any stretch, and -2 - n for any up to stretch n.
CREATE TABLE snowflake_home.backfill (
    stretch bigint PRIMARY KEY,
    used bigint NOT NULL
);
COMMENT ON TABLE snowflake_home.backfill IS
'how many sequence numbers snowflake_backfill() may have used, by stretches of time';

-- The deadline is in microseconds of a clock that begins with the boot of the machine.  IDs
-- have times from the floor on and below the mark, in microseconds since 1970-01-01 UTC.  What
-- was seen of the registry is -1 for nothing.  A registered number has the largest mark, and
-- the largest deadline, or 0 while the registry has not registered it.
CREATE TABLE snowflake_home.lease (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    node integer NOT NULL,
    deadline bigint NOT NULL,
    mark bigint NOT NULL,
    floor bigint NOT NULL,
    token uuid NOT NULL,
    instance text NOT NULL,
    timeline bigint NOT NULL,
    origin bigint NOT NULL,
    registry text NOT NULL,
    changes bigint NOT NULL,
    renewals bigint NOT NULL
);
COMMENT ON TABLE snowflake_home.lease IS
'the lease or registration of this server''s node number, as the registry last confirmed it';

--
-- A publication FOR ALL TABLES in the home database has these tables too.  So
-- each has a primary key, without which nothing could be deleted once it is
-- published; and two triggers, so that the rows of another server do not take
-- the place of this server's.
--
CREATE FUNCTION snowflake_home.discard()
RETURNS trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_home_discard';
COMMENT ON FUNCTION snowflake_home.discard() IS
'trigger: discard what logical replication writes, and refuse to truncate';
REVOKE ALL ON FUNCTION snowflake_home.discard() FROM PUBLIC;

CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON snowflake_home.recorded
    FOR EACH ROW EXECUTE FUNCTION snowflake_home.discard();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_home.recorded
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_home.discard();
ALTER TABLE snowflake_home.recorded
    ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON snowflake_home.backfill
    FOR EACH ROW EXECUTE FUNCTION snowflake_home.discard();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_home.backfill
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_home.discard();
ALTER TABLE snowflake_home.backfill
    ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate;

CREATE TRIGGER discard_replicated BEFORE INSERT OR UPDATE OR DELETE ON snowflake_home.lease
    FOR EACH ROW EXECUTE FUNCTION snowflake_home.discard();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON snowflake_home.lease
    FOR EACH STATEMENT EXECUTE FUNCTION snowflake_home.discard();
ALTER TABLE snowflake_home.lease
    ENABLE REPLICA TRIGGER discard_replicated, ENABLE ALWAYS TRIGGER refuse_truncate;
