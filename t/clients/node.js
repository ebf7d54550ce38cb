// node-postgres.  It connects to where PGHOST, PGDATABASE and so on say.

const { Client } = require('pg');
const { check, checkKeys, done } = require('./checks.js');

async function main() {
  console.log('# node-postgres', require('pg/package.json').version, 'in Node.js', process.version);
  const client = new Client();
  await client.connect();
  await client.query('CREATE EXTENSION IF NOT EXISTS snowflake');
  await client.query(`
    CREATE TABLE orders (
      id   bigint PRIMARY KEY DEFAULT snowflake_nextval(),
      item text NOT NULL
    )`);
  const began = new Date();

  // A key comes back as a string, exact, and can be given back as one.
  let since = new Date();
  let result = await client.query('INSERT INTO orders (item) VALUES ($1) RETURNING id', ['tea']);
  const id = result.rows[0].id;
  await checkKeys(client, 'INSERT', [id], 1, 'string', since);
  result = await client.query('SELECT item FROM orders WHERE id = $1', [id]);
  check('a string finds its row', result.rows.length === 1 && result.rows[0].item === 'tea', result.rows);

  // Many rows in one statement
  since = new Date();
  const items = Array.from({ length: 1000 }, (_, n) => `item ${n}`);
  let { rows } = await client.query(
    'INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id', [items]);
  await checkKeys(client, 'one INSERT of many rows', rows.map((row) => row.id), 1000, 'string', since);

  // A statement with a name is prepared once on each connection.
  since = new Date();
  const prepared = [];
  for (let n = 0; n < 20; n++) {
    ({ rows } = await client.query({
      name: 'insert-order',
      text: 'INSERT INTO orders (item) VALUES ($1) RETURNING id',
      values: [`prepared ${n}`],
    }));
    prepared.push(rows[0].id);
  }
  await checkKeys(client, 'a prepared statement', prepared, 20, 'string', since);

  // As BigInt: for this connection only, by "types", or for all of them, by
  // require('pg').types.setTypeParser(20, BigInt).
  const typed = new Client({
    types: {
      getTypeParser: (oid, format) =>
        oid === 20 ? BigInt : require('pg').types.getTypeParser(oid, format),
    },
  });
  await typed.connect();
  since = new Date();
  ({ rows } = await typed.query(
    'INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id', [['milk', 'sugar']]));
  const bigints = rows.map((row) => row.id);
  await checkKeys(client, 'BigInt', bigints, 2, 'bigint', since);
  ({ rows } = await typed.query('SELECT id FROM orders WHERE id = $1', [bigints[0]]));
  check('a BigInt finds its row', rows.length === 1 && rows[0].id === bigints[0], rows);
  let message = '';
  try {
    JSON.stringify(rows);
  } catch (error) {
    message = error.message;
  }
  check('JSON.stringify() refuses a BigInt', /BigInt/.test(message), message);
  check('but not its text',
    JSON.stringify({ id: bigints[0].toString() }) === `{"id":"${bigints[0]}"}`);
  await typed.end();

  // JSON that the server makes: the driver parses it, and numbers lose digits.
  // Let the server write texts.
  ({ rows } = await client.query(
    'SELECT id, row_to_json(orders) AS json FROM orders ORDER BY id LIMIT 50'));
  const lost = rows.filter(({ id, json }) => BigInt(json.id) !== BigInt(id)).length;
  check('row_to_json(): digits are lost', lost > 0, lost);
  console.log(`# ${lost} of ${rows.length} keys were changed`);
  ({ rows } = await client.query(`
    SELECT id, json_build_object('id', id::text, 'item', item) AS json
    FROM orders ORDER BY id`));
  check('as text in JSON: exact', rows.length === 1023
    && rows.every(({ id, json }) => json.id === id), rows.length);
  ({ rows } = await client.query(`
    SELECT id, json_build_object('id', snowflake_encode(id, 'base32'), 'item', item) AS json
    FROM orders WHERE id = $1`, [id]));
  const code = rows[0].json.id;
  check('in base32: 13 letters and digits', /^[0-9A-HJKMNP-TV-Z]{13}$/.test(code), code);
  ({ rows } = await client.query(
    "SELECT id FROM orders WHERE id = snowflake_decode($1, 'base32')", [code]));
  check('which find the row', rows.length === 1 && rows[0].id === id, rows);
  ({ rows } = await client.query(
    'SELECT (json_populate_record(NULL::orders, $1)).id', [JSON.stringify({ id })]));
  check('a text in JSON is read as a bigint', rows[0].id === id, rows);

  // Rows of a period, by the primary key
  const until = new Date(Date.now() + 1000);
  const inPeriod = 'SELECT count(*)::int AS n FROM orders WHERE snowflake_in(id, $1, $2)';
  ({ rows } = await client.query(inPeriod, [began, until]));
  check('snowflake_in() finds the rows', rows[0].n === 1023, rows);
  ({ rows } = await client.query(inPeriod, [new Date(began - 86400000), began]));
  check('and none where there are none', rows[0].n === 0, rows);
  const [fromDate, toDate] = [began, until];
  result = await client.query('SELECT * FROM orders WHERE snowflake_in(id, $1, $2)', [fromDate, toDate]);
  check('and returns them', result.rows.length === 1023, result.rows.length);
  const { rows: [range] } = await client.query(
    'SELECT lower(r) AS lo, upper(r) AS hi FROM id_range_for($1, $2) AS r', [began, until]);
  ({ rows } = await client.query(
    'SELECT count(*)::int AS n FROM orders WHERE id >= $1 AND id < $2', [range.lo, range.hi]));
  check('id_range_for() finds the rows', rows[0].n === 1023, rows);

  // One argument is a day or an instant.
  const idRangeFor = async (...args) => (await client.query(
    `SELECT id_range_for(${args.map((_, n) => `$${n + 1}`).join(', ')})::text AS r`, args)).rows[0].r;
  const day = await idRangeFor('2026-11-20');
  check('id_range_for() of a date is the day', day === await idRangeFor('2026-11-20', '2026-11-21'), day);
  const millisecond = await idRangeFor(began);
  check('id_range_for() of a Date is the millisecond',
    millisecond === await idRangeFor(began, new Date(began.getTime() + 1))
    && millisecond === await idRangeFor(began.toISOString()), millisecond);

  await client.end();
  done();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
