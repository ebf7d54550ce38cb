import knexfile from './knexfile.js';
import Knex from 'knex';

const knex = Knex(knexfile);

if (process.argv[2] === 'truncate') {
  await knex.raw('TRUNCATE ?? CASCADE', 'orders');
} else {
  const [order] = await knex('orders').insert({ item: 'milk' }).returning('*');
  await knex('lines').insert([{ order_id: order.id }, { order_id: order.id }]);
  const lines = await knex('lines').where({ order_id: order.id }).orderBy('id');

  const to = new Date(Date.now() + 1000);
  const from = new Date(to.getTime() - 60000);
  const rows = await knex('orders').whereRaw('snowflake_in(id, ?, ?)', [from, to]);

  console.log('order', order.id);
  console.log('lines', lines.map((line) => line.id).join(' '));
  console.log('period', rows.map((row) => row.id).join(' '));
}
await knex.destroy();
