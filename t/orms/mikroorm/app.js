import { MikroORM, raw } from '@mikro-orm/postgresql';
import config from './mikro-orm.config.js';
import { Line, Order } from './entities.js';

const orm = await MikroORM.init(config);
const em = orm.em.fork();

if (process.argv[2] === 'truncate') {
  await orm.schema.clear();
} else {
  const order = em.create(Order, { item: 'milk', lines: [{}, {}] });
  await em.flush();

  const to = new Date(Date.now() + 1000);
  const from = new Date(to.getTime() - 60000);
  const rows = await em.fork().find(Order, { [raw('snowflake_in(id, ?, ?)', [from, to])]: true });

  const lines = await em.fork().find(Line, { order: order.id }, { orderBy: { id: 'asc' } });
  console.log('order', order.id);
  console.log('lines', lines.map((line) => line.id).join(' '));
  console.log('period', rows.map((row) => row.id).join(' '));
}
await orm.close();
