// The CUDA graphs of a program's steps: captured once for each slot and kind of work and replayed, in line or on branches, whichever is
// faster. A step as a whole is one graph; of sections each is one, unless a team captures them together.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/train/device/step_program.h"

namespace perigee {

class StepGraphs {
 public:
  static constexpr int kBranches = 4;  // of a graph, at most

  StepGraphs(Gpu& gpu, StepBuffers& buffers, StepProgram& program) : gpu_(gpu), buffers_(buffers), program_(program) {}

  void drop();  // all, once none runs
  void drop(const StepSlot& slot);

  // Launches the slot's work as a whole.
  void launch(const StepSlot& slot, const StepWork& work);

  // The work in sections. describe() before what follows: runs them once, so that they can be captured, unless `blocking`.
  void describe(const StepSlot& slot, bool blocking);
  const std::vector<DeviceWork>& section(size_t section) const { return described_[section]; }
  void queue_section(size_t section) { queue_in_line(gpu_, described_[section], true); }  // op by op
  // Whether the described pieces are faster side by side than in line: measured, of this GPU alone.
  bool prefers_branches(const StepSlot& slot);
  GpuBranches& branches(bool several);
  bool has_sections(const StepSlot& slot, size_t count) const;
  void capture_sections(const StepSlot& slot, bool branched);
  void add_graph(const StepSlot& slot, GpuHandle graph);  // of all sections
  void launch_section(const StepSlot& slot, size_t section) { gpu_.launch(captured_[slot.number].sections.at(slot.work)[section]); }

 private:
  struct Captured {
    std::map<StepWork, GpuHandle> whole;
    std::map<StepWork, std::vector<GpuHandle>> sections;
  };
  GpuHandle warm_up(const StepSlot& slot, const StepWork& work);
  template <class Run>
  void run_stopped(const StepSlot& slot, const StepWork& work, Run run);
  int most_branches() const;
  GpuHandle choose_form(const StepWork& work, const std::vector<DeviceWork>& pieces);

  Gpu& gpu_;
  StepBuffers& buffers_;
  StepProgram& program_;
  std::vector<std::vector<DeviceWork>> described_;
  std::set<StepWork> warm_sections_;
  std::map<StepWork, bool> branched_;      // of what is warm: whether its graphs have branches
  std::unique_ptr<GpuBranches> branches_;  // null: no graph has any
  std::array<Captured, StepBuffers::kInFlight> captured_;
};

}  // namespace perigee
