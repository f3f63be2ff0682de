// Steps on a table that comes in chunks and may be larger than the memory. A step that looks at rows or sequences by themselves takes each chunk; one
// that needs all rows holds them up to its share of the memory, and sends them to its own way by the disk beyond it.
#include <algorithm>

#include "src/core/error.h"
#include "src/data/table/spill/chunk_store.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

// Measures a table on the disk, then changes it chunk by chunk.
class MeasuringSink : public FrameSink {
 public:
  MeasuringSink(Step& step, const TableRoom& room, const UseFrame& next)
      : step_(step), room_(room), next_(next), store_(std::make_shared<ScratchFile>(room)) {}
  void add(Frame&& frame) override { store_.add(frame); }
  void finish() override {
    if (!step_.fit_stored(store_, room_)) {
      Frame whole;
      for (size_t chunk = 0; chunk < store_.size(); ++chunk) append_chunk(whole, store_.read(chunk));
      step_.fit(whole);
    }
    for (size_t chunk = 0; chunk < store_.size(); ++chunk) {
      Frame frame = store_.take(chunk);
      step_.apply(frame);
      next_(std::move(frame));
    }
  }

 private:
  Step& step_;
  TableRoom room_;
  UseFrame next_;
  ChunkStore store_;
};

// A step and what it holds.
class StepNode : public FrameSink {
 public:
  StepNode(Step& step, const TableRoom& room, std::unique_ptr<FrameSink> next) : step_(step), room_(room), next_(std::move(next)) {
    give_ = [this](Frame&& frame) { give(std::move(frame)); };
  }

  void add(Frame&& frame) override {
    if (spilled_ != nullptr) return spilled_->add(std::move(frame));
    const bool streams = step_.is_fitted() && (step_.by_rows() || (step_.by_sequences() && !frame.sequences.empty()));
    if (streams && held_.empty() && !step_.only_spilled()) {
      step_.apply(frame);
      return give(std::move(frame));
    }
    held_bytes_ += bytes_of(frame);
    held_.push_back(std::move(frame));
    if (held_bytes_ > room_.part() || step_.only_spilled()) spill();
  }

  void finish() override {
    if (spilled_ != nullptr) {
      spilled_->finish();
      spilled_.reset();
    } else if (!held_.empty()) {
      Frame whole = std::move(held_[0]);
      for (size_t i = 1; i < held_.size(); ++i) append_chunk(whole, std::move(held_[i]));
      held_.clear();
      if (step_.is_fitted()) step_.apply(whole);
      else step_.fit_and_apply(whole);
      give(std::move(whole));
    }
    if (!gave_ && has_empty_) next_->add(std::move(empty_));
    next_->finish();
  }

 private:
  // Chunks without rows are kept back: one of them is given at the end, for its columns, if there is no other.
  void give(Frame&& frame) {
    if (frame.rows == 0 && frame.sequences.size() < 2) {
      if (!gave_ && !has_empty_) empty_ = std::move(frame), has_empty_ = true;
      return;
    }
    gave_ = true;
    next_->add(std::move(frame));
  }

  void spill() {
    if (tried_) return;
    tried_ = true;
    if (!step_.is_fitted() && !step_.only_spilled()) spilled_ = std::make_unique<MeasuringSink>(step_, room_, give_);
    else spilled_ = step_.spilled(room_, give_);
    if (spilled_ == nullptr) return;  // the table must fit
    for (Frame& each : held_) spilled_->add(std::move(each));
    held_.clear();
  }

  Step& step_;
  TableRoom room_;
  std::unique_ptr<FrameSink> next_, spilled_;
  UseFrame give_;
  std::vector<Frame> held_;
  uint64_t held_bytes_ = 0;
  bool tried_ = false, gave_ = false, has_empty_ = false;
  Frame empty_;
};

class LastSink : public FrameSink {
 public:
  explicit LastSink(UseFrame use) : use_(std::move(use)) {}
  void add(Frame&& frame) override { use_(std::move(frame)); }
  void finish() override {}

 private:
  UseFrame use_;
};

}  // namespace

std::unique_ptr<FrameSink> Steps::run_spilled(const TableRoom& room, UseFrame next) {
  std::unique_ptr<FrameSink> chain = std::make_unique<LastSink>(std::move(next));
  for (auto named = steps_.rbegin(); named != steps_.rend(); ++named)
    chain = std::make_unique<StepNode>(*named->step, room, std::move(chain));
  return chain;
}

}  // namespace perigee::tables
