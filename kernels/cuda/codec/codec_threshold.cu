// +tau or -tau of each element that has gathered as much: a list of gaps or of int32, or 2 bits for each element where that is shorter.
// Which it is is known on the device alone, so both are launched and one returns at once. Bytes moved for n elements of which few are
// sent, at least: 12n with feedback (else 4n) to fold and to choose, n / 8 twice for the words, n / 8 for runs, and the list. What is left
// over may only replace the residual when it is known that all values can be encoded: without memory apart for it (CudaThreshold::next) that
// costs 8n more, to find the largest magnitude first. To decode a list, twice its bytes and 8 for each element that it leads to.
#include "kernels/cuda/codec/codec_sparse.cuh"

namespace perigee {
namespace {

constexpr int kFlagBits = 1;  // of a gap: the sign
constexpr int64_t kBlock = 1024, kBlockBytes = kBlock / 4;
constexpr size_t kCount = 8;  // bytes of a list's length
enum Variant : uint32_t { kGaps = 0, kInt32 = 1, kBitmap = 2 };

constexpr int64_t bitmap_bytes(int64_t n) { return n / kBlock * kBlockBytes + ceil_divide(n % kBlock, 4); }

struct Choice {
  uint32_t* words;
  GapRun* runs;
  int64_t tiles;
};

Choice room_for(Room& room, int64_t n) {
  const int64_t tiles = tiles_of(n);
  return {room.take<uint32_t>(tiles * kWarp), room.take<GapRun>(room_for_runs(tiles)), tiles};
}

__device__ float tau_of(const CudaEncodeCall& call) { return float_from_bits(call.encoded->detail); }

__global__ void __launch_bounds__(kWarp) next_tau_kernel(CudaEncodeCall call, CudaThreshold how) {
  begin_kernel();
  if (threadIdx.x != 0) return;
  const float last = how.state[0], share = how.state[1];
  double tau = last;
  if (share < how.low) tau *= how.rate;
  else if (share > how.high) tau /= how.rate;
  const auto next = static_cast<float>(tau);
  call.encoded->detail = bits_from_float(last == 0 ? how.tau : next < how.smallest ? how.smallest : next > how.top ? how.top : next);
}

constexpr int kAtOnce = 4;  // rows of a tile whose loads are in flight together

// `first`: before it is known whether the values can be encoded. Then what is left over has memory of its own, or there is none.
__global__ void __launch_bounds__(kThreads) choose_kernel(CudaEncodeCall call, float* left, Choice choice, bool first) {
  begin_kernel();
  __shared__ uint32_t room[kThreads / kWarp];
  const int64_t tile = warp_of_grid();
  if (!first && !codec_encodable(call)) return;
  const float tau = tau_of(call);
  const int lane = lane_of_warp();
  uint32_t own = 0, top = 0;
  if (tile < choice.tiles) {
    for (int row = 0; row < kWarp; row += kAtOnce) {
      float v[kAtOnce];
      const int64_t begin = tile * kTile + row * kWarp + lane;
      for (int k = 0; k < kAtOnce; ++k) v[k] = begin + k * kWarp < call.n ? codec_folded(call, begin + k * kWarp) : 0;
      for (int k = 0; k < kAtOnce; ++k) {
        const bool there = begin + k * kWarp < call.n;
        if (there && left != nullptr) left[begin + k * kWarp] = v[k];
        const uint32_t word = __ballot_sync(kAllLanes, there && fabsf(v[k]) >= tau);
        if (lane == row + k) own = word;
        top = max(top, magnitude_bits(v[k]));
      }
    }
    keep_tile(tile, own, choice.words, choice.runs, kFlagBits);
  }
  if (!first) return;
  top = block_largest(top, room);
  if (threadIdx.x == 0) atomicMax(&call.encoded->largest, top);
}

__device__ bool sends_list(const GapRun& all, int64_t n, bool int32) {
  const int64_t bytes = int32 ? all.count * int64_t{sizeof(int32_t)} : list_bytes(all, kFlagBits);
  return all.count == 0 || (bytes <= bitmap_bytes(n) && !(int32 && n > INT32_MAX));
}

// From here on the call's residual is where v is now, where there is one.
__global__ void __launch_bounds__(kThreads) write_list_kernel(CudaEncodeCall call, Choice choice, bool int32) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (tile >= choice.tiles) return;
  const TileWords of = words_of(tile, choice.words);
  if (of.chose == 0 || !codec_encodable(call) || !sends_list(choice.runs[choice.tiles], call.n, int32)) return;
  const float tau = tau_of(call);
  std::byte* const list = call.body + kCount;
  each_chosen(tile, of, choice.runs, kFlagBits, [&](const Chosen& one) {
    const float v = call.residual ? call.residual[one.i] : call.x[one.i];
    if (int32) {
      write_bytes(list + one.ordinal * int64_t{sizeof(int32_t)}, static_cast<int32_t>(v < 0 ? -(one.i + 1) : one.i + 1));
    } else {
      write_gap(one.gap | static_cast<uint64_t>(v < 0), list + one.at);
    }
    if (call.residual) call.residual[one.i] = v - (v < 0 ? -tau : tau);
  });
}

// A thread makes a byte: of a block of m elements in h bytes, elements j, j + h, ...
__global__ void __launch_bounds__(kThreads) write_bitmap_kernel(CudaEncodeCall call, Choice choice, bool int32) {
  begin_kernel();
  if (!codec_encodable(call) || sends_list(choice.runs[choice.tiles], call.n, int32)) return;
  const float tau = tau_of(call);
  const int64_t count = bitmap_bytes(call.n);
  for (int64_t at = thread_of_grid(); at < count; at += threads_of_grid()) {
    const int64_t begin = at / kBlockBytes * kBlock, m = min(kBlock, call.n - begin), bytes = (m + 3) / 4;
    unsigned byte = 0;
    int shift = 0;
    for (int64_t i = at % kBlockBytes; i < m; i += bytes, shift += 2) {
      const float v = call.residual ? call.residual[begin + i] : call.x[begin + i];
      const int level = (v >= tau) - (v <= -tau);
      byte |= static_cast<unsigned>(level + 1) << shift;
      if (call.residual) call.residual[begin + i] = v - static_cast<float>(level) * tau;
    }
    call.body[at] = static_cast<std::byte>(byte);
  }
}

__global__ void __launch_bounds__(kWarp) finish_kernel(CudaEncodeCall call, CudaThreshold how, Choice choice) {
  begin_kernel();
  if (!codec_encodable(call) || threadIdx.x != 0) return;
  const GapRun all = choice.runs[choice.tiles];
  const uint32_t tau = call.encoded->detail;
  if (sends_list(all, call.n, how.int32)) {
    const int64_t bytes = how.int32 ? all.count * int64_t{sizeof(int32_t)} : list_bytes(all, kFlagBits);
    write_bytes(call.body, all.count);
    codec_record(call, {.bytes = kCount + static_cast<uint64_t>(bytes), .variant = how.int32 ? kInt32 : kGaps, .detail = tau});
  } else {
    codec_record(call, {.bytes = static_cast<uint64_t>(bitmap_bytes(call.n)), .variant = kBitmap, .detail = tau});
  }
  how.state[0] = float_from_bits(tau);
  how.state[1] = static_cast<float>(static_cast<double>(all.count) / static_cast<double>(call.n));
}

__global__ void __launch_bounds__(kThreads) clip_kernel(CudaEncodeCall call, float clip) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  const float limit = clip * tau_of(call);
  for (int64_t i = thread_of_grid(); i < call.n; i += threads_of_grid()) {
    const float v = call.residual[i];
    call.residual[i] = v < -limit ? -limit : v > limit ? limit : v;
  }
}

__global__ void __launch_bounds__(kThreads) add_gaps_kernel(CudaDecodeCall call, GapList list, float step) {
  begin_kernel();
  const int64_t tile = warp_of_grid();
  if (*call.refused != 0 || tile >= tiles_of(list.bytes)) return;
  each_gap(list, tile, [&](int64_t, int64_t position, uint64_t value) { call.sum[position] += (value & 1) != 0 ? -step : step; });
}

// i + 1 or -(i + 1) with the sign of the update.
__device__ int64_t int32_at(const CudaDecodeCall& call, int64_t j) {
  return read_bytes<int32_t>(call.body + kCount + j * int64_t{sizeof(int32_t)});
}
__device__ int64_t distance(int64_t index) { return index < 0 ? -index : index; }

__global__ void __launch_bounds__(kThreads) check_int32_kernel(CudaDecodeCall call, int64_t count) {
  begin_kernel();
  if (thread_of_grid() == 0 && read_bytes<int64_t>(call.body) != count) *call.refused = 1;
  for (int64_t j = thread_of_grid(); j < count; j += threads_of_grid()) {
    const int64_t one = distance(int32_at(call, j)), last = j == 0 ? 0 : distance(int32_at(call, j - 1));
    if (one <= last || one > call.n) *call.refused = 1;
  }
}

__global__ void __launch_bounds__(kThreads) add_int32_kernel(CudaDecodeCall call, int64_t count, float step) {
  begin_kernel();
  if (*call.refused != 0) return;
  for (int64_t j = thread_of_grid(); j < count; j += threads_of_grid()) {
    const int64_t one = int32_at(call, j);
    call.sum[distance(one) - 1] += one < 0 ? -step : step;
  }
}

}  // namespace

size_t codec_threshold_scratch(int64_t n) {
  Room room(nullptr);
  room_for(room, n);
  return room.used();
}

int codec_threshold_encode(const CudaEncodeCall& call, const CudaThreshold& how, CudaStream stream) {
  Launches on(stream);
  Room room(call.scratch);
  const Choice choice = room_for(room, call.n);
  float* const left = call.residual != nullptr && how.next != nullptr ? how.next : call.residual;
  const bool first = left == nullptr || left != call.residual;
  if (first) on.zero(call.encoded, sizeof *call.encoded);
  else codec_begin(on, call);
  CudaEncodeCall folded = call;
  folded.residual = left;
  on.launch(next_tau_kernel, 1, kWarp, call, how);
  on.launch(choose_kernel, blocks_for_tiles(choice.tiles), kThreads, call, left, choice, first);
  codec_join_runs(on, choice.runs, choice.tiles, kFlagBits);
  on.launch(write_list_kernel, blocks_for_tiles(choice.tiles), kThreads, folded, choice, how.int32);
  // No more blocks than run at once: most often all return.
  on.launch(write_bitmap_kernel, min(int64_t{1024}, blocks_for(bitmap_bytes(call.n))), kThreads, folded, choice, how.int32);
  on.launch(finish_kernel, 1, kWarp, folded, how, choice);
  if (how.clip > 0) on.launch(clip_kernel, blocks_for(call.n), kThreads, folded, how.clip);
  return on.status();
}

int codec_threshold_decode_add(const CudaDecodeCall& call, uint32_t variant, float tau, CudaStream stream) {
  Launches on(stream);
  on.zero(call.refused, sizeof *call.refused);
  const float step = call.weight * tau;
  if (variant == kGaps) {
    const GapList list = {call.body + kCount, call.bytes - int64_t{kCount}, call.n, kFlagBits, reinterpret_cast<GapSpan*>(call.scratch)};
    codec_check_gaps(on, list, call.body, -1, call.refused);
    on.launch(add_gaps_kernel, blocks_for_tiles(tiles_of(list.bytes)), kThreads, call, list, step);
  } else if (variant == kInt32) {
    const int64_t count = (call.bytes - int64_t{kCount}) / int64_t{sizeof(int32_t)};
    on.launch(check_int32_kernel, blocks_for(count + 1), kThreads, call, count);
    on.launch(add_int32_kernel, blocks_for(count), kThreads, call, count, step);
  } else {
    codec_add_codes2(on, call, kBlock, tau);
  }
  return on.status();
}

}  // namespace perigee
