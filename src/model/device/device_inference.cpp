#include "src/model/device/device_inference.h"
#include "src/tensor/bytes.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>

#include "src/model/device/device_tuning.h"

namespace perigee {

DeviceInference::DeviceInference(DeviceModel& model, bool with_loss, std::vector<NetworkInput> fields, std::vector<ModelOutput> more,
                                 std::vector<std::string> layers)
    : model_(model),
      gpu_(model.gpu()),
      fields_(std::move(fields)),
      more_(std::move(more)),
      with_loss_(with_loss),
      blocking_(steps_op_by_op() == UINT64_MAX),
      output_row_(byte_size(model.model().output_types().at(0))),
      loss_row_(with_loss ? dtype_bytes(model.model().spec().dtype) : 0),
      set_(model.model(), with_loss ? PlanSet::Kind::inference_with_loss : PlanSet::Kind::inference, Backend::cuda, &model.tuning(),
           std::move(layers)),
      plans_(model, set_, nullptr) {
  for (Slot& slot : slots_) slot.copied = gpu_.event(), slot.done = gpu_.event();
}

DeviceInference::~DeviceInference() { gpu_.drain(); }  // for work that still uses the memory

int64_t DeviceInference::batch_that_fits(int64_t most) {
  const auto fits = [&](int64_t batch) {
    const size_t arena = set_.plan(batch)->arena_bytes(), held = model_.arena().bytes();
    return (arena > held ? arena - held : 0) + kInFlight * layout_of(batch).inputs <= gpu_.free_bytes() / 20 * 19;
  };
  while (most > 1 && !fits(most)) most /= 2;
  return most;
}

DeviceInference::Layout DeviceInference::layout_of(int64_t count) const {
  Layout layout;
  const auto n = static_cast<size_t>(count);
  for (const NetworkInput& field : fields_) {
    layout.fields.push_back(layout.inputs);
    layout.inputs += device_bytes(n * byte_size(field.type));
  }
  layout.loss = device_bytes(n * output_row_);
  layout.results = layout.loss + n * loss_row_;
  for (const ModelOutput& output : more_) {
    layout.more.push_back(device_bytes(layout.results));
    layout.results = layout.more.back() + n * byte_size(output.type);
  }
  return layout;
}

void DeviceInference::make_room(Slot& slot, int64_t count) {
  largest_ = std::max(largest_, count);  // the next batch in this buffer may be as large as the one in the other
  const Layout layout = layout_of(largest_);
  if (slot.from_bytes < layout.inputs || slot.to_bytes < layout.results) {
    gpu_.wait();
    slot.graphs.clear();
    slot.device = {};
    slot.device = gpu_.allocate(layout.inputs, "a batch to evaluate");
    slot.from_host = gpu_.allocate_pinned(layout.inputs);
    slot.to_host = gpu_.allocate_pinned(layout.results);
    slot.from_bytes = layout.inputs, slot.to_bytes = layout.results;
  }
  plans_.at(count);
  if (generation_ == plans_.generation()) return;
  gpu_.wait();
  for (Slot& each : slots_) each.graphs.clear();
  generation_ = plans_.generation();
}

PlanRun& DeviceInference::bound(Slot& slot, int64_t count) {
  PlanRun& run = plans_.at(count);
  const Layout layout = layout_of(count);
  for (size_t f = 0; f < fields_.size(); ++f)
    if (const int index = run.plan().input_index(fields_[f].name); index >= 0) run.set_input(index, slot.device.data() + layout.fields[f]);
  return run;
}

// Libraries make their plans, kernels are loaded, and what does not run goes to another kernel.
void DeviceInference::settle(Slot& slot, int64_t count) {
  while (tune_on_device(gpu_, bound(slot, count), nullptr, false, model_.tuning()).changed > 0) {
    plans_.renew(count);
    make_room(slot, count);
  }
  PlanRun& run = bound(slot, count);
  for (const ModelOutput& output : more_)
    if (!run.output(output.plan).dense())
      throw Error(ErrorKind::usage, {.where = "'" + output.name + "'",
                                     .what = "what it gives is a window on another array on this device, and cannot be copied in one piece",
                                     .hint = "predict it on the CPU: device = \"cpu\""});
  settled_.insert(count);
}

void DeviceInference::queue_work(Slot& slot, int64_t count, bool blocking) {
  PlanRun& run = bound(slot, count);
  const Layout layout = layout_of(count);
  run.queue_packs(gpu_.queue());
  gpu_.check_queue("the packing of parameters");
  for (size_t i = 0; i < run.plan().steps().size(); ++i) {
    run.queue_step(i, gpu_.queue(), nullptr);
    if (gpu_.queue().status != 0) gpu_.check_queue(step_name(run.plan().steps()[i]));
    if (blocking) gpu_.check(gpu_.module().wait_for_stream(gpu_.queue().stream), "run " + step_name(run.plan().steps()[i]));
  }
  auto* const to = static_cast<std::byte*>(slot.to_host.get());
  const auto n = static_cast<size_t>(count);
  slot.rows = {.output = run.output("output"), .count = count};
  assert(slot.rows.output.dense());
  gpu_.copy(to, slot.rows.output.data, n * output_row_);
  slot.rows.output.data = to;
  for (size_t i = 0; i < more_.size(); ++i) {
    View& view = slot.rows.more.emplace_back(run.output(more_[i].plan));
    assert(view.dense());
    gpu_.copy(to + layout.more[i], view.data, n * byte_size(more_[i].type));
    view.data = to + layout.more[i];
  }
  if (!with_loss_) return;
  slot.rows.loss = run.output("loss");
  gpu_.copy(to + layout.loss, slot.rows.loss.data, n * loss_row_);
  slot.rows.loss.data = to + layout.loss;
}

void DeviceInference::run(Slot& slot, int64_t count) {
  if (!settled_.contains(count)) settle(slot, count);
  if (blocking_) return queue_work(slot, count, true);
  Captured& graph = slot.graphs[count];
  if (!graph.graph) {
    graph.graph = gpu_.capture([&] { queue_work(slot, count, false); });
    graph.rows = slot.rows;
  }
  slot.rows = graph.rows;
  gpu_.launch(graph.graph);
}

void DeviceInference::queue(const std::vector<const std::byte*>& fields, int64_t count) {
  assert(in_flight() < kInFlight && count > 0);
  gpu_.select();
  model_.to_device();
  Slot& slot = slots_[queued_ % kInFlight];
  make_room(slot, count);
  const Layout layout = layout_of(count);
  auto* const from = static_cast<std::byte*>(slot.from_host.get());
  for (size_t f = 0; f < fields_.size(); ++f)
    std::memcpy(from + layout.fields[f], fields[f], static_cast<size_t>(count) * byte_size(fields_[f].type));
  const CudaModule& module = gpu_.module();
  gpu_.check(module.copy(slot.device.data(), from, layout.inputs, gpu_.copies()), "copy a batch");
  gpu_.check(module.record_event(slot.copied.get(), gpu_.copies()), "record an event");
  gpu_.check(module.stream_waits(gpu_.queue().stream, slot.copied.get()), "wait for a copy");
  run(slot, count);
  gpu_.check(module.record_event(slot.done.get(), gpu_.queue().stream), "record an event");
  ++queued_;
}

DeviceInference::Rows DeviceInference::take() {
  assert(in_flight() > 0);
  gpu_.select();
  const Slot& slot = slots_[taken_ % kInFlight];
  gpu_.wait_for(slot.done.get(), "finish a batch of " + std::to_string(slot.rows.count) + " examples");
  ++taken_;
  return slot.rows;
}

void DeviceInference::forget() {
  if (in_flight() == 0) return;
  gpu_.select();
  gpu_.wait();
  taken_ = queued_;
}

}  // namespace perigee
