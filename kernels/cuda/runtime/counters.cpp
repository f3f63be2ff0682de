#include "kernels/cuda/runtime/counters.h"

#include <atomic>

namespace perigee {
namespace {

CudaCounts counts;
thread_local bool capturing = false;

}  // namespace

CudaCounts cuda_counts() {
  CudaCounts now;
  for (int64_t CudaCounts::*which :
       {&CudaCounts::launches, &CudaCounts::graph_launches, &CudaCounts::copies, &CudaCounts::allocations, &CudaCounts::host_waits,
        &CudaCounts::event_waits, &CudaCounts::blocked_event_waits, &CudaCounts::captured_nodes, &CudaCounts::captured_overlaps})
    now.*which = std::atomic_ref(counts.*which).load(std::memory_order_relaxed);
  return now;
}

void count_cuda(int64_t CudaCounts::*which) {
  if (!capturing) std::atomic_ref(counts.*which).fetch_add(1, std::memory_order_relaxed);
}

void set_captured(int64_t nodes, int64_t overlaps) {
  std::atomic_ref(counts.captured_nodes).store(nodes, std::memory_order_relaxed);
  std::atomic_ref(counts.captured_overlaps).store(overlaps, std::memory_order_relaxed);
}

void count_nothing(bool captures) { capturing = captures; }

}  // namespace perigee
