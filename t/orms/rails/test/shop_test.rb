ENV["RAILS_ENV"] = "test"
require_relative "../config/environment"
require "rails/test_help"

class ShopTest < ActiveSupport::TestCase
  fixtures :all

  test "fixtures" do
    assert_equal orders(:milk), lines(:first).order
  end

  test "create! sets the key" do
    order = Order.create!(item: "coffee", lines: [Line.new])
    assert_operator order.id, :>, 2**53
    assert_equal order.id, order.reload.lines.first.order_id
    assert_equal [order], Order.drawn_in(1.minute.ago, 1.minute.from_now)
  end

  test "insert_all returns the keys" do
    keys = Order.insert_all([{ item: "a" }, { item: "b" }], returning: :id).rows.flatten
    assert_equal 2, keys.uniq.size
    assert_operator keys.min, :>, 2**53
  end

  test "a converted table" do
    assert_operator Visit.create!(page: "/new").id, :>, 2**53
  end
end
