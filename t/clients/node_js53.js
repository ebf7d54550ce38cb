// node-postgres with snowflake.layout = 'js53': keys are numbers, everywhere.

const pg = require('pg');
const { check, checkKeys, done } = require('./checks.js');

// Only for servers with this layout.  It applies to all bigint columns.
pg.types.setTypeParser(20, (text) => {
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new RangeError(`${text} has more than 53 bits`);
  return number;
});

async function main() {
  const pool = new pg.Pool({ max: 1 });
  await pool.query('CREATE EXTENSION IF NOT EXISTS snowflake');
  await pool.query(`
    CREATE TABLE orders (
      id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
      item text NOT NULL
    )`);

  const since = new Date();
  let { rows } = await pool.query(
    'INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id',
    [Array.from({ length: 1000 }, (_, n) => `item ${n}`)]);
  const keys = rows.map((row) => row.id);

  // There are 256 of them a millisecond: the last are some ahead of the clock.
  await new Promise((resolve) => setTimeout(resolve, 20));
  await checkKeys(pool, 'js53', keys, 1000, 'number', since);

  ({ rows } = await pool.query(
    'SELECT id::text AS text, row_to_json(orders) AS json FROM orders ORDER BY id'));
  check('row_to_json(): exact', rows.length === 1000
    && rows.every(({ text, json }, i) => String(json.id) === text && json.id === keys[i]), rows[0]);
  check('and back', JSON.parse(JSON.stringify(keys)).every((key, i) => key === keys[i]));
  ({ rows } = await pool.query('SELECT item FROM orders WHERE id = $1', [keys[999]]));
  check('a number finds its row', rows.length === 1 && rows[0].item === 'item 999', rows);

  ({ rows } = await pool.query(
    'SELECT count(*)::int AS n FROM orders WHERE snowflake_in(id, $1, $2)',
    [since, new Date(Date.now() + 1000)]));
  check('snowflake_in() finds the rows', rows[0].n === 1000, rows);

  await pool.end();
  done();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
