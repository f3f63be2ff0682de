// Attention in f32 by tiles: a warp for each of kOwn queries (backward, for keys and values: of kOwn keys), and tiles of 32 rows of the other
// side in shared memory, 32 features at a time, which all warps of the block read. Each element of K and V is read once for kOwn queries. No
// matrix of queries by keys is ever stored; sums have one order.
#include "kernels/cuda/attention/attention.cuh"

#include "kernels/cuda/reduce/rows.cuh"
#include "kernels/registry.h"

namespace perigee {
namespace {

constexpr int kOwn = kThreads / kWarp, kChunks = 8;  // features: at most kChunks times a warp

struct Room {
  float own[kOwn][kWarp];
  float tile[kWarp][kWarp + 1];
};

__device__ Room& room() {
  __shared__ Room shared;
  return shared;
}

// Rows of one example and head.
struct Rows {
  const Heads& of;
  int64_t first;  // where row 0 begins
  int64_t count;  // rows behind are 0
  __device__ float at(int64_t row, int64_t feature) const {
    return row < count && feature < of.features ? of.of.load<float>(first + row * of.step + feature * of.feature) : 0.0f;
  }
};

// Features [32 chunk, 32 chunk + 32) of 32 rows from `row` on.
__device__ void load_tile(const Rows& rows, int64_t row, int chunk) {
  const int lane = lane_of_warp();
  for (int r = warp_of_block(); r < kWarp; r += kOwn) room().tile[r][lane] = rows.at(row + r, chunk * kWarp + lane);
}

// Row `own_row`, that of the warp, times row `row` + lane of the others.
__device__ float meet(const Rows& own, int64_t own_row, const Rows& others, int64_t row) {
  const int lane = lane_of_warp(), warp = warp_of_block();
  float sum = 0;
#pragma unroll 1
  for (int chunk = 0; chunk * kWarp < own.of.features; ++chunk) {
    __syncthreads();
    load_tile(others, row, chunk);
    room().own[warp][lane] = own.at(own_row, chunk * kWarp + lane);
    __syncthreads();
    for (int c = 0; c < kWarp; ++c) sum += room().own[warp][c] * room().tile[lane][c];
  }
  return sum;
}

// Adds rows [row, row + 32) times the weight that each lane has for its own: chunk by chunk a feature a lane.
__device__ void gather_rows(float (&sum)[kChunks], float weight, const Rows& rows, int64_t row) {
  const int lane = lane_of_warp();
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk * kWarp >= rows.of.features) continue;
    __syncthreads();
    load_tile(rows, row, chunk);
    __syncthreads();
    for (int r = 0; r < kWarp; ++r) sum[chunk] += __shfl_sync(kAllLanes, weight, r) * room().tile[r][lane];
  }
}

__device__ void store_row(const Heads& to, int64_t first, const float (&sum)[kChunks], float factor) {
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int64_t feature = chunk * kWarp + lane_of_warp();
    if (feature < to.features) to.of.store<float>(first + feature * to.feature, sum[chunk] * factor);
  }
}

// The block's place: kOwn queries of a head of an example, or kOwn keys.
struct Place {
  int64_t example, head, first;
  __device__ Place(int64_t steps, int64_t heads) {
    const int64_t parts = ceil_divide(steps, kOwn);
    first = blockIdx.x % parts * kOwn;
    head = blockIdx.x / parts % heads;
    example = blockIdx.x / parts / heads;
  }
};

// The keys that any of the block's queries looks at.
__device__ KeyRange keys_of_block(const AttentionCall& call, int64_t first) {
  const int64_t last = first + kOwn <= call.queries ? first + kOwn - 1 : call.queries - 1;
  return {keys_of(call.p, first, call.keys).first, keys_of(call.p, last, call.keys).end};
}

__global__ void __launch_bounds__(kThreads) attention_kernel(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const Place place(call.queries, call.heads);
  const int64_t group = place.head / (call.heads / call.groups), query = place.first + warp_of_block();
  const Rows q{call.q, call.q.row(place.example, 0, place.head), call.queries};
  const Rows k{call.k, call.k.row(place.example, 0, group), call.keys}, v{call.v, call.v.row(place.example, 0, group), call.keys};
  const KeyRange range = keys_of_block(call, place.first);
  float sum[kChunks] = {}, most = -1e30f, total = 0;
#pragma unroll 1
  for (int64_t key = range.first; key < range.end; key += kWarp) {
    const int64_t mine = key + lane_of_warp();
    const float product = meet(q, query, k, key);
    const bool looks = call.looks(place.example, query, mine);
    const float score = looks ? call.score(product, place.head, query, mine) : -1e30f;
    const float now = group_largest<kWarp>(score > most ? score : most);
    const float lower = std::exp(most - now);
    float weight = looks ? std::exp(score - now) : 0.0f;
    most = now;
    total = total * lower + group_sum<kWarp>(weight);
    if (looks) weight *= static_cast<float>(call.kept(place.example, place.head, query, mine));
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) sum[chunk] *= lower;
    gather_rows(sum, weight, v, key);
  }
  if (query >= call.queries) return;
  store_row(call.o, call.o.row(place.example, query, place.head), sum, total > 0 ? 1 / total : 0.0f);
  if (lane_of_warp() == 0)
    call.sums.of.store<float>(call.sums.at(place.example, place.head, query), total > 0 ? most + std::log(total) : -INFINITY);
}

// The gradient of one score, and the weight that the value has.
struct Flow {
  float weight = 0, score = 0;
  __device__ Flow(const AttentionCall& call, int64_t example, int64_t head, int64_t query, int64_t key, float product, float slope) {
    if (!call.looks(example, query, key)) return;
    const int64_t at = (example * call.heads + head) * call.queries + query;
    const float p = std::exp(call.score(product, head, query, key) - call.sums.of.load<float>(call.sums.at(example, head, query)));
    const float kept = static_cast<float>(call.kept(example, head, query, key));
    weight = p * kept;
    score = p * (slope * kept - static_cast<float>(call.means[at])) * static_cast<float>(call.p.scale);
  }
};

// rowsum(dO O), a warp a query.
__global__ void __launch_bounds__(kThreads) attention_means_kernel(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const int64_t rows = call.n * call.heads * call.queries;
#pragma unroll 1
  for (int64_t row = group_of_grid<kWarp>(); row < rows; row += groups_of_grid<kWarp>()) {
    const int64_t query = row % call.queries, head = row / call.queries % call.heads, example = row / call.queries / call.heads;
    const int64_t a = call.d_out.row(example, query, head), b = call.o.row(example, query, head);
    float sum = 0;
    for (int64_t c = lane_of_warp(); c < call.o.features; c += kWarp)
      sum += call.d_out.of.load<float>(a + c * call.d_out.feature) * call.o.of.load<float>(b + c * call.o.feature);
    sum = group_sum<kWarp>(sum);
    if (lane_of_warp() == 0) call.means[row] = static_cast<double>(sum);
  }
}

__global__ void __launch_bounds__(kThreads) attention_grad_queries_kernel(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const Place place(call.queries, call.heads);
  const int64_t group = place.head / (call.heads / call.groups), query = place.first + warp_of_block();
  const Rows q{call.q, call.q.row(place.example, 0, place.head), call.queries};
  const Rows d_out{call.d_out, call.d_out.row(place.example, 0, place.head), call.queries};
  const Rows k{call.k, call.k.row(place.example, 0, group), call.keys}, v{call.v, call.v.row(place.example, 0, group), call.keys};
  const KeyRange range = keys_of_block(call, place.first);
  float sum[kChunks] = {};
#pragma unroll 1
  for (int64_t key = range.first; key < range.end; key += kWarp) {
    const float product = meet(q, query, k, key), slope = meet(d_out, query, v, key);
    const Flow flow(call, place.example, place.head, query, key + lane_of_warp(), product, slope);
    gather_rows(sum, flow.score, k, key);
  }
  if (query < call.queries) store_row(call.dq, call.dq.row(place.example, query, place.head), sum, 1);
}

__global__ void __launch_bounds__(kThreads) attention_grad_keys_kernel(const __grid_constant__ AttentionCall call) {
  begin_kernel();
  const Place place(call.keys, call.groups);
  const int64_t key = place.first + warp_of_block(), shared = call.heads / call.groups;
  const int64_t last = place.first + kOwn <= call.keys ? place.first + kOwn - 1 : call.keys - 1;
  const KeyRange range{queries_of(call.p, place.first, call.queries).first, queries_of(call.p, last, call.queries).end};
  const Rows k{call.k, call.k.row(place.example, 0, place.head), call.keys}, v{call.v, call.v.row(place.example, 0, place.head), call.keys};
  float d_key[kChunks] = {}, d_value[kChunks] = {};
#pragma unroll 1
  for (int64_t head = place.head * shared; head < (place.head + 1) * shared; ++head) {
    const Rows q{call.q, call.q.row(place.example, 0, head), call.queries};
    const Rows d_out{call.d_out, call.d_out.row(place.example, 0, head), call.queries};
#pragma unroll 1
    for (int64_t query = range.first; query < range.end; query += kWarp) {
      const float product = meet(k, key, q, query), slope = meet(v, key, d_out, query);
      const Flow flow(call, place.example, head, query + lane_of_warp(), key, product, slope);
      gather_rows(d_value, flow.weight, d_out, query);
      gather_rows(d_key, flow.score, q, query);
    }
  }
  if (key >= call.keys) return;
  store_row(call.dk, call.dk.row(place.example, key, place.head), d_key, 1);
  store_row(call.dv, call.dv.row(place.example, key, place.head), d_value, 1);
}

const char* decline(const KernelCall& call) {
  if (const char* why = decline_unless_f32(call)) return why;
  for (int i = 0; i < call.n_in; ++i)
    if (call.in[i].data != nullptr && call.in[i].rank == 4 && call.in[i].dims[3] > kChunks * kWarp)
      return "only up to 256 features of a head";
  return nullptr;
}

void forward(const KernelCall& call) {
  const AttentionCall all = forward_call(call);
  Launches on(*call.queue, "attention");
  on.launch(attention_kernel, all.n * all.heads * ceil_divide(all.queries, kOwn), kThreads, all);
}

void backward(const KernelCall& call) {
  const AttentionCall all = backward_call(call);
  Launches on(*call.queue, "attention_grad");
  on.launch(attention_means_kernel, blocks_for_rows(all.n * all.heads * all.queries, kWarp), kThreads, all);
  on.launch(attention_grad_queries_kernel, all.n * all.heads * ceil_divide(all.queries, kOwn), kThreads, all);
  on.launch(attention_grad_keys_kernel, all.n * all.groups * ceil_divide(all.keys, kOwn), kThreads, all);
}

const Kernel kKernels[] = {
    {.op = "attention", .name = "tiles", .backend = Backend::cuda, .decline = decline, .run = forward},
    {.op = "attention_grad",
     .name = "tiles",
     .backend = Backend::cuda,
     .decline = decline,
     .run = backward,
     .scratch_bytes = backward_means},
};

}  // namespace

extern const KernelList kernels_cuda_attention;
const KernelList kernels_cuda_attention = kernel_list(kKernels);

}  // namespace perigee
