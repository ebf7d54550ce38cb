CREATE EXTENSION IF NOT EXISTS snowflake;

CREATE TABLE "orders" (
    "id" BIGINT NOT NULL DEFAULT snowflake_nextval(),
    "item" TEXT NOT NULL,

    CONSTRAINT "orders_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "lines" (
    "id" BIGINT NOT NULL DEFAULT snowflake_nextval(),
    "order_id" BIGINT NOT NULL,

    CONSTRAINT "lines_pkey" PRIMARY KEY ("id")
);

ALTER TABLE "lines" ADD CONSTRAINT "lines_order_id_fkey" FOREIGN KEY ("order_id") REFERENCES "orders"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
