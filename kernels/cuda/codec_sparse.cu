// The steps between tiles, and the check of lists from outside. One block joins a million tiles' runs while the rest of the device is
// idle: 40 bytes for each 1024 elements, a hundredth of what the tiles themselves read.
#include "kernels/cuda/codec_sparse.cuh"

namespace perigee {
namespace {

__global__ void __launch_bounds__(kThreads) join_runs_kernel(GapRun* runs, int64_t tiles, int flag_bits) {
  __shared__ GapRun room[kThreads];
  block_scan(
      runs, tiles, no_run(), [=](const GapRun& left, const GapRun& right) { return join_runs(left, right, flag_bits); }, room);
}

__global__ void __launch_bounds__(kThreads) join_spans_kernel(GapSpan* spans, int64_t tiles) {
  __shared__ GapSpan room[kThreads];
  block_scan(
      spans, tiles, GapSpan{0, 0}, [](const GapSpan& left, const GapSpan& right) { return join_spans(left, right); }, room);
}

__global__ void __launch_bounds__(kThreads) read_gaps_kernel(GapList list, int64_t tiles, uint32_t* refused) {
  const int64_t tile = warp_of_grid();
  if (tile >= tiles) return;
  GapSpan span;
  if (!span_of_lane(list, tile, &span)) *refused = 1;
  span = warp_join_spans(span);
  if (lane_of_warp() == kWarp - 1) list.spans[tile] = span;
}

__global__ void __launch_bounds__(kWarp)
    check_gaps_kernel(const GapSpan* all, int64_t n, const std::byte* count_bytes, int64_t expected, uint32_t* refused) {
  const auto count = read_bytes<int64_t>(count_bytes);
  if (all->count != count || all->span > static_cast<uint64_t>(n) || (expected >= 0 && count != expected)) *refused = 1;
}

}  // namespace

void codec_join_runs(Launches& on, GapRun* runs, int64_t tiles, int flag_bits) {
  on.launch(join_runs_kernel, 1, kThreads, runs, tiles, flag_bits);
}

void codec_check_gaps(Launches& on, const GapList& list, const std::byte* count, int64_t expected, uint32_t* refused) {
  const int64_t tiles = tiles_of(list.bytes);
  on.launch(read_gaps_kernel, blocks_for_tiles(tiles), kThreads, list, tiles, refused);
  on.launch(join_spans_kernel, 1, kThreads, list.spans, tiles);
  on.launch(check_gaps_kernel, 1, kWarp, list.spans + tiles, list.n, count, expected, refused);
}

}  // namespace perigee
