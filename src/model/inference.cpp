#include "src/model/inference.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/convert.h"
#include "src/model/device/device_inference.h"
#include "src/model/steps/carried_rows.h"
#include "src/model/steps/cut_fields.h"
#include "src/tensor/bytes.h"

namespace perigee {

struct Inference::Worker {
  std::unique_ptr<PlanMemory> memory;
};

namespace {

// Those that the plan has to be asked for.
std::vector<std::string> layers_among(const std::vector<ModelOutput>& outputs) {
  std::vector<std::string> layers;
  for (const ModelOutput& output : outputs)
    if (output.plan.starts_with("layer:")) layers.push_back(output.name);
  return layers;
}

Tensor rows_of(const Type& type, int64_t rows) {
  std::vector<int64_t> dims = type.shape.vector();
  dims.insert(dims.begin(), rows);
  return {type.dtype, Shape(dims)};
}

}  // namespace

Inference::Inference(Model& model, ThreadTeam& team, bool with_loss, int64_t max_batch, std::span<DeviceModel* const> devices,
                     std::vector<ModelOutput> more)
    : model_(model), team_(team), with_loss_(with_loss), more_(std::move(more)), max_batch_(max_batch) {
  for (DeviceModel* device : devices) {
    devices_.push_back(
        std::make_unique<DeviceInference>(*device, with_loss, fields_of(model.spec(), with_loss), more_, layers_among(more_)));
    max_batch_ = devices_.back()->batch_that_fits(max_batch_);
  }
  if (!devices_.empty()) return;
  plans_ = std::make_unique<PlanSet>(model, with_loss ? PlanSet::Kind::inference_with_loss : PlanSet::Kind::inference, Backend::cpu,
                                     nullptr, layers_among(more_));
  for (int i = 0; i < team.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->memory = std::make_unique<PlanMemory>(*plans_, model.params(), nullptr);
  }
  if (plans_->slices().sliceable) cut_ = CutFields::of(model, with_loss);
}

Inference::~Inference() = default;

void Inference::carry(int64_t rows) {
  assert(devices_.empty());
  plans_->set_carry(Carry::stated);
  carried_ = std::make_unique<CarriedRows>(model_.carried(), rows);
}

void Inference::restart() {
  if (carried_) carried_->clear();
}

namespace {

constexpr int64_t kSubBatch = 32;

}  // namespace

void Inference::make_result(int64_t count) {
  const Type& out_type = model_.output_types().at(0);
  if (!result_.output.defined() || result_.output.shape()[0] < count) {
    const int64_t rows = std::max(count, max_batch_);
    result_.output = rows_of(out_type, rows);
    result_.more.clear();
    for (const ModelOutput& output : more_) result_.more.push_back(rows_of(output.type, rows));
    result_.loss.resize(with_loss_ ? static_cast<size_t>(rows) : 0);
  }
  result_.count = count;
}

void Inference::queue(const std::vector<const std::byte*>& fields, int64_t count) {
  if (devices_.empty()) {
    make_result(count);
    run_on_team(fields, count);
  } else {
    devices_[queued_ % devices_.size()]->queue(fields, count);
  }
  ++queued_;
}

const Inference::Result& Inference::take() {
  if (devices_.empty()) return ++taken_, result_;
  const DeviceInference::Rows rows = devices_[taken_ % devices_.size()]->take();
  ++taken_;
  make_result(rows.count);
  const Tensor target = result_.output.rows(0, rows.count);
  copy_view(rows.output, target.view());
  for (size_t i = 0; i < more_.size(); ++i) copy_view(rows.more[i], result_.more[i].rows(0, rows.count).view());
  if (with_loss_) convert(rows.loss.dtype, rows.loss.data, Dtype::f64, result_.loss.data(), rows.count);
  return result_;
}

void Inference::forget_queued() {
  for (const auto& device : devices_) device->forget();
  queued_ = taken_ = 0;
}

const Inference::Result& Inference::run(const std::vector<const std::byte*>& fields, int64_t count) {
  queue(fields, count);
  return take();
}

void Inference::run_all(std::span<const void* const> inputs, int64_t examples, std::byte* output) {
  forget_queued();  // of a call that failed
  const bool sliceable = devices_.empty() ? plans_->slices().sliceable : devices_.front()->sliceable();
  const int64_t most = sliceable ? max_batch_ : std::max<int64_t>(1, examples);
  const size_t row = byte_size(model_.output_types().at(0));
  std::vector<const std::byte*> rows(inputs.size());
  const auto take_next = [&] {
    const Result& result = take();
    const size_t bytes = static_cast<size_t>(result.count) * row;
    std::memcpy(output, result.output.view().data, bytes);
    output += bytes;
  };
  for (int64_t first = 0, count = 0; first < examples; first += count) {
    if (queued() == ahead()) take_next();
    count = std::min(most, examples - first);
    if (sliceable && !devices_.empty()) count = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count)));
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<const std::byte*>(inputs[i]) + static_cast<size_t>(first) * byte_size(model_.spec().inputs[i].type);
    queue(rows, count);
  }
  while (queued() > 0) take_next();
}

namespace {

// One row of a plan's output to its place; steps that the plan left out become 0.
void copy_row(const View& from, int64_t row, const Tensor& to, int64_t place) {
  View source = from, target = to.rows(place, place + 1).view();
  source.data = static_cast<std::byte*>(from.data) + static_cast<size_t>(row * from.strides[0]) * dtype_bytes(from.dtype);
  source.dims[0] = 1;
  if (!same_shape(source, target)) std::memset(target.data, 0, static_cast<size_t>(target.elements()) * dtype_bytes(target.dtype));
  std::copy_n(source.dims, source.rank, target.dims);
  copy_view(source, target);
}

}  // namespace

// Sub-batches of examples of like lengths, the longest first; a thread takes the next one when it is ready.
void Inference::run_cut(const std::vector<const std::byte*>& fields, int64_t count) {
  cut_->order(fields, count);
  std::vector<std::string> names;
  for (const NetworkInput& field : fields_of(model_.spec(), with_loss_)) names.push_back(field.name);
  const int64_t size = std::min(kSubBatch, (count + team_.size() - 1) / team_.size());
  std::atomic<int64_t> next = 0;
  team_.run([&](Team& team) {
    PlanMemory& memory = *workers_[static_cast<size_t>(team.rank())]->memory;
    PlanRun* packed = nullptr;
    CutFields::Piece piece;
    for (int64_t begin; (begin = next.fetch_add(size)) < count;) {
      const int64_t n = std::min(size, count - begin);
      cut_->gather(fields, begin, begin + n, &piece);
      PlanRun& run = memory.at({n, piece.steps});
      if (packed != &run) run.pack();
      packed = &run;
      for (size_t i = 0; i < names.size(); ++i)
        if (const int index = run.plan().input_index(names[i]); index >= 0) run.set_input(index, piece.fields[i].data());
      run.run(nullptr, StepInfo{});
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = cut_->rows()[static_cast<size_t>(begin + i)];
        copy_row(run.output("output"), i, result_.output, row);
        for (size_t m = 0; m < more_.size(); ++m) copy_row(run.output(more_[m].plan), i, result_.more[m], row);
        if (!with_loss_) continue;
        const View loss = run.output("loss");
        const auto* from = static_cast<const std::byte*>(loss.data) + static_cast<size_t>(i * loss.strides[0]) * dtype_bytes(loss.dtype);
        convert(loss.dtype, from, Dtype::f64, result_.loss.data() + row, 1);
      }
    }
  });
}

void Inference::run_on_team(const std::vector<const std::byte*>& fields, int64_t count) {
  if (cut_ && !carried_) return run_cut(fields, count);
  const bool sliced = plans_->slices().sliceable;
  const int parts = sliced ? team_.size() : 1;
  std::vector<std::string> names;
  std::vector<size_t> strides;
  for (const NetworkInput& field : fields_of(model_.spec(), with_loss_)) {
    names.push_back(field.name);
    strides.push_back(byte_size(field.type));
  }
  team_.run([&](Team& team) {
    if (team.rank() >= parts) return;
    const int64_t begin = count * team.rank() / parts, end = count * (team.rank() + 1) / parts;
    const StepInfo step{};
    PlanMemory& memory = *workers_[static_cast<size_t>(team.rank())]->memory;
    PlanRun* packed = nullptr;
    for (int64_t row = begin; row < end;) {
      const int64_t n = sliced ? std::min(kSubBatch, end - row) : end - row;
      PlanRun& run = memory.at(n);
      if (packed != &run) run.pack();
      packed = &run;
      for (size_t i = 0; i < names.size(); ++i) {
        const int index = run.plan().input_index(names[i]);
        if (index >= 0) run.set_input(index, fields[i] + static_cast<size_t>(row) * strides[i]);
      }
      if (carried_) carried_->bind(run, row);
      run.run(nullptr, step);
      if (carried_) carried_->take(run, row);
      const View output = run.output("output");
      const Tensor target = result_.output.rows(row, row + n);
      copy_view(output, target.view());
      for (size_t i = 0; i < more_.size(); ++i) copy_view(run.output(more_[i].plan), result_.more[i].rows(row, row + n).view());
      if (with_loss_) {
        const View loss = run.output("loss");
        convert(loss.dtype, loss.data, Dtype::f64, result_.loss.data() + row, n);
      }
      row += n;
    }
  });
  if (carried_) carried_->commit();
}

int field_index(const DataSource& source, const std::string& name) {
  std::vector<std::string> known;
  for (size_t i = 0; i < source.fields().size(); ++i) {
    if (source.fields()[i].name == name) return static_cast<int>(i);
    known.push_back(source.fields()[i].name);
  }
  std::string list;
  for (const std::string& field : known) list += (list.empty() ? "" : ", ") + field;
  throw Error(ErrorKind::data, {.where = source.traits().description,
                                .what = "the data have no field '" + name + "'",
                                .expected = "one of: " + list,
                                .hint = nearest_hint(name, known)});
}

}  // namespace perigee
