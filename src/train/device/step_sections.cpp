// A step in sections.
#include <algorithm>
#include <iterator>

#include "src/train/device/step_program.h"

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

size_t StepProgram::count_sections(const StepWork& work) const {
  if (work.part == StepPart::update) return 1;
  const size_t buckets = std::max<size_t>(buckets_.size(), 1);
  if (work.of == 0) return buckets;
  return buckets + 1 + (work.part == StepPart::whole && !buffers_.state_runs().empty());
}

std::vector<std::vector<DeviceWork>> StepProgram::sections(const StepSlot& slot, const StepWork& work) {
  std::vector<std::vector<DeviceWork>> sections;
  if (work.part == StepPart::update) return {whole(slot, work)};
  std::vector<DeviceWork> compute;
  if (work.examples > 0) add_compute(slot, work, &compute);
  else add_empty_part(slot, work, &compute);
  const size_t width = model_.model().params().width();
  auto from = std::make_move_iterator(compute.begin());
  for (size_t done = 0, b = 0; b < std::max<size_t>(buckets_.size(), 1); ++b) {
    size_t until = compute.size();
    if (b + 1 < buckets_.size())
      until = std::max(done, written_until(compute, range_of(buffers_.gradient().data() + static_cast<size_t>(buckets_[b].begin) * width,
                                                             static_cast<size_t>(buckets_[b].end - buckets_[b].begin) * width)));
    sections.emplace_back(from + static_cast<std::ptrdiff_t>(done), from + static_cast<std::ptrdiff_t>(until));
    done = until;
  }
  const CudaScaleCall scale = buffers_.scale().data() ? scaling(slot, work) : CudaScaleCall{};
  if (work.of == 0) {
    if (scale.scale) sections.back().push_back(update_.end_of_scaling(scale));
    return sections;
  }
  std::vector<DeviceWork> rest;
  add_settle(slot, work, &rest);
  if (work.part == StepPart::compute) {
    if (scale.scale) rest.push_back(update_.end_of_scaling(scale));
    sections.push_back(std::move(rest));
    return sections;
  }
  const int32_t* const skip = &buffers_.image(slot)->skip;
  update_.add(buffers_.image(slot), buffers_.record(slot), scale.scale ? &scale : nullptr, &rest);
  if (work.examples > 0) add_commits(work, skip, &rest);
  add_states(false, work, skip, &rest);
  sections.push_back(std::move(rest));
  if (buffers_.state_runs().empty()) return sections;
  sections.emplace_back();
  add_states(true, work, skip, &sections.back());
  return sections;
}

// A GPU without an example of a small batch: what it adds is zero. It updates by the sum as the others do, with the scale in it.
void StepProgram::add_empty_part(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces) {
  if (buffers_.scale().data()) add_scale(slot, work, pieces);
  for (const GpuMemory* memory : {&buffers_.gradient(), &buffers_.shares()}) {
    DeviceWork clear{.what = "the clearing of a gradient"};
    clear.access.write(bytes_of(*memory));
    clear.queue = [this, memory](CudaQueue& queue) {
      if (queue.status == 0) queue.status = gpu_.module().clear(memory->data(), memory->bytes(), queue.stream);
    };
    pieces->push_back(std::move(clear));
  }
}

void StepProgram::add_settle(const StepSlot& slot, const StepWork& work, std::vector<DeviceWork>* pieces) {
  const CudaSettleCall call{.shares = reinterpret_cast<const double*>(buffers_.shares().data()),
                            .stopped = buffers_.stopped(),
                            .update = work.part == StepPart::whole ? buffers_.image(slot) : nullptr,
                            .record = buffers_.record(slot)};
  DeviceWork settle{.what = "the sum of the losses"};
  settle.access.read(bytes_of(buffers_.shares()));
  settle.access.write(bytes_of(buffers_.words()));
  settle.access.write(range_of(call.update, sizeof(CudaUpdate)));
  settle.access.write(range_of(call.record, sizeof *call.record));
  settle.queue = [this, call](CudaQueue& queue) { gpu_.module().steps->settle(call, queue); };
  pieces->push_back(std::move(settle));
}

// Running statistics are averaged by examples, integers take the maximum: what this GPU adds to that, and what comes back.
void StepProgram::add_states(bool mean, const StepWork& work, const int32_t* skip, std::vector<DeviceWork>* pieces) {
  const Params& params = model_.model().params();
  std::byte* const shared = buffers_.shared_states().data();
  const auto* const mean_at = reinterpret_cast<const int32_t*>(shared + params.state_bytes().size() / params.width() * sizeof(double));
  for (const StepBuffers::StateRun& run : buffers_.state_runs()) {
    const size_t bytes = static_cast<size_t>(run.elements) * dtype_bytes(run.dtype), sum_bytes = static_cast<size_t>(run.elements) * 8;
    std::byte *const own = model_.states() + run.begin, *const sums = shared + run.shared;
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

}  // namespace perigee
