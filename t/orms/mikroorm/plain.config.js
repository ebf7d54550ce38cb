import config from './mikro-orm.config.js';

export default { ...config, schemaGenerator: {} };
