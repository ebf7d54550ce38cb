class ConvertVisits < ActiveRecord::Migration[6.1]
  def up
    execute "SELECT snowflake_convert('visits', 'id', dry_run => false)"
    change_column_default :visits, :id, -> { "snowflake_next()" }
  end

  def down
    execute "SELECT snowflake_convert('visits', 'id', dry_run => false, target => 'bigserial')"
  end
end
