import { defineConfig } from '@mikro-orm/postgresql';
import { Migrator } from '@mikro-orm/migrations';
import { Line, Order } from './entities.js';

export default defineConfig({
  clientUrl: process.env.DATABASE_URL,
  entities: [Order, Line],
  extensions: [Migrator],
  migrations: { path: 'migrations', emit: 'js' },
  schemaGenerator: {
    ignoreSchema: ['snowflake_catalog', 'ext'],
    skipViews: [/^pg_stat_snowflake/],
  },
});
