#include "src/vectors/window_reader.h"

namespace perigee {

void WindowReader::open(uint64_t epoch, int64_t part, float rate) {
  given_rate_ = rate;
  rules_.sequences.read(part, epoch, block_);
  draws_ = PartDraws(rules_.options.seed, epoch, static_cast<uint64_t>(part));
  const auto of_epoch = static_cast<double>(std::max<int64_t>(1, rules_.sequences.before(rules_.sequences.parts())));
  all_ = of_epoch * static_cast<double>(rules_.options.epochs);
  part_begin_ = of_epoch * static_cast<double>(epoch) + static_cast<double>(rules_.sequences.before(part));
  part_size_ = static_cast<double>(rules_.sequences.before(part + 1) - rules_.sequences.before(part));
  sequence_ = at_ = 0;
  kept_.clear();
}

bool WindowReader::next_sequence() {
  if (sequence_ == block_.ends.size()) {
    if (!block_.ends.empty()) read_ += static_cast<int64_t>(part_size_);
    block_.clear();
    sequence_ = 0;
    return false;
  }
  const std::span<const int32_t> whole = block_.sequence(sequence_);
  label_ = block_.labels.empty() ? -1 : block_.labels[sequence_];
  const double share =
      static_cast<double>(block_.ends[sequence_] - whole.size()) / static_cast<double>(std::max<size_t>(1, block_.elements.size()));
  const double progress = (part_begin_ + share * part_size_) / all_;
  rate_ = static_cast<float>(std::max(rules_.options.min_lr, rules_.options.lr - (rules_.options.lr - rules_.options.min_lr) * progress));
  if (given_rate_ > 0) rate_ = given_rate_;
  kept_.clear();
  if (rules_.keep.empty()) {
    kept_.assign(whole.begin(), whole.end());
  } else {
    for (const int32_t element : whole) {
      const uint32_t chance = rules_.keep[static_cast<size_t>(element)];
      if (chance == UINT32_MAX || static_cast<uint32_t>(draws_.bits()) < chance) kept_.push_back(element);
    }
  }
  ++sequence_;
  at_ = 0;
  return true;
}

// Noise that is the right element, or is there already, is left out.
void WindowReader::add_outputs(int32_t element, PairWindow& window) {
  int64_t count = 0;
  if (rules_.options.negative > 0) {
    window.outputs[count] = element, window.labels[count++] = 1;
    for (int64_t i = 0; i < rules_.options.negative; ++i) {
      const int32_t drawn = rules_.noise.draw(draws_.bits());
      if (std::find(window.outputs, window.outputs + count, drawn) == window.outputs + count)
        window.outputs[count] = drawn, window.labels[count++] = 0;
    }
  }
  if (rules_.options.hierarchical) {
    const std::span<const int32_t> nodes = rules_.tree.nodes(element);
    const std::span<const float> sides = rules_.tree.sides(element);
    for (size_t i = 0; i < nodes.size(); ++i) {
      window.outputs[count] = static_cast<int32_t>(rules_.tree_row + nodes[i]);
      window.labels[count++] = 1 - sides[i];
    }
  }
  window.output_count = count;
}

bool WindowReader::next(PairWindow& window) {
  const VectorOptions& options = rules_.options;
  const bool words = options.model != VectorModel::dbow || options.words_too;
  for (;;) {
    while (at_ == kept_.size())
      if (!next_sequence()) return false;
    const size_t at = at_++;
    int64_t count = 0;
    if (words) {
      const size_t reach = static_cast<size_t>(options.window) - (options.shrink ? draws_.below(static_cast<uint32_t>(options.window)) : 0);
      const size_t end = std::min(kept_.size(), at + reach + 1);
      for (size_t i = at > reach ? at - reach : 0; i < end; ++i)
        if (i != at) window.inputs[count++] = kept_[i];
    }
    if (options.has_labels() && label_ >= 0) window.inputs[count++] = static_cast<int32_t>(rules_.elements.size() + label_);
    if (count == 0) continue;
    window.input_count = count;
    window.rate = rate_;
    add_outputs(kept_[at], window);
    if (window.output_count > 0) return true;
  }
}

}  // namespace perigee
