class Visit < ActiveRecord::Base
end
