require "rails"
require "active_record/railtie"

class Shop < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults 6.1
  config.eager_load = false
  config.logger = Logger.new(File::NULL)
  config.active_record.schema_format = ENV.fetch("SCHEMA_FORMAT", "ruby").to_sym
  config.active_record.dump_schemas = ENV.fetch("DUMP_SCHEMAS", "schema_search_path").to_sym
end
