import { Column, Entity, JoinColumn, ManyToOne, OneToMany, PrimaryColumn } from 'typeorm';

@Entity('orders')
export class Order {
  @PrimaryColumn({ type: 'bigint', default: () => 'snowflake_nextval()' })
  id: string;

  @Column({ type: 'text' })
  item: string;

  @OneToMany(() => Line, (line) => line.order, { cascade: true })
  lines: Line[];
}

@Entity('lines')
export class Line {
  @PrimaryColumn({ type: 'bigint', default: () => 'snowflake_nextval()' })
  id: string;

  @ManyToOne(() => Order, (order) => order.lines, { nullable: false })
  @JoinColumn({ name: 'order_id' })
  order: Order;
}
