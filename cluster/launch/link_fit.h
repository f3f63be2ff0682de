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

// The cost of a run's exchanges, measured while it trains.
class LinkWatch {
 public:
  // A round's sums over its workers. True, once: enough is known, and the exchanges do not fit the link.
  bool add(double train_s, double transfer_s, double sent_bytes, double examples, int workers);
  // A mean round's; the link is as fast as in the quickest exchange: in others workers may have waited for each other.
  ExchangeCost cost() const;
  void set_job(int64_t batch, double block_bytes) { batch_ = batch, block_bytes_ = block_bytes; }
  void set_told() { told_ = true; }  // the run before said so
  int64_t rounds() const { return rounds_; }

 private:
  ExchangeCost sums_;
  double quickest_s_ = 0;  // exchange
  double examples_ = 0, block_bytes_ = 0;
  int64_t rounds_ = 0, batch_ = 1;
  bool told_ = false;
};

}  // namespace perigee
