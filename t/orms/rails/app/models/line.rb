class Line < ActiveRecord::Base
  belongs_to :order
end
