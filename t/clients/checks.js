// What the Node.js clients check about the keys that they were given, as TAP.
// It has nothing to do with how the extension is used.

let ran = 0;
let failed = 0;

function check(name, passed, found = '') {
  ran++;
  console.log(`${passed ? 'ok' : 'not ok'} ${ran} - ${name}`);
  if (!passed) {
    failed++;
    console.log('# found', found);
  }
}

// keys are those in the order in which the driver returned them, of the given
// type, and since is a Date of before they were drawn.
async function checkKeys(client, what, keys, count, type, since, ascending = true) {
  const exact = keys.map(BigInt);
  check(`${what}: ${count} keys, each a ${type}`,
    keys.length === count && keys.every((key) => typeof key === type), keys);
  check(`${what}: all of them different`, new Set(exact).size === count, keys);
  if (ascending) {
    check(`${what}: ascending`, exact.every((key, i) => i === 0 || exact[i - 1] < key), keys);
  }

  const { rows } = await client.query(
    `SELECT p.ts, p.node, current_setting('snowflake.node_id')::int AS own
     FROM unnest($1::bigint[]) AS id, snowflake_parse(id) AS p`, [exact.map(String)]);
  const last = new Date();
  check(`${what}: with the time at which they were drawn`,
    rows.every(({ ts }) => since <= ts && ts <= last), [since, rows, last]);
  check(`${what}: with the server's node number`,
    rows.length === count && rows.every(({ node, own }) => node === own), rows);
}

function done() {
  console.log(`1..${ran}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

module.exports = { check, checkKeys, done };
