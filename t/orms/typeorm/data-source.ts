import 'reflect-metadata';
import { DataSource } from 'typeorm';
import { Line, Order } from './entities';

export default new DataSource({
  type: 'postgres',
  url: process.env.DATABASE_URL,
  entities: [Order, Line],
});
