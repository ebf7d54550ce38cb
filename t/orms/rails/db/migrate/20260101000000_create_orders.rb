class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    enable_extension "snowflake"

    create_table :orders, id: :bigint, default: -> { "snowflake_next()" } do |t|
      t.text :item, null: false
    end

    create_table :lines, id: :bigint, default: -> { "snowflake_next()" } do |t|
      t.references :order, null: false
    end

    create_table :visits do |t|
      t.text :page
    end
  end
end
