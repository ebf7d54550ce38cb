import config from './mikro-orm.config.js';

// As a superuser it sees also what others own
export default {
  ...config,
  clientUrl: undefined,
  host: process.env.SUPERUSER_HOST,
  port: process.env.PGPORT,
  user: 'postgres',
  password: '',
  dbName: process.env.PGDATABASE,
};
