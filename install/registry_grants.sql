GRANT SELECT ON snowflake_registry TO pg_monitor;
GRANT SELECT ON snowflake_nodes TO pg_monitor;
GRANT SELECT ON snowflake_node_counts TO pg_monitor;
GRANT SELECT ON snowflake_segments TO PUBLIC;
