export async function seed(knex) {
  await knex('lines').del();
  await knex('orders').del();
  const [{ id }] = await knex('orders').insert({ item: 'milk' }).returning('id');
  await knex('lines').insert([{ order_id: id }, { order_id: id }]);
}
