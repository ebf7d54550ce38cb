import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/client';

const adapter = new PrismaPg({ connectionString: process.env.DATABASE_URL });
const prisma = new PrismaClient({ adapter });

if (process.argv[2] === 'truncate') {
  const tables: { tablename: string }[] = await prisma.$queryRaw`
    SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> '_prisma_migrations'`;
  const names = tables.map(({ tablename }) => `"public"."${tablename}"`).join(', ');
  await prisma.$executeRawUnsafe(`TRUNCATE TABLE ${names} CASCADE`);
} else {
  const order = await prisma.order.create({
    data: { item: 'milk', lines: { create: [{}, {}] } },
    include: { lines: { orderBy: { id: 'asc' } } },
  });

  const to = new Date(Date.now() + 1000);
  const from = new Date(to.getTime() - 60000);
  const [{ lo, hi }]: { lo: bigint; hi: bigint }[] = await prisma.$queryRaw`
    SELECT lower(r) AS lo, upper(r) AS hi FROM id_range_for(${from}, ${to}) AS r`;
  const rows = await prisma.order.findMany({ where: { id: { gte: lo, lt: hi } } });

  console.log('order', String(order.id));
  console.log('lines', order.lines.map((line) => line.id).join(' '));
  console.log('period', rows.map((row) => row.id).join(' '));

  // the same without the bounds
  const same: { id: bigint }[] = await prisma.$queryRaw`
    SELECT id FROM orders WHERE snowflake_in(id, ${from}, ${to})`;
  if (same.length !== rows.length) throw new Error(`${same.length} rows, not ${rows.length}`);
}
await prisma.$disconnect();
