// How the threads of a team go through parts of a training: each takes the next part when it is free, or they meet every few windows.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "src/core/thread_team.h"
#include "src/vectors/vector_worker.h"

namespace perigee {

using VectorWorkers = std::vector<std::unique_ptr<VectorWorker>>;  // one for each thread

struct VectorCourse {
  int64_t works = 0;
  std::function<void(VectorWorker&, int64_t work)> open;  // a part for the worker
  std::function<void(VectorWorker&, int rank)> look;      // now and then, on the worker's thread; may set `stopped`
  std::atomic<bool> stopped{false};
};

// `meets`: by meetings, so that the bits depend on the number of threads alone. Nothing that the course calls may throw.
void run_course(ThreadTeam& team, const VectorWorkers& workers, VectorCourse& course, bool meets);

}  // namespace perigee
