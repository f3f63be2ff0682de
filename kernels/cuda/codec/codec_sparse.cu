// The steps between tiles, and the check of lists from outside. Runs are joined in groups of as many tiles as a block has threads, then the
// groups likewise, then each tile's run with its group's: 128 bytes for each 1024 elements, a hundredth of what the tiles themselves read.
#include "kernels/cuda/codec/codec_sparse.cuh"

namespace perigee {
namespace {

// A block a group, a thread a tile.
__global__ void __launch_bounds__(kThreads) join_group_kernel(GapRun* runs, int64_t tiles, int flag_bits, GapRun* groups) {
  begin_kernel();
  __shared__ GapRun room[kThreads];
  const int self = static_cast<int>(threadIdx.x);
  const int64_t tile = thread_of_grid();
  GapRun own = tile < tiles ? runs[tile] : no_run();
  room[self] = own;
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    if (self >= step) own = join_runs(room[self - step], own, flag_bits);
    __syncthreads();
    room[self] = own;
    __syncthreads();
  }
  if (tile < tiles) runs[tile] = self > 0 ? room[self - 1] : no_run();
  if (self == kThreads - 1) groups[blockIdx.x] = own;
}

__global__ void __launch_bounds__(kThreads) add_groups_kernel(GapRun* runs, int64_t tiles, int flag_bits, const GapRun* groups) {
  begin_kernel();
  const int64_t tile = thread_of_grid();
  if (tile < tiles) runs[tile] = join_runs(groups[blockIdx.x], runs[tile], flag_bits);
  if (tile == tiles - 1) runs[tiles] = groups[gridDim.x];
}

__global__ void __launch_bounds__(kThreads) join_spans_kernel(GapSpan* spans, int64_t tiles) {
  begin_kernel();
  __shared__ GapSpan room[kThreads];
  block_scan(
      spans, tiles, GapSpan{0, 0}, [](const GapSpan& left, const GapSpan& right) { return join_spans(left, right); }, room);
}

__global__ void __launch_bounds__(kThreads) read_gaps_kernel(GapList list, int64_t tiles, uint32_t* refused) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (tile >= tiles) return;
  GapSpan span;
  if (!span_of_lane(list, tile, &span)) *refused = 1;
  span = warp_join_spans(span);
  if (lane_of_warp() == kWarp - 1) list.spans[tile] = span;
}

__global__ void __launch_bounds__(kWarp)
    check_gaps_kernel(const GapSpan* all, int64_t n, const std::byte* count_bytes, int64_t expected, uint32_t* refused) {
  begin_kernel();
  const auto count = read_bytes<int64_t>(count_bytes);
  if (all->count != count || all->span > static_cast<uint64_t>(n) || (expected >= 0 && count != expected)) *refused = 1;
}

}  // namespace

void codec_join_runs(Launches& on, GapRun* runs, int64_t tiles, int flag_bits) {
  const int64_t count = ceil_divide(tiles, kThreads);
  GapRun* const groups = runs + tiles + (count > 1);  // of one group the run is that of all
  on.launch(join_group_kernel, count, kThreads, runs, tiles, flag_bits, groups);
  if (count <= 1) return;
  codec_join_runs(on, groups, count, flag_bits);
  on.launch(add_groups_kernel, count, kThreads, runs, tiles, flag_bits, static_cast<const GapRun*>(groups));
}

void codec_check_gaps(Launches& on, const GapList& list, const std::byte* count, int64_t expected, uint32_t* refused) {
  const int64_t tiles = tiles_of(list.bytes);
  on.launch(read_gaps_kernel, blocks_for_tiles(tiles), kThreads, list, tiles, refused);
  on.launch(join_spans_kernel, 1, kThreads, list.spans, tiles);
  on.launch(check_gaps_kernel, 1, kWarp, list.spans + tiles, list.n, count, expected, refused);
}

}  // namespace perigee
