Sequel.migration do
  up do
    run "CREATE EXTENSION IF NOT EXISTS snowflake"
    create_table :orders do
      column :id, :bigint, primary_key: true, default: Sequel.function(:snowflake_next)
      column :item, :text, null: false
    end
  end

  down do
    drop_table :orders
  end
end
