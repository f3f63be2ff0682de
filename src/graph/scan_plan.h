// How a plan of the host runs a loop (scan.h): the body is a plan of its own, whose arena is scratch of the loop's step.
#pragma once

#include <memory>
#include <vector>

#include "src/graph/plan.h"
#include "src/graph/scan.h"

namespace perigee {

class ScanPlan {
 public:
  // `examples`: N. `added`: by output of the node, whether results are added to what is there where the call says `accumulate`.
  ScanPlan(const Node& node, int64_t examples, const PlanOptions& options, std::vector<bool> added);

  size_t scratch_bytes() const { return scratch_bytes_; }
  const Plan& body() const { return *body_; }
  static const Kernel kernel;  // its calls' params are the ScanRun

 private:
  friend class ScanRun;

  // Memory for a value of one step.
  struct Room {
    size_t offset = 0, bytes = 0;  // in the scratch
    size_t row = 0;                // bytes of an example
  };
  Room room(const Type& type);

  ScanLayout layout_;
  int64_t examples_ = 0;
  std::vector<bool> added_;
  std::shared_ptr<const Plan> body_;
  std::vector<Room> carries_, next_, steps_, results_, sums_;
  size_t scratch_bytes_ = 0;
};

// One thread's memory for it.
class ScanRun {
 public:
  ScanRun(const ScanPlan& plan, std::byte* scratch);
  void run(const KernelCall& call);
  PlanRun& body() { return body_; }

 private:
  void begin(const KernelCall& call);
  void read_step(const KernelCall& call, int64_t t);
  void write_step(const KernelCall& call, int64_t t);
  std::byte* at(const ScanPlan::Room& room) const { return scratch_ + room.offset; }
  // One step's values of a sequence [N, T, ...] from or to memory of their own.
  void gather(const View& sequence, const ScanPlan::Room& room, int64_t t) const;
  void scatter(const ScanPlan::Room& room, const std::byte* from, const View& sequence, int64_t t) const;

  const ScanPlan& plan_;
  std::byte* scratch_;
  PlanRun body_;
  std::vector<int> carry_inputs_, step_inputs_, fixed_inputs_, weights_;  // places in the body's lists; -1: the body does not read it
  std::vector<std::byte*> carried_, next_;
};

}  // namespace perigee
