/* snowflake_home--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION snowflake_home" to load this file. \quit

--
-- Made and written by the background worker of snowflake (src/reserve.c), and
-- by nobody else.  An extension of its own, so that it neither depends on
-- whether the home database uses snowflake, nor gets into a dump.
--

CREATE SCHEMA snowflake_home;

COMMENT ON SCHEMA snowflake_home IS
'the durable mark of this server''s snowflake IDs; do not change';

CREATE SEQUENCE snowflake_home.mark AS bigint MINVALUE 0 START 0;

COMMENT ON SEQUENCE snowflake_home.mark IS
'microseconds since 1970-01-01 UTC: all snowflake IDs issued so far have a time before';
