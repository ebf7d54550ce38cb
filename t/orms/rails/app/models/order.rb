class Order < ActiveRecord::Base
  has_many :lines
  scope :drawn_in, ->(from, to) { where("snowflake_in(id, ?, ?)", from, to) }
end
