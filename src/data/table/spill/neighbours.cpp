#include "src/data/table/spill/neighbours.h"

#include <algorithm>

#include "src/data/table/spill/chunk_store.h"

namespace perigee::tables {
namespace {

// A window of the table: rows that are given already, which the others look back at; those that can be given; those whose rows ahead have not come.
class NeighboursSink : public FrameSink {
 public:
  NeighboursSink(Neighbours reach, std::function<void(Frame&)> apply, UseFrame next)
      : reach_(reach), apply_(std::move(apply)), next_(std::move(next)) {}

  void add(Frame&& frame) override {
    append_chunk(window_, std::move(frame));
    // As many new rows as old ones, so that each is computed about twice at most.
    if (window_.rows - given_ - reach_.after >= std::max<int64_t>(1, reach_.before + reach_.after)) give(window_.rows - reach_.after);
  }

  void finish() override { give(reach_.trim ? std::max(given_, window_.rows - reach_.after) : window_.rows); }

 private:
  void give(int64_t end) {
    Frame computed = window_;
    apply_(computed);
    const int64_t lacking = reach_.trim ? reach_.before - first_ : 0;  // rows of this window whose rows before are not there
    const int64_t begin = std::min(end, std::max(given_, lacking));
    next_(rows_of(computed, begin, end));
    const int64_t gone = std::max<int64_t>(0, end - reach_.before);
    window_ = rows_of(window_, gone, window_.rows);
    first_ += gone;
    given_ = end - gone;
  }

  Neighbours reach_;
  std::function<void(Frame&)> apply_;
  UseFrame next_;
  Frame window_;
  int64_t first_ = 0, given_ = 0;  // the window's first row in the table; how many of the window's rows are given
};

}  // namespace

std::unique_ptr<FrameSink> spilled_neighbours(Neighbours reach, std::function<void(Frame&)> apply, UseFrame next) {
  return std::make_unique<NeighboursSink>(reach, std::move(apply), std::move(next));
}

}  // namespace perigee::tables
