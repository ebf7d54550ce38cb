import dataSource from './data-source';
import { Line, Order } from './entities';

await dataSource.initialize();
const orders = dataSource.getRepository(Order);

if (process.argv[2] === 'truncate') {
  for (const { tablePath } of dataSource.entityMetadatas)
    await dataSource.query(`TRUNCATE ${tablePath} CASCADE`);
} else {
  const { id } = await orders.save({ item: 'milk', lines: [{}, {}] });
  const order = await orders.findOneOrFail({ where: { id }, relations: { lines: true }, order: { lines: { id: 'ASC' } } });

  const to = new Date(Date.now() + 1000);
  const from = new Date(to.getTime() - 60000);
  const rows = await orders.createQueryBuilder('o')
    .where('snowflake_in(o.id, :from, :to)', { from, to })
    .getMany();

  console.log('order', id);
  console.log('lines', order.lines.map((line) => line.id).join(' '));
  console.log('period', rows.map((row) => row.id).join(' '));
}
await dataSource.destroy();
