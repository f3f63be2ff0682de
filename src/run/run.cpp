#include "src/run/run.h"

#include <algorithm>
#include <iterator>

namespace perigee {

void RunEvents::keep(const Json& event) {
  if (events_.size() >= kMost) {
    const auto is_step = [](const Json& e) { return *e.find("event") == Json("step"); };
    const auto oldest = std::find_if(events_.begin(), events_.end(), is_step);
    events_.erase(oldest == events_.end() ? events_.begin() : oldest);
  }
  events_.push_back(event);
}

std::vector<Json> RunEvents::take() {
  std::vector<Json> taken(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return taken;
}

}  // namespace perigee
