// Whether a policy's exchanges fit a link: the share of a worker's time that they leave for training, and, where that is too little, a
// policy that leaves enough. It says nothing of what that policy does to the result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/core/json.h"

namespace perigee {

// One exchange, as a worker sees it.
struct ExchangeCost {
  double train_s = 0;      // its local steps before it
  int64_t steps = 1;       // of them
  double transfer_s = 0;   // from its begin to its end
  double sent_bytes = 0;   // by this worker
  double block_bytes = 0;  // of the parameters
  int workers = 2;

  double training_share() const;  // 1: the exchange takes no time
  bool fits() const;
  Json to_json() const;
};

std::optional<ExchangeCost> read_exchange_cost(const Json& json);  // nothing: these are not sound numbers

// "periodic { every = 200, codec = \"int4\" }": averages of parameters that leave four fifths of the time for training.
std::string policy_that_fits(const ExchangeCost& cost);
// For people: what the exchange costs, and what would cost less.
std::string why_not_fit(const std::string& policy, const ExchangeCost& cost);

}  // namespace perigee
