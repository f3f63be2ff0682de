// Which launches overlap the one before (overlap.cuh): in a capture, where the stream's next node comes after one alone and that is a
// kernel of ours, which waits itself. CUDA's own record of the stream decides, so that no other work queued there goes unnoticed:
// a copy, a fill, a library's kernel, an event that the stream waits for. After those, and outside captures, a launch is an ordinary one,
// and libraries launch theirs as they do. Between two replays of a graph the stream's order stands.
//
// PERIGEE_CUDA_OVERLAP=0 turns it off. No CUDA header is needed to include this; streams are the runtime's.
#pragma once

#include <cstdint>

namespace perigee {

// The first code and capability that have it, as 10 major + minor.
inline constexpr int kOverlapsFrom = 90;

// Before the first capture on the device, which is the current one: tries whether it has what it takes and captures such launches.
void prepare_overlaps(int device);
// From now on, or no longer, the calling thread captures; several captures may be under way.
void begin_overlaps();
void end_overlaps();
// Whether the next launch on the stream may overlap, of a kernel whose code begins as begin_kernel() does.
bool follows_own_kernel(void* stream);
// A kernel of ours has been launched there.
void launched_own_kernel(void* stream);
// Edges of a captured graph (cudaGraph_t) over which a kernel comes in early.
int64_t overlaps_of(void* graph);

}  // namespace perigee
