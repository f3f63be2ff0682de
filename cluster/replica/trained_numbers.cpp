#include "cluster/replica/trained_numbers.h"

#include <algorithm>
#include <cassert>

#include "cluster/ledger/fixed_plan.h"

namespace perigee {

SourcePtr SharedOpener::open(const std::string& part, const Config& description, const std::string& folder) {
  SourcePtr& source = sources_[part + " " + description.json().dump()];
  // Who opens a part reads its whole description, and so a mistake in it is found by the first.
  if (!source) source = open_source(description, folder);
  else
    for (const auto& [key, value] : description.json().as_object()) description.raw(key);
  return source;
}

TrainedNumbers::~TrainedNumbers() {
  try {
    drop_order();
  } catch (const std::exception&) {  // of an order that is no longer wanted
  }
}

void TrainedNumbers::open(const Welcome& welcome) {
  assert(!trainer_);
  trainer_ = std::make_unique<ReplicaTrainer>(welcome, ReplicaTrainerOptions{.opener = &opener_});
  fragments_ = trainer_->fragments();
}

std::span<std::byte> TrainedNumbers::exchange_row(size_t row) {
  while (rows_.size() <= row) {
    rows_.emplace_back(layout().bytes());
    std::fill_n(rows_.back().data(), rows_.back().bytes(), std::byte{0});
  }
  return {rows_[row].data(), layout().bytes()};
}

void TrainedNumbers::begin(const TrainOrder& order) {
  drop_order();
  order_ = order;
  order_.stop_after_ms = 0;
  size_t rows = 1;
  if (order.gradient) rows = partials_of(order.first_leaf, order.first_leaf + static_cast<int>(order.ranges.size()), order.leaves).size();
  order_rows_.clear();
  for (size_t i = 0; i < std::max<size_t>(rows, 1); ++i) order_rows_.push_back(exchange_row(order.row + i).data());
  staged_row_ = nullptr;
  under_way_ = true;
  lockstep_.begin([this] { trained_ = trainer_->train(order_, order_rows_, never_, *this, &contribution_); });
}

std::optional<Contribution> TrainedNumbers::step(bool last) {
  assert(under_way_);
  due_ = true;
  // The trainer looks at this after the step that is due, so the last one needs not be foreseen.
  if (last) order_.stop_after_ms = 1e-9;
  if (lockstep_.resume()) return std::nullopt;
  under_way_ = false;
  assert(trained_);
  staged_row_ = order_rows_[0];
  return contribution_;
}

// Called before each step.
bool TrainedNumbers::given_up() {
  if (!due_ && !give_up_) lockstep_.pause();
  due_ = order_.gradient;
  return give_up_;
}

void TrainedNumbers::drop_order() {
  if (!under_way_) return;
  give_up_ = true;
  while (lockstep_.resume()) {}
  give_up_ = under_way_ = due_ = false;
}

bool TrainedNumbers::make_part(const PartOrder& order) {
  due_ = true;  // given_up() lets it run to its end
  const bool more = trainer_->make_part(order, order_rows_, never_, *this) == ReplicaTrainer::Part::made;
  due_ = false;
  return more;
}

std::optional<size_t> TrainedNumbers::apply(const ApplyOrder& order) {
  const std::optional<size_t> refused = trainer_->apply(order, exchange_row(order.row).data());
  if (!refused) staged_row_ = nullptr;
  return refused;
}

bool TrainedNumbers::take(const TakeOrder& order) {
  staged_row_ = nullptr;
  return trainer_->take(order);
}

void TrainedNumbers::load(int64_t round, const SharedBytes& image, bool keep_local) {
  if (!keep_local) drop();
  trainer_->load(round, image.get(), keep_local, keep_local ? staged_row_ : nullptr);
}

void TrainedNumbers::drop() {
  drop_order();
  staged_row_ = nullptr;
  trainer_->drop();
}

}  // namespace perigee
