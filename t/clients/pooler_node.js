// node-postgres through pgbouncer in transaction mode, where each transaction may
// go to another server connection.  PGHOST is pgbouncer's.

const { Pool } = require('pg');
const { check, checkKeys, done } = require('./checks.js');

async function main() {
  const pool = new Pool({ max: 8 });
  await pool.query(`
    CREATE TABLE node_orders (
      id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
      item text NOT NULL
    )`);

  // Statements with parameters, but without a name: pgbouncer before 1.21 knows
  // nothing of prepared statements.
  const since = new Date();
  const results = await Promise.all(Array.from({ length: 400 }, (_, n) => pool.query(
    'INSERT INTO node_orders (item) VALUES ($1), ($1) RETURNING id, pg_backend_pid() AS pid',
    [`item ${n}`])));
  const pids = new Set(results.map(({ rows }) => rows[0].pid));
  check('8 clients share 2 server connections', pids.size <= 2, pids);
  await checkKeys(pool, 'all clients',
    results.flatMap(({ rows }) => rows.map((row) => row.id)), 800, 'string', since, false);
  check('those of a statement ascend',
    results.every(({ rows }) => BigInt(rows[0].id) < BigInt(rows[1].id)));
  const { rows } = await pool.query(
    'SELECT count(*)::int AS n FROM node_orders WHERE snowflake_in(id, $1, $2)',
    [since, new Date(Date.now() + 1000)]);
  check('snowflake_in() finds the rows', rows[0].n === 800, rows);

  await pool.end();
  done();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
