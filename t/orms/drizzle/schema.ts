import { sql } from 'drizzle-orm';
import { bigint, pgTable, text } from 'drizzle-orm/pg-core';

export const orders = pgTable('orders', {
  id: bigint({ mode: 'bigint' }).primaryKey().default(sql`snowflake_nextval()`),
  item: text().notNull(),
});

export const lines = pgTable('lines', {
  id: bigint({ mode: 'bigint' }).primaryKey().default(sql`snowflake_nextval()`),
  orderId: bigint('order_id', { mode: 'bigint' }).notNull().references(() => orders.id),
});
