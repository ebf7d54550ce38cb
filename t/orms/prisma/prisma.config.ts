import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { defineConfig } from 'prisma/config';

// The engine that changes the schema is here the one in WebAssembly: the other is
// no package of the npm registry.  Its adapter does not know the types "char" and
// name of the system catalogs: it gets them as text.  For `migrate dev` and
// `migrate diff`, it cannot drop the shadow database that it makes.
const known = (result) => {
  for (const field of result?.fields ?? [])
    if (field.dataTypeID === 18 || field.dataTypeID === 19) field.dataTypeID = 25;
  return result;
};

class Client extends pg.Client {
  query(...args) {
    const done = args.at(-1);
    if (typeof done !== 'function') return super.query(...args).then(known);
    return super.query(...args.slice(0, -1), (error, result) => done(error, known(result)));
  }
}

export default defineConfig({
  schema: 'schema.prisma',
  migrations: { path: 'migrations' },
  experimental: { adapter: true },
  engine: 'js',
  adapter: async () => new PrismaPg({ connectionString: process.env.DATABASE_URL, Client }),
});
