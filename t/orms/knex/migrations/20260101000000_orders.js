export async function up(knex) {
  await knex.raw('CREATE EXTENSION IF NOT EXISTS snowflake');
  await knex.schema.createTable('orders', (t) => {
    t.bigInteger('id').primary().defaultTo(knex.raw('snowflake_nextval()'));
    t.text('item').notNullable();
  });
  await knex.schema.createTable('lines', (t) => {
    t.bigInteger('id').primary().defaultTo(knex.raw('snowflake_nextval()'));
    t.bigInteger('order_id').notNullable().references('orders.id');
  });
}

export async function down(knex) {
  await knex.schema.dropTable('lines');
  await knex.schema.dropTable('orders');
}
