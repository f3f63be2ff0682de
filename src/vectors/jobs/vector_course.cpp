#include "src/vectors/jobs/vector_course.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr int64_t kLookEvery = 512;  // windows

void run_free(const VectorWorkers& workers, VectorCourse& course, std::atomic<int64_t>& next, int rank) {
  VectorWorker& worker = *workers[static_cast<size_t>(rank)];
  for (int64_t work = next++; work < course.works && !course.stopped; work = next++) {
    course.open(worker, work);
    for (int64_t steps = 1; worker.step() && !course.stopped; ++steps)
      if (steps % kLookEvery == 0) course.look(worker, rank);
    course.look(worker, rank);
  }
}

// A thread that leaves would keep the others waiting: all end with the round in which none has more.
void run_meeting(Team& self, const VectorWorkers& workers, VectorCourse& course, std::vector<char>& more) {
  const auto mine = static_cast<size_t>(self.rank());
  VectorWorker& worker = *workers[mine];
  int64_t work = self.rank();
  if (work < course.works) course.open(worker, work);
  for (bool any = true; any;) {
    worker.begin_round();
    while (work < course.works && !worker.collect())
      if ((work += self.size()) < course.works) course.open(worker, work);
    more[mine] = work < course.works && !course.stopped;
    self.barrier();
    for (const auto& other : workers) other->apply(self.rank(), self.size());
    any = std::find(more.begin(), more.end(), 1) != more.end();
    course.look(worker, self.rank());
    self.barrier();
  }
}

}  // namespace

void run_course(ThreadTeam& team, const VectorWorkers& workers, VectorCourse& course, bool meets) {
  std::atomic<int64_t> next{0};
  std::vector<char> more(workers.size(), 1);
  team.run([&](Team& self) {
    if (meets) run_meeting(self, workers, course, more);
    else run_free(workers, course, next, self.rank());
  });
}

}  // namespace perigee
