// Counts this process's calls of CUDA's runtime, cheaply, so that a program can show that its steps launch nothing beside their graph
// and wait for nothing. No CUDA header is needed to include it.
#pragma once

#include <cstdint>

namespace perigee {

struct CudaCounts {
  int64_t launches = 0;  // of kernels (a library's call counts as one) and fills, outside graphs; while captured they do not count
  int64_t graph_launches = 0;
  int64_t copies = 0;               // queued outside graphs
  int64_t allocations = 0;          // of the device's and of pinned memory, taken and given back: the runtime may wait for the device there
  int64_t host_waits = 0;           // for all that a stream has, or for a copy: the host idles until the device does
  int64_t event_waits = 0;          // for one event, which others may be queued behind
  int64_t blocked_event_waits = 0;  // of these: the event was not reached yet, so that the host idled
  int64_t captured_nodes = 0;       // of the graph that was captured last: kernels, fills, copies
  int64_t captured_overlaps = 0;    // there: edges over which a kernel comes in before the one that it follows has ended (overlap.h)
};

// The counts of the module. Any thread adds to them.
CudaCounts cuda_counts();
// One more; of what the calling thread captures, none.
void count_cuda(int64_t CudaCounts::*which);
void set_captured(int64_t nodes, int64_t overlaps);
// From now on, or no longer, the calling thread captures.
void count_nothing(bool captures);

}  // namespace perigee
