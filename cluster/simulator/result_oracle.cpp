#include "cluster/simulator/result_oracle.h"

namespace perigee::sim {

void ResultOracle::applied_wrongly(int64_t round, uint64_t hash) {
  if (wrong_ == 0) round_ = round, wrong_ = hash;  // later ones are made of it
}

size_t ResultOracle::votes(int64_t round, uint64_t hash) const {
  const auto found = votes_.find({round, hash});
  return found == votes_.end() ? 0 : found->second.size();
}

std::string ResultOracle::told_to_load(int64_t round, uint64_t hash) const {
  if (wrong_ == 0 || round != round_ || hash == wrong_) return "";
  const size_t right = votes(round, hash), wrong = votes(round, wrong_);
  if (right <= wrong) return "";
  return std::to_string(right) + " workers said that they hold the right result of round " + std::to_string(round) + ", and " +
         std::to_string(wrong) + " a wrong one, which is believed";
}

}  // namespace perigee::sim
