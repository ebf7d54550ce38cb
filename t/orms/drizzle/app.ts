import { eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, pgTable } from 'drizzle-orm/pg-core';
import { reset } from 'drizzle-seed';
import * as schema from './schema';

const { orders, lines } = schema;
const db = drizzle(process.env.DATABASE_URL!);

if (process.argv[2] === 'truncate') {
  await reset(db, schema);
} else if (process.argv[2] === 'number') {
  const rounded = pgTable('orders', { id: bigint({ mode: 'number' }) });
  for (const row of await db.select().from(rounded)) console.log(String(row.id));
} else {
  const [order] = await db.insert(orders).values({ item: 'milk' }).returning();
  await db.insert(lines).values([{ orderId: order.id }, { orderId: order.id }]);
  const found = await db.select().from(lines).where(eq(lines.orderId, order.id)).orderBy(lines.id);

  const to = new Date(Date.now() + 1000);
  const from = new Date(to.getTime() - 60000);
  const rows = await db.select().from(orders)
    .where(sql`snowflake_in(${orders.id}, ${from}, ${to})`);

  console.log('order', String(order.id));
  console.log('lines', found.map((line) => line.id).join(' '));
  console.log('period', rows.map((row) => row.id).join(' '));
}
await db.$client.end();
