// A step in sections: what one of several GPUs does between two sums over them, and what one alone does until a bucket of its gradient is
// complete.
#include <algorithm>
#include <cassert>
#include <iterator>

#include "src/train/device/device_step.h"

namespace perigee {
namespace {

MemoryRange bytes_of(const GpuMemory& memory) { return range_of(memory.data(), memory.bytes()); }

// One behind the last piece that writes there; 0 when none does.
size_t written_until(const std::vector<DeviceWork>& pieces, const MemoryRange& range) {
  for (size_t i = pieces.size(); i-- > 0;)
    for (const MemoryRange& written : pieces[i].access.writes)
      if (written.begin < range.end && range.begin < written.end) return i + 1;
  return 0;
}

}  // namespace

void DeviceStep::cut(std::vector<Optimizer::Range> buckets) {
  assert(in_flight() == 0);
  gpu_.select();
  drop_graphs();
  buckets_ = std::move(buckets);
}

void DeviceStep::join_team() {
  gpu_.select();
  const Params& params = model_.model().params();
  shares_ = gpu_.allocate(3 * sizeof(double), "words of the step");
  if (params.state_specs().empty()) return;
  shared_states_ = gpu_.allocate(state_sum_bytes(params), "states");
  gpu_.clear(shared_states_.data(), shared_states_.bytes());
  const size_t sums = params.state_bytes().size() / params.width();
  std::vector<int32_t> mean_at(sums);
  // Neighbours of one type go together; the gap between them, where there is one, does no harm.
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const size_t begin = params.state_offset(static_cast<int>(i)), width = dtype_bytes(spec.dtype);
    const bool joins = !state_runs_.empty() && state_runs_.back().dtype == spec.dtype && (begin - state_runs_.back().begin) % width == 0;
    if (!joins) state_runs_.push_back({.begin = begin, .shared = begin / params.width() * sizeof(double), .dtype = spec.dtype});
    StateRun& run = state_runs_.back();
    run.elements = static_cast<int64_t>((begin - run.begin) / width) + spec.shape.elements();
    if (spec.mean.empty()) continue;
    const size_t mean = params.state_offset(params.find_state(spec.mean));
    std::fill_n(mean_at.begin() + static_cast<std::ptrdiff_t>(begin / width), spec.shape.elements(),
                static_cast<int32_t>((static_cast<int64_t>(mean) - static_cast<int64_t>(begin)) / static_cast<int64_t>(width)));
  }
  gpu_.upload(shared_states_.data() + sums * sizeof(double), mean_at.data(), sums * sizeof(int32_t));
}

void DeviceStep::begin(Part part, const Batch& batch, const Share& share, const StepInfo& info) {
  assert(in_flight() < kInFlight);
  gpu_.select();
  model_.to_device();
  Slot& slot = next();
  const Work work{part, share.examples, part == Part::update || (resident() && batch.fields.empty()), share.of};
  send(slot, work, batch, info, share.first);
  settle_once(slot, work);
}

size_t DeviceStep::sections() const {
  const Work& work = next().work;
  if (work.part == Part::update) return 1;
  const size_t buckets = std::max<size_t>(buckets_.size(), 1);
  if (work.of == 0) return buckets;
  return buckets + 1 + (work.part == Part::whole && !state_runs_.empty());
}

std::vector<std::vector<DeviceWork>> DeviceStep::sections_of(Slot& slot, const Work& work) {
  std::vector<std::vector<DeviceWork>> sections;
  if (work.part == Part::update) return {work_of(slot, work)};
  std::vector<DeviceWork> compute;
  if (work.examples > 0) add_compute(slot, work, &compute);
  else add_nothing(slot, work, &compute);
  const size_t width = model_.model().params().width();
  auto from = std::make_move_iterator(compute.begin());
  for (size_t done = 0, b = 0; b < std::max<size_t>(buckets_.size(), 1); ++b) {
    size_t until = compute.size();
    if (b + 1 < buckets_.size())
      until = std::max(done, written_until(compute, range_of(gradient_.data() + static_cast<size_t>(buckets_[b].begin) * width,
                                                             static_cast<size_t>(buckets_[b].end - buckets_[b].begin) * width)));
    sections.emplace_back(from + static_cast<std::ptrdiff_t>(done), from + static_cast<std::ptrdiff_t>(until));
    done = until;
  }
  const CudaScaleCall scale = scale_.data() ? scaling(slot, work) : CudaScaleCall{};
  if (work.of == 0) {
    if (scale.scale) sections.back().push_back(update_.end_of_scaling(scale));
    return sections;
  }
  std::vector<DeviceWork> rest;
  add_settle(slot, work, &rest);
  if (work.part == Part::compute) {
    if (scale.scale) rest.push_back(update_.end_of_scaling(scale));
    sections.push_back(std::move(rest));
    return sections;
  }
  const int32_t* const skip = &image(slot)->skip;
  update_.add(image(slot), record(slot), scale.scale ? &scale : nullptr, &rest);
  if (work.examples > 0) add_commits(plans_.at(work.examples), skip, &rest);
  add_states(false, work, skip, &rest);
  sections.push_back(std::move(rest));
  if (state_runs_.empty()) return sections;
  sections.emplace_back();
  add_states(true, work, skip, &sections.back());
  return sections;
}

// A GPU without an example of a small batch: what it adds is zero. It updates by the sum as the others do, with the scale in it.
void DeviceStep::add_nothing(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces) {
  if (scale_.data()) add_scale(slot, work, pieces);
  for (const GpuMemory* memory : {&gradient_, &shares_}) {
    DeviceWork clear{.what = "the clearing of a gradient"};
    clear.access.write(bytes_of(*memory));
    clear.queue = [this, memory](CudaQueue& queue) {
      if (queue.status == 0) queue.status = gpu_.module().clear(memory->data(), memory->bytes(), queue.stream);
    };
    pieces->push_back(std::move(clear));
  }
}

void DeviceStep::add_settle(Slot& slot, const Work& work, std::vector<DeviceWork>* pieces) {
  const CudaSettleCall call{.shares = reinterpret_cast<const double*>(shares_.data()),
                            .stopped = stopped(),
                            .update = work.part == Part::whole ? image(slot) : nullptr,
                            .record = record(slot)};
  DeviceWork settle{.what = "the sum of the losses"};
  settle.access.read(bytes_of(shares_));
  settle.access.write(bytes_of(words_));
  settle.access.write(range_of(call.update, sizeof(CudaUpdate)));
  settle.access.write(range_of(call.record, sizeof *call.record));
  settle.queue = [this, call](CudaQueue& queue) { gpu_.module().steps->settle(call, queue); };
  pieces->push_back(std::move(settle));
}

// Running statistics are averaged by examples, integers take the maximum: what this GPU adds to that, and what comes back.
void DeviceStep::add_states(bool mean, const Work& work, const int32_t* skip, std::vector<DeviceWork>* pieces) {
  const Params& params = model_.model().params();
  const auto* const mean_at =
      reinterpret_cast<const int32_t*>(shared_states_.data() + params.state_bytes().size() / params.width() * sizeof(double));
  for (const StateRun& run : state_runs_) {
    const size_t bytes = static_cast<size_t>(run.elements) * dtype_bytes(run.dtype), sum_bytes = static_cast<size_t>(run.elements) * 8;
    std::byte *const own = model_.states() + run.begin, *const sums = shared_states_.data() + run.shared;
    const CudaWeighCall call{.from = mean ? sums : own,
                             .to = mean ? own : sums,
                             .mean_at = mean_at + run.begin / params.width(),
                             .elements = run.elements,
                             .dtype = run.dtype,
                             .weight = static_cast<double>(mean ? work.of : work.examples),
                             .divide = mean,
                             .stopped = skip};
    DeviceWork piece{.what = mean ? "the mean of the states" : "a share of the states"};
    piece.access.read(range_of(skip, sizeof *skip));
    piece.access.read(range_of(call.from, mean ? sum_bytes : bytes));
    piece.access.write(range_of(call.to, mean ? bytes : sum_bytes));
    piece.queue = [this, call, bytes](CudaQueue& queue) {
      const CudaCommit whole{call.to, call.from, static_cast<int64_t>(bytes)};
      if (call.dtype == Dtype::i64) return gpu_.module().steps->commit(&whole, 1, call.stopped, queue);
      gpu_.module().steps->weigh(call, queue);
    };
    pieces->push_back(std::move(piece));
  }
}

void DeviceStep::queue_section(size_t section) {
  gpu_.select();
  queue_in_line(gpu_, described_[section], true);
}

void DeviceStep::add_graph(GpuHandle graph) {
  std::vector<GpuHandle>& graphs = next().sections[next().work];
  graphs.clear();
  graphs.push_back(std::move(graph));
}

void DeviceStep::capture_sections(bool branched) {
  gpu_.select();
  std::vector<GpuHandle>& graphs = next().sections[next().work];
  graphs.clear();
  for (const std::vector<DeviceWork>& section : described_)
    graphs.push_back(branched ? branches(true).capture(section) : gpu_.capture([&] { queue_in_line(gpu_, section, false); }));
}

// In a team somebody waits for a piece on another stream even where a GPU has one branch only.
GpuBranches& DeviceStep::branches(bool several) {
  gpu_.select();
  const int wanted = several ? most_branches() : 1;
  if (!branches_ || (branches_->count() == 1 && wanted > 1)) branches_ = std::make_unique<GpuBranches>(gpu_, wanted);
  return *branches_;
}

void DeviceStep::end() {
  gpu_.select();
  Slot& slot = next();
  gpu_.check(gpu_.module().record_event(slot.done.get(), gpu_.queue().stream), "record an event");
  ++queued_;
  if (slot.work.part == Part::whole) model_.device_changed();
  if (slot.work.part == Part::update) model_.device_updated();
}

bool DeviceStep::queue_commit(bool take_means) {
  const Work* const last = last_compute();
  if (!last || state_runs_.empty()) return false;
  gpu_.select();
  model_.to_device();
  const int32_t* const skip = stopped();
  std::vector<DeviceWork> pieces;
  if (take_means) add_states(true, *last, skip, &pieces);
  if (!take_means && last->examples > 0) add_commits(plans_.at(last->examples), skip, &pieces);
  if (!take_means) add_states(false, *last, skip, &pieces);
  queue_in_line(gpu_, pieces, false);
  model_.device_changed_states();
  return true;
}

}  // namespace perigee
