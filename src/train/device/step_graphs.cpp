#include "src/train/device/step_graphs.h"

#include <algorithm>
#include <cstdlib>

namespace perigee {
namespace {

const char* wanted_branches() { return std::getenv("PERIGEE_CUDA_BRANCHES"); }

}  // namespace

void StepGraphs::drop() {
  gpu_.wait();
  for (Captured& captured : captured_) captured = {};
}

void StepGraphs::drop(const StepSlot& slot) {
  gpu_.wait();
  captured_[slot.number] = {};
}

void StepGraphs::launch(const StepSlot& slot, const StepWork& work) {
  GpuHandle& graph = captured_[slot.number].whole[work];
  if (!graph && !branched_.contains(work)) graph = warm_up(slot, work);
  if (!graph) {
    const std::vector<DeviceWork> pieces = program_.whole(slot, work);
    graph = branched_.at(work) ? branches_->capture(pieces) : gpu_.capture([&] { queue_in_line(gpu_, pieces, false); });
  }
  gpu_.launch(graph);
}

// PERIGEE_CUDA_BRANCHES says how many, unmeasured.
int StepGraphs::most_branches() const { return wanted_branches() ? std::atoi(wanted_branches()) : kBranches; }

// In line, or on branches where that is faster; null: in line, not captured yet.
GpuHandle StepGraphs::choose_form(const StepWork& work, const std::vector<DeviceWork>& pieces) {
  branched_[work] = false;
  if (most_branches() <= 1 || work.part == StepPart::update) return {};
  GpuHandle graph = wanted_branches() ? branches(true).capture(pieces) : faster_on_branches(gpu_, branches(true), pieces);
  branched_[work] = static_cast<bool>(graph);
  if (std::none_of(branched_.begin(), branched_.end(), [](const auto& form) { return form.second; })) branches_.reset();
  return graph;
}

// With what stops a step set, so that nothing changes.
template <class Run>
void StepGraphs::run_stopped(const StepSlot& slot, const StepWork& work, Run run) {
  const int32_t one = 1;
  int32_t before = 0;
  gpu_.download(&before, buffers_.stopped(), sizeof before);
  gpu_.upload(buffers_.stopped(), &one, sizeof one);
  if (work.part == StepPart::update) gpu_.upload(&buffers_.image(slot)->skip, &one, sizeof one);
  const CudaStepRecord kept = *buffers_.record(slot);
  const auto go_on = [&] {
    *buffers_.record(slot) = kept;
    gpu_.upload(buffers_.stopped(), &before, sizeof before);
  };
  try {
    run();
  } catch (const Error&) {
    try {
      go_on();
    } catch (const Error&) {}  // of a device that is lost: the first failure says it
    throw;
  }
  go_on();
  gpu_.upload(slot.device.data(), buffers_.host(slot), buffers_.layout_of(work).total);  // norms change the image
}

// Once for each batch size: libraries make their plans, kernels are loaded, and what does not run says so by name; then the graph's form is
// chosen.
GpuHandle StepGraphs::warm_up(const StepSlot& slot, const StepWork& work) {
  GpuHandle graph;
  try {
    run_stopped(slot, work, [&] {
      queue_in_line(gpu_, program_.whole(slot, work), true);
      graph = choose_form(work, program_.whole(slot, work));
    });
  } catch (const Error&) {
    branched_.erase(work);
    throw;
  }
  return graph;
}

bool StepGraphs::prefers_branches(const StepSlot& slot) {
  const auto known = branched_.find(slot.work);
  if (known != branched_.end()) return known->second;
  std::vector<DeviceWork> pieces;
  for (const std::vector<DeviceWork>& section : described_) pieces.insert(pieces.end(), section.begin(), section.end());
  try {
    run_stopped(slot, slot.work, [&] { choose_form(slot.work, pieces); });
  } catch (const Error&) {
    branched_.erase(slot.work);
    throw;
  }
  return branched_.at(slot.work);
}

void StepGraphs::describe(const StepSlot& slot, bool blocking) {
  described_ = program_.sections(slot, slot.work);
  if (blocking || !warm_sections_.insert(slot.work).second) return;
  try {
    run_stopped(slot, slot.work, [&] {
      for (const std::vector<DeviceWork>& section : described_) queue_in_line(gpu_, section, true);
    });
  } catch (const Error&) {
    warm_sections_.erase(slot.work);
    throw;
  }
}

bool StepGraphs::has_sections(const StepSlot& slot, size_t count) const {
  const auto& sections = captured_[slot.number].sections;
  const auto found = sections.find(slot.work);
  return found != sections.end() && found->second.size() >= count;
}

void StepGraphs::add_graph(const StepSlot& slot, GpuHandle graph) {
  std::vector<GpuHandle>& graphs = captured_[slot.number].sections[slot.work];
  graphs.clear();
  graphs.push_back(std::move(graph));
}

void StepGraphs::capture_sections(const StepSlot& slot, bool branched) {
  std::vector<GpuHandle>& graphs = captured_[slot.number].sections[slot.work];
  graphs.clear();
  for (const std::vector<DeviceWork>& section : described_)
    graphs.push_back(branched ? branches(true).capture(section) : gpu_.capture([&] { queue_in_line(gpu_, section, false); }));
}

// In a team a piece on another stream is waited for even where a GPU has one branch only.
GpuBranches& StepGraphs::branches(bool several) {
  const int wanted = several ? most_branches() : 1;
  if (!branches_ || (branches_->count() == 1 && wanted > 1)) branches_ = std::make_unique<GpuBranches>(gpu_, wanted);
  return *branches_;
}

}  // namespace perigee
