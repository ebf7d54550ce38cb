import { DataTypes, Sequelize, literal } from 'sequelize';

export const sequelize = new Sequelize(process.env.DATABASE_URL, {
  logging: false,
  define: { timestamps: false, underscored: true },
});

export const Order = sequelize.define('order', {
  id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: literal('snowflake_nextval()') },
  item: { type: DataTypes.TEXT, allowNull: false },
});

export const Line = sequelize.define('line', {
  id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: literal('snowflake_nextval()') },
});

Order.hasMany(Line);
Line.belongsTo(Order);
