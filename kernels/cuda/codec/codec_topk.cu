// The k largest magnitudes; of equal ones the first. The k-th largest is found digit by digit from histograms of the magnitudes' bits,
// then a warp sees to each tile of 1024: how many are equal to it, which are chosen, where they go. Bytes moved for n elements of which
// few are sent, at least: 8n with feedback (else 4n) for the largest magnitude, 8n more to fold, 3 * 4n for the histograms, 2 * 4n for the
// tiles, and what is sent; to decode, twice the list and 8 for each element that it leads to.
#include "kernels/cuda/codec/codec_sparse.cuh"
#include "kernels/cuda/codec/codec_values.cuh"

namespace perigee {
namespace {

constexpr int kFlagBits = 0;
constexpr int kBins = 2048;
constexpr size_t kCount = 8;  // bytes of the count

// Bits 30 .. 20, 19 .. 10 and 9 .. 0 of a magnitude, in turn.
struct Digit {
  int shift;
  uint32_t values;
};
constexpr Digit kDigits[] = {{20, 2048}, {10, 1024}, {0, 1024}};

// The magnitude that is sought: its bits as far as they are known, and how many of those that begin so belong to the k largest.
struct Least {
  uint32_t bits;
  int64_t rank;
};

struct TopKRoom {
  unsigned long long* bins;
  Least* least;
  int64_t* ties;
  uint32_t* words;
  GapRun* runs;
  float* sent;
  int64_t* positions;
  int64_t tiles;
};

TopKRoom room_for(Room& room, int64_t n, int64_t k) {
  const int64_t tiles = tiles_of(n);
  return {.bins = room.take<unsigned long long>(kBins),
          .least = room.take<Least>(1),
          .ties = room.take<int64_t>(tiles + 1),
          .words = room.take<uint32_t>(tiles * kWarp),
          .runs = room.take<GapRun>(room_for_runs(tiles)),
          .sent = room.take<float>(k),
          .positions = room.take<int64_t>(k),
          .tiles = tiles};
}

// v is folded.
__device__ float value_of(const CudaEncodeCall& call, int64_t i) { return call.residual ? call.residual[i] : call.x[i]; }

// Counts the digit of those whose bits above it are those of the least. `above` is 0 for the first digit.
__global__ void __launch_bounds__(kThreads) histogram_kernel(CudaEncodeCall call, TopKRoom room, Digit digit, uint32_t above) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  __shared__ unsigned bins[kBins];
  for (uint32_t bin = threadIdx.x; bin < digit.values; bin += blockDim.x) bins[bin] = 0;
  __syncthreads();
  const uint32_t known = above != 0 ? room.least->bits : 0;
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid()) {
    const uint32_t magnitude = magnitude_bits(value_of(call, i));
    if ((magnitude & above) == known) atomicAdd(&bins[(magnitude >> digit.shift) & (digit.values - 1)], 1u);
  }
  __syncthreads();
  for (uint32_t bin = threadIdx.x; bin < digit.values; bin += blockDim.x)
    if (bins[bin] != 0) atomicAdd(&room.bins[bin], static_cast<unsigned long long>(bins[bin]));
}

// The digit that the one of that rank has: the bin, from the largest on, at which the count reaches the rank. A thread sees to bins side by
// side.
__global__ void __launch_bounds__(kThreads) digit_kernel(CudaEncodeCall call, TopKRoom room, Digit digit, int64_t first_rank) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  __shared__ int64_t sums[kThreads];
  const int each = static_cast<int>(digit.values) / kThreads, self = static_cast<int>(threadIdx.x);
  const int top = static_cast<int>(digit.values) - 1 - self * each;
  int64_t own = 0;
  for (int bin = top; bin > top - each; --bin) own += static_cast<int64_t>(room.bins[bin]);
  sums[self] = own;
  __syncthreads();
  const int64_t rank = first_rank > 0 ? first_rank : room.least->rank;
  int64_t before = 0;
  for (int thread = 0; thread < self; ++thread) before += sums[thread];
  const uint32_t known = first_rank > 0 ? 0 : room.least->bits;
  __syncthreads();  // all have read what one writes now
  if (before >= rank || before + own < rank) return;
  for (int bin = top; bin > top - each; --bin) {
    const auto count = static_cast<int64_t>(room.bins[bin]);
    if (before + count >= rank) {
      *room.least = {known | static_cast<uint32_t>(bin) << digit.shift, rank - before};
      return;
    }
    before += count;
  }
}

__global__ void __launch_bounds__(kThreads) count_ties_kernel(CudaEncodeCall call, TopKRoom room) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (!codec_encodable(call) || tile >= room.tiles) return;
  int64_t ties = 0;
  for (int row = 0; row < kWarp; ++row) {
    const int64_t i = tile * kTile + row * kWarp + lane_of_warp();
    const bool tie = i < call.n && magnitude_bits(value_of(call, i)) == room.least->bits;
    ties += __popc(__ballot_sync(kAllLanes, tie));
  }
  if (lane_of_warp() == 0) room.ties[tile] = ties;
}

__global__ void __launch_bounds__(kThreads) join_ties_kernel(int64_t* ties, int64_t tiles) {
  begin_kernel();
  __shared__ int64_t room[kThreads];
  block_scan(
      ties, tiles, int64_t{0}, [](int64_t left, int64_t right) { return left + right; }, room);
}

// Above the least, and as many of its equals as its rank says.
__global__ void __launch_bounds__(kThreads) choose_kernel(CudaEncodeCall call, TopKRoom room) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (!codec_encodable(call) || tile >= room.tiles) return;
  const Least least = *room.least;
  const int lane = lane_of_warp();
  int64_t ties = room.ties[tile];
  uint32_t own = 0;
  for (int row = 0; row < kWarp; ++row) {
    const int64_t i = tile * kTile + row * kWarp + lane;
    const uint32_t magnitude = i < call.n ? magnitude_bits(value_of(call, i)) : 0;
    const bool tie = i < call.n && magnitude == least.bits;
    const uint32_t all_ties = __ballot_sync(kAllLanes, tie);
    const int64_t rank = ties + __popc(all_ties & ((1u << lane) - 1));
    const uint32_t word = __ballot_sync(kAllLanes, (i < call.n && magnitude > least.bits) || (tie && rank < least.rank));
    ties += __popc(all_ties);
    if (lane == row) own = word;
  }
  keep_tile(tile, own, room.words, room.runs, kFlagBits);
}

__global__ void __launch_bounds__(kThreads) write_list_kernel(CudaEncodeCall call, TopKRoom room, std::byte* list) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (tile >= room.tiles) return;
  const TileWords of = words_of(tile, room.words);
  if (of.chose == 0 || !codec_encodable(call)) return;
  each_chosen(tile, of, room.runs, kFlagBits, [&](const Chosen& one) {
    room.sent[one.ordinal] = value_of(call, one.i);
    room.positions[one.ordinal] = one.i;
    write_gap(one.gap, list + one.at);
  });
}

// Keeps the encoding error of the values in the residual, if there is one.
__global__ void __launch_bounds__(kThreads) finish_kernel(CudaEncodeCall call, TopKRoom room, CudaTopK how) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  for (int64_t j = thread_of_grid(); call.residual && j < how.k; j += threads_of_grid()) call.residual[room.positions[j]] = room.sent[j];
  if (thread_of_grid() != 0) return;
  write_bytes(call.body, how.k);
  const int64_t bytes = value_bytes(how.values, how.k) + list_bytes(room.runs[room.tiles], kFlagBits);
  codec_record(call, {.bytes = kCount + static_cast<uint64_t>(bytes), .variant = static_cast<uint32_t>(how.values)});
}

__global__ void __launch_bounds__(kThreads) add_kernel(CudaDecodeCall call, GapList list, CudaTopK how) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (*call.refused != 0 || tile >= tiles_of(list.bytes)) return;
  each_gap(list, tile, [&](int64_t ordinal, int64_t position, uint64_t) {
    call.sum[position] += call.weight * value_at(call.body + kCount, how.values, how.k, ordinal);
  });
}

// Leaves the bits of the k-th largest magnitude, and how many of its equals are taken.
void find_least(Launches& on, const CudaEncodeCall& call, const TopKRoom& room, int64_t k) {
  uint32_t above = 0;
  for (const Digit& digit : kDigits) {
    on.zero(room.bins, kBins * sizeof *room.bins);
    on.launch(histogram_kernel, blocks_for(ceil_divide(call.n, 8)), kThreads, call, room, digit, above);
    on.launch(digit_kernel, 1, kThreads, call, room, digit, above == 0 ? k : 0);
    above = ~0u << digit.shift;
  }
}

}  // namespace

size_t codec_topk_scratch(int64_t n, int64_t k) {
  Room room(nullptr);
  room_for(room, n, k);
  return room.used();
}

int codec_topk_encode(const CudaEncodeCall& call, const CudaTopK& how, CudaStream stream) {
  Launches on(stream);
  Room scratch(call.scratch);
  const TopKRoom room = room_for(scratch, call.n, how.k);
  const int64_t tile_blocks = blocks_for_tiles(room.tiles), values = value_bytes(how.values, how.k);
  codec_begin(on, call);
  codec_fold(on, call);
  find_least(on, call, room, how.k);
  on.launch(count_ties_kernel, tile_blocks, kThreads, call, room);
  on.launch(join_ties_kernel, 1, kThreads, room.ties, room.tiles);
  on.launch(choose_kernel, tile_blocks, kThreads, call, room);
  codec_join_runs(on, room.runs, room.tiles, kFlagBits);
  on.launch(write_list_kernel, tile_blocks, kThreads, call, room, call.body + kCount + values);
  codec_write_values(on, call, how.values, room.sent, how.k, call.body + kCount);
  on.launch(finish_kernel, blocks_for(how.k), kThreads, call, room, how);
  return on.status();
}

int codec_topk_decode_add(const CudaDecodeCall& call, const CudaTopK& how, CudaStream stream) {
  Launches on(stream);
  const int64_t before = static_cast<int64_t>(kCount) + value_bytes(how.values, how.k);
  const GapList list = {call.body + before, call.bytes - before, call.n, kFlagBits, reinterpret_cast<GapSpan*>(call.scratch)};
  on.zero(call.refused, sizeof *call.refused);
  codec_check_values(on, call.body + kCount, how.values, how.k, call.refused);
  codec_check_gaps(on, list, call.body, how.k, call.refused);
  on.launch(add_kernel, blocks_for_tiles(tiles_of(list.bytes)), kThreads, call, list, how);
  return on.status();
}

}  // namespace perigee
