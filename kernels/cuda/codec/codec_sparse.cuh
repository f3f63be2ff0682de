// Chosen elements, in tiles of kTile: a warp sees to a tile, each lane to one word of 32 bits that say which elements are chosen. Where
// an element's gap goes depends on all before it, so every tile says what its chosen ones come to (GapRun), one block joins the tiles,
// and then each tile knows where it writes.
#pragma once

#include "kernels/cuda/codec/codec_common.cuh"
#include "kernels/gaps.h"

namespace perigee {

constexpr int kTile = kWarp * kWarp;

constexpr int64_t tiles_of(int64_t n) { return ceil_divide(n, kTile); }
constexpr int64_t blocks_for_tiles(int64_t tiles) { return ceil_divide(tiles, kThreads / kWarp); }

// Totals of the chosen elements of a range; `bytes` is the size of the gaps between them.
struct GapRun {
  int64_t count, first, last, bytes;
};

__device__ inline GapRun no_run() { return {0, -1, -1, 0}; }

// `flag_bits`: that each gap is shifted up.
__device__ inline GapRun join_runs(const GapRun& left, const GapRun& right, int flag_bits) {
  if (left.count == 0) return right;
  if (right.count == 0) return left;
  const auto between = static_cast<int64_t>(gap_bytes(static_cast<uint64_t>(right.first - left.last - 1) << flag_bits));
  return {left.count + right.count, left.first, right.last, left.bytes + between + right.bytes};
}

// Bytes of the list when the run begins with the first of all.
__device__ inline int64_t list_bytes(const GapRun& run, int flag_bits) {
  return run.count == 0 ? 0 : run.bytes + static_cast<int64_t>(gap_bytes(static_cast<uint64_t>(run.first) << flag_bits));
}

// A chosen element: which one it is of all, its gap with room for the flags, and where that begins in the list.
struct Chosen {
  int64_t i, ordinal;
  uint64_t gap;
  int64_t at;
};

// use(chosen) for each element of this lane's word: `next` says where the first of them stands, `last` which element is chosen before it.
template <class Use>
__device__ void each_of_word(int64_t tile, uint32_t word, int64_t last, Chosen next, int flag_bits, Use use) {
  for (; word != 0; word &= word - 1) {
    next.i = tile * kTile + lane_of_warp() * kWarp + __ffs(static_cast<int>(word)) - 1;
    next.gap = static_cast<uint64_t>(next.i - last - 1) << flag_bits;
    use(next);
    last = next.i;
    ++next.ordinal, next.at += static_cast<int64_t>(gap_bytes(next.gap));
  }
}

// Where the last element of a lane's word lies in its tile; the lane is the last of those in `lanes`. Every lane calls it.
__device__ inline int last_of_lanes(uint32_t word, uint32_t lanes) {
  const int lane = kWarp - 1 - __clz(static_cast<int>(lanes | 1));
  return lane * kWarp + kWarp - 1 - __clz(static_cast<int>(__shfl_sync(kAllLanes, word, lane)));
}

// The element chosen before this lane's, where `chose` are the lanes that have any: one of an earlier lane, or the last of the tiles before.
__device__ inline int64_t last_before_lane(int64_t tile, uint32_t word, uint32_t chose, int64_t last_of_tiles) {
  const uint32_t earlier = chose & ((1u << lane_of_warp()) - 1);
  const int last = last_of_lanes(word, earlier);
  return earlier == 0 ? last_of_tiles : tile * kTile + last;
}

// How many elements a lane has, above 16 bits of how many bytes their gaps take: of a tile both are small.
__device__ inline uint32_t sum_of_word(int64_t tile, uint32_t word, int64_t last, int flag_bits) {
  uint32_t sum = 0;
  each_of_word(tile, word, last, {}, flag_bits, [&](const Chosen& one) { sum += (1u << 16) + static_cast<uint32_t>(gap_bytes(one.gap)); });
  return sum;
}

// Inclusive prefix over the lanes of the warp.
__device__ inline uint32_t warp_sum_through(uint32_t sum) {
  for (int step = 1; step < kWarp; step *= 2) {
    const uint32_t left = __shfl_up_sync(kAllLanes, sum, step);
    if (lane_of_warp() >= step) sum += left;
  }
  return sum;
}

// Writes down a tile of which each lane has its word.
__device__ inline void keep_tile(int64_t tile, uint32_t word, uint32_t* words, GapRun* runs, int flag_bits) {
  const int lane = lane_of_warp();
  words[tile * kWarp + lane] = word;
  const uint32_t chose = __ballot_sync(kAllLanes, word != 0);
  GapRun run = no_run();
  if (chose != 0) {
    const int64_t begin = tile * kTile, before = last_before_lane(tile, word, chose, begin - 1);
    const uint32_t sum = warp_sum_through(sum_of_word(tile, word, before, flag_bits));
    const int first_lane = __ffs(static_cast<int>(chose)) - 1;
    const int first = first_lane * kWarp + __ffs(static_cast<int>(__shfl_sync(kAllLanes, word, first_lane))) - 1;
    const auto gap =
        static_cast<int64_t>(gap_bytes(static_cast<uint64_t>(first) << flag_bits));  // from the tile's begin on: none of the run's
    run = {sum >> 16, begin + first, begin + last_of_lanes(word, chose), (sum & 0xffff) - gap};
  }
  if (lane == kWarp - 1) runs[tile] = run;
}

// The record that keep_tile makes for a tile. If no lane `chose` an element, the tile has no more data.
struct TileWords {
  uint32_t word, chose;
};
__device__ inline TileWords words_of(int64_t tile, const uint32_t* words) {
  const uint32_t word = words[tile * kWarp + lane_of_warp()];
  return {word, __ballot_sync(kAllLanes, word != 0)};
}

// use(chosen) for each chosen element of this lane's word. The runs are joined already.
template <class Use>
__device__ void each_chosen(int64_t tile, const TileWords& of, const GapRun* runs, int flag_bits, Use use) {
  const GapRun before = runs[tile];
  const int64_t last = last_before_lane(tile, of.word, of.chose, before.last);
  const uint32_t own = sum_of_word(tile, of.word, last, flag_bits), earlier = warp_sum_through(own) - own;
  const Chosen first = {0, before.count + (earlier >> 16), 0, list_bytes(before, flag_bits) + (earlier & 0xffff)};
  each_of_word(tile, of.word, last, first, flag_bits, use);
}

// runs[tile] becomes what the tiles before it come to, runs[tiles] what all do; behind them is room for groups of tiles.
constexpr int64_t room_for_runs(int64_t tiles) { return tiles + 1 + (tiles > kThreads ? room_for_runs(ceil_divide(tiles, kThreads)) : 0); }
void codec_join_runs(Launches& on, GapRun* runs, int64_t tiles, int flag_bits);

// Totals of a run of bytes of a list; `span` is the distance that its gaps cover.
struct GapSpan {
  int64_t count;
  uint64_t span;
};

// A list of gaps that lies from `list` on, in tiles of kTile bytes.
struct GapList {
  const std::byte* list;
  int64_t bytes;
  int64_t n;  // elements that it leads through
  int flag_bits;
  GapSpan* spans;  // one for each tile and one for all, then those before each tile
};

// The gap whose last byte is `at`; false when it is none that an encoder writes.
__device__ inline bool gap_ending_at(const GapList& list, int64_t at, uint64_t* value) {
  int64_t start = at;
  while (start > 0 && at - start < static_cast<int64_t>(kLongestGap) && static_cast<unsigned>(list.list[start - 1]) >= 0x80) --start;
  const std::byte* in = list.list + start;
  return read_gap(in, list.list + at + 1, value);
}

// Far beyond any range: spans from outside may add up to more than 64 bits hold.
constexpr uint64_t kFarthest = uint64_t{1} << 62;

__device__ inline GapSpan join_spans(const GapSpan& left, const GapSpan& right) {
  return {left.count + right.count, min(left.span + right.span, kFarthest)};
}

// Computes the span of this lane's bytes of a tile. False when a byte is not a gap, or one gap alone leaves the range.
__device__ inline bool span_of_lane(const GapList& list, int64_t tile, GapSpan* span) {
  const int64_t begin = tile * kTile + lane_of_warp() * kWarp, end = min(list.bytes, begin + kWarp);
  bool valid = true;
  *span = {0, 0};
  for (int64_t at = begin; at < end; ++at) {
    uint64_t value = 0;
    if (static_cast<unsigned>(list.list[at]) >= 0x80) {
      valid = valid && at + 1 != list.bytes;
    } else if (gap_ending_at(list, at, &value) && (value >> list.flag_bits) < static_cast<uint64_t>(list.n)) {
      *span = join_spans(*span, {1, (value >> list.flag_bits) + 1});
    } else {
      valid = false;
    }
  }
  return valid;
}

// Inclusive prefix over the lanes of the warp.
__device__ inline GapSpan warp_join_spans(GapSpan span) {
  for (int step = 1; step < kWarp; step *= 2) {
    const GapSpan left = {__shfl_up_sync(kAllLanes, span.count, step), __shfl_up_sync(kAllLanes, span.span, step)};
    if (lane_of_warp() >= step) span = join_spans(left, span);
  }
  return span;
}

// use(ordinal, position, value) for each gap that ends in this lane's bytes. The list is valid.
template <class Use>
__device__ void each_gap(const GapList& list, int64_t tile, Use use) {
  GapSpan own;
  span_of_lane(list, tile, &own);
  const GapSpan through = warp_join_spans(own), before = list.spans[tile];
  int64_t ordinal = before.count + through.count - own.count;
  uint64_t position = before.span + through.span - own.span;
  const int64_t begin = tile * kTile + lane_of_warp() * kWarp, end = min(list.bytes, begin + kWarp);
  for (int64_t at = begin; at < end; ++at) {
    if (static_cast<unsigned>(list.list[at]) >= 0x80) continue;
    uint64_t value = 0;
    gap_ending_at(list, at, &value);
    position += value >> list.flag_bits;
    use(ordinal++, static_cast<int64_t>(position++), value);
  }
}

// Joins the list's spans, and marks it as refused unless it is exactly as many gaps as `count` says (8 bytes at the body's start), and
// these are `expected` where that is not negative.
void codec_check_gaps(Launches& on, const GapList& list, const std::byte* count, int64_t expected, uint32_t* refused);

// Bytes of scratch, one array after another. From null it only counts them.
class Room {
 public:
  explicit Room(std::byte* begin) : begin_(begin) {}
  template <class T>
  T* take(int64_t count) {
    T* const array = begin_ ? reinterpret_cast<T*>(begin_ + used_) : nullptr;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return array;
  }
  size_t used() const { return used_; }

 private:
  std::byte* begin_;
  size_t used_ = 0;
};

}  // namespace perigee
