// k elements that chance chooses, the same for every worker: a thread draws where its element lies. Bytes moved for n elements, at least:
// with feedback 8n for the largest magnitude and 12n to fold (else 4n), then for each of k two sectors of 32 bytes and its value; to
// decode, the values and a sector each.
#include "kernels/cuda/codec/codec_values.cuh"
#include "kernels/random_positions.h"

namespace perigee {
namespace {

__device__ RandomPositions positions_of(const CudaRandomK& how, int64_t n) {
  return {{.k = how.k, .seed = how.seed, .round = how.round}, n, how.first};
}

// v is folded.
__global__ void __launch_bounds__(kThreads) gather_kernel(CudaEncodeCall call, CudaRandomK how, float* sent) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  const RandomPositions positions = positions_of(how, call.n);
  for (int64_t j = thread_of_grid(); j < how.k; j += threads_of_grid()) {
    const size_t i = positions.at(j);
    sent[j] = how.factor * (call.residual ? call.residual[i] : call.x[i]);
  }
}

// Keeps the encoding error of the values in the residual, if there is one.
__global__ void __launch_bounds__(kThreads) finish_kernel(CudaEncodeCall call, CudaRandomK how, const float* lost) {
  begin_kernel();
  if (!codec_encodable(call)) return;
  const RandomPositions positions = positions_of(how, call.n);
  for (int64_t j = thread_of_grid(); call.residual && j < how.k; j += threads_of_grid()) call.residual[positions.at(j)] = lost[j];
  if (thread_of_grid() != 0) return;
  write_bytes(call.body, RandomChoice{.k = how.k, .seed = how.seed, .round = how.round});
  codec_record(call, {.bytes = sizeof(RandomChoice) + static_cast<uint64_t>(value_bytes(how.values, how.k)),
                      .variant = static_cast<uint32_t>(how.values)});
}

// The choice stands in the body: who sent it made it.
__global__ void __launch_bounds__(kThreads) add_kernel(CudaDecodeCall call, CudaRandomK how) {
  begin_kernel();
  const auto choice = read_bytes<RandomChoice>(call.body);
  if (choice.k != how.k && thread_of_grid() == 0) *call.refused = 1;
  if (choice.k != how.k || *call.refused != 0) return;
  const RandomPositions positions(choice, call.n, how.first);
  for (int64_t j = thread_of_grid(); j < how.k; j += threads_of_grid())
    call.sum[positions.at(j)] += call.weight * value_at(call.body + sizeof choice, how.values, how.k, j);
}

}  // namespace

size_t codec_randomk_scratch(int64_t k) { return static_cast<size_t>(k) * sizeof(float); }

int codec_randomk_encode(const CudaEncodeCall& call, const CudaRandomK& how, CudaStream stream) {
  Launches on(stream);
  auto* const sent = reinterpret_cast<float*>(call.scratch);
  codec_begin(on, call);
  codec_fold(on, call);
  on.launch(gather_kernel, blocks_for(how.k), kThreads, call, how, sent);
  codec_write_values(on, call, how.values, sent, how.k, call.body + sizeof(RandomChoice));
  on.launch(finish_kernel, blocks_for(how.k), kThreads, call, how, static_cast<const float*>(sent));
  return on.status();
}

int codec_randomk_decode_add(const CudaDecodeCall& call, const CudaRandomK& how, CudaStream stream) {
  Launches on(stream);
  on.zero(call.refused, sizeof *call.refused);
  codec_check_values(on, call.body + sizeof(RandomChoice), how.values, how.k, call.refused);
  on.launch(add_kernel, blocks_for(how.k), kThreads, call, how);
  return on.status();
}

}  // namespace perigee
