#include "cluster/exchange/topology/exchange_plan.h"

#include <algorithm>
#include <cassert>

namespace perigee {
namespace {

constexpr size_t kAlign = 64;              // segments begin on cache lines
constexpr uint32_t kBufferedChunks = 256;  // that may wait at one receiver, of all senders together: 64 MB
constexpr uint32_t kMinWindow = 8;
// Likewise where all are on one host and send straight to the owner: what waits is then in a cache when its other half comes, and so is a
// result when it is sent. Nothing is far enough away to need more under way.
constexpr uint32_t kNearChunks = 16;
constexpr uint32_t kMinNearWindow = 4;

// Cuts [begin, end) of the bucket, all of it sums or all of it maxima, into the segments and these into pieces.
void cut(ExchangePlan& plan, size_t begin, size_t end, bool maxima) {
  const size_t n = plan.segments.size();
  const size_t lines = (end - begin + kAlign - 1) / kAlign;
  for (size_t s = 0; s < n; ++s) {
    const size_t from = std::min(end, begin + lines * s / n * kAlign), to = std::min(end, begin + lines * (s + 1) / n * kAlign);
    Segment& segment = plan.segments[s];
    segment.first[maxima] = static_cast<uint32_t>(plan.pieces.size());
    for (size_t offset = from; offset < to; offset += kChunkBytes) {
      plan.pieces.push_back({.offset = offset,
                             .bytes = static_cast<uint32_t>(std::min(kChunkBytes, to - offset)),
                             .segment = static_cast<uint32_t>(s),
                             .ordinal = segment.pieces(),
                             .maxima = maxima});
      ++segment.count[maxima];
    }
  }
}

void cut_bucket(ExchangePlan& plan, const ExchangeLayout& layout, const Bucket& bucket) {
  const size_t border = layout.sum_bytes();
  assert(bucket.begin <= bucket.end && bucket.end <= layout.bytes());
  const size_t middle = std::clamp(border, bucket.begin, bucket.end);
  assert((middle - bucket.begin) % layout.width() == 0 && (bucket.end - middle) % sizeof(int64_t) == 0 && "a bucket cuts an element");
  plan.pieces.reserve((bucket.end - bucket.begin) / kChunkBytes + 2 * plan.segments.size());
  cut(plan, 0, middle - bucket.begin, false);
  cut(plan, middle - bucket.begin, bucket.end - bucket.begin, true);
}

// Which sums each rank has of one segment and passes on.
class RowPlan {
 public:
  RowPlan(const TreeShape& shape, const World& world, const CollectiveSetup& setup)
      : shape_(shape), world_(world), partials_(setup.partials) {
    if (partials_.empty() && shape.pairwise)
      for (int rank = 0; rank < world.size; ++rank) partials_.push_back({Partial{rank, 1}});
    assert(partials_.empty() || static_cast<int>(partials_.size()) == world.size);
    for (std::vector<Partial>& list : partials_) {
      for (const Partial& partial : list) leaves_ = std::max(leaves_, partial.first + partial.count);
      // A rank without leaves says so all the same: a result comes only to those that are ready to receive it.
      if (list.empty()) list.push_back({.first = 0, .count = 0});
    }
  }

  int own(int rank) const { return partials_.empty() ? 1 : static_cast<int>(partials_[static_cast<size_t>(rank)].size()); }

  // `first_input`, if wanted: where the rows of each rank in `place.reduce_from` begin.
  Summation summation(int segment, int rank, const TreePlace& place, std::vector<int>* first_input = nullptr) const {
    if (partials_.empty()) {
      for (int i = 0; first_input && i <= static_cast<int>(place.reduce_from.size()); ++i) first_input->push_back(1 + i);
      return chain_sum(1 + static_cast<int>(place.reduce_from.size()));
    }
    std::vector<Partial> inputs = partials_[static_cast<size_t>(rank)];
    for (const int child : place.reduce_from) {
      if (first_input) first_input->push_back(static_cast<int>(inputs.size()));
      const TreePlace below = shape_.place(world_, segment, child);
      const std::vector<Partial> rows = summation(segment, child, below).subtrees;
      inputs.insert(inputs.end(), rows.begin(), rows.end());
    }
    if (first_input) first_input->push_back(static_cast<int>(inputs.size()));
    return fixed_tree_sum(inputs, leaves_);
  }

 private:
  const TreeShape& shape_;
  const World& world_;
  std::vector<std::vector<Partial>> partials_;
  int leaves_ = 0;
};

}  // namespace

ExchangePlan make_exchange_plan(const TreeShape& shape, const CollectiveSetup& setup) {
  const World world(setup.hosts);
  assert(setup.rank >= 0 && setup.rank < world.size);
  ExchangePlan plan;
  plan.segments.resize(static_cast<size_t>(shape.segments(world)));
  plan.sends.resize(static_cast<size_t>(world.size));
  cut_bucket(plan, setup.layout, setup.bucket);

  const RowPlan rows(shape, world, setup);
  plan.own_inputs = rows.own(setup.rank);
  plan.contributes = setup.takes_part && (setup.partials.empty() || !setup.partials[static_cast<size_t>(setup.rank)].empty());
  assert(static_cast<int>(setup.rows.size()) >= plan.own_inputs);
  int alone = -1;  // the summation of segments in which this rank adds nothing of others
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    Segment& segment = plan.segments[s];
    if (segment.pieces() == 0) continue;
    segment.place = shape.place(world, static_cast<int>(s), setup.rank);
    const bool leaf = segment.place.reduce_from.empty();
    if (!leaf || alone < 0) {
      plan.summations.push_back(rows.summation(static_cast<int>(s), setup.rank, segment.place, &segment.first_input));
      if (leaf) alone = static_cast<int>(plan.summations.size()) - 1;
    }
    segment.summation = leaf ? static_cast<uint32_t>(alone) : static_cast<uint32_t>(plan.summations.size() - 1);
    const Summation& sum = plan.summations[segment.summation];
    assert((segment.place.reduce_to >= 0 || sum.outputs == 1) && "the participants' partials do not make one sum");
    segment.first_slot = plan.slots;
    plan.slots += sum.nodes.size() * segment.pieces();
    segment.window = segment.pieces();
    if (segment.place.reduce_to >= 0) {
      plan.sends[static_cast<size_t>(segment.place.reduce_to)] += static_cast<size_t>(sum.outputs) * segment.pieces();
      const TreePlace receiver = shape.place(world, static_cast<int>(s), segment.place.reduce_to);
      const auto rows_each = static_cast<uint32_t>(receiver.reduce_from.size() * static_cast<size_t>(std::max(1, sum.outputs)));
      const bool near = world.members.size() == 1 && receiver.reduce_to < 0;
      segment.window = near ? std::max(kMinNearWindow, kNearChunks / rows_each) : std::max(kMinWindow, kBufferedChunks / rows_each);
    }
    for (const int to : segment.place.result_to) plan.sends[static_cast<size_t>(to)] += segment.pieces();
  }
  return plan;
}

}  // namespace perigee
