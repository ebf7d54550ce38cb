import { defineEntity, p } from '@mikro-orm/postgresql';

export const Order = defineEntity({
  name: 'Order',
  tableName: 'orders',
  properties: {
    id: p.bigint('string').primary().autoincrement(false).defaultRaw('snowflake_nextval()'),
    item: p.text(),
    lines: () => p.oneToMany(Line).mappedBy('order'),
  },
});

export const Line = defineEntity({
  name: 'Line',
  tableName: 'lines',
  properties: {
    id: p.bigint('string').primary().autoincrement(false).defaultRaw('snowflake_nextval()'),
    order: () => p.manyToOne(Order),
  },
});
