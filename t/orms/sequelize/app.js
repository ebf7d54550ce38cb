import { col, fn } from 'sequelize';
import { Line, Order, sequelize } from './models.js';

const steps = {
  sync: () => sequelize.sync(),
  alter: () => sequelize.sync({ alter: true }),
  force: () => sequelize.sync({ force: true }),
  drop: () => sequelize.drop(),
  dropAllTables: () => sequelize.getQueryInterface().dropAllTables(),
  truncate: () => sequelize.truncate({ cascade: true }),

  async bulk() {
    const made = await Order.bulkCreate([{ item: 'milk' }, { item: 'bread' }]);
    console.log(made.map((order) => order.id).join(' '));
  },

  async use() {
    const order = await Order.create({ item: 'milk', lines: [{}, {}] }, { include: Line });

    const to = new Date(Date.now() + 1000);
    const from = new Date(to.getTime() - 60000);
    const rows = await Order.findAll({ where: fn('snowflake_in', col('id'), from, to) });

    const found = await Line.findAll({ where: { orderId: order.id }, order: ['id'] });
    console.log('order', order.id);
    console.log('lines', found.map((line) => line.id).join(' '));
    console.log('period', rows.map((row) => row.id).join(' '));
  },
};

await steps[process.argv[2]]();
await sequelize.close();
