#include "src/train/device/device_memory.h"

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/runtime/step.h"
#include "kernels/round_up.h"
#include "src/graph/plan_compiler.h"
#include "src/tensor/bytes.h"
#include "src/train/device/device_average.h"
#include "src/train/device/device_rows.h"
#include "src/train/device/device_update.h"

namespace perigee {
namespace {

size_t constants_of(const Plan& plan) {
  size_t sum = plan.packed_bytes() > 0 ? device_bytes(plan.packed_bytes()) : 0;
  for (const Tensor& table : plan.tables()) sum += device_bytes(table.bytes());
  return sum;
}

// The bytes of each field that the evaluation of one example reads.
std::vector<size_t> evaluated_rows(const ModelSpec& spec) {
  std::vector<size_t> rows;
  for (const NetworkInput& field : fields_of(spec, true))
    rows.push_back(static_cast<size_t>(field.type.shape.elements()) * dtype_bytes(field.type.dtype));
  return rows;
}

}  // namespace

StepLayout::StepLayout(const Model& model, size_t image, int64_t examples, std::span<const size_t> rows, bool gather, bool scaled) {
  const auto n = static_cast<size_t>(examples);
  update = round_up(sizeof(StepInfo), kDeviceBorder);
  ids = update + round_up(image, kDeviceBorder);
  total = ids + round_up(n * sizeof(int64_t), kDeviceBorder);
  for (const size_t row : rows) {
    if (gather) continue;
    fields.push_back(total);
    total += round_up(n * row, kDeviceBorder);
  }
  for (size_t i = 0; i < model.factors().size(); ++i) {
    factors.push_back(total);
    total += round_up(n * model.params().width(), kDeviceBorder);
  }
  seeds = total;
  if (scaled) total += round_up(n * sizeof(float), kDeviceBorder);
}

size_t resident_bytes(const DataSource& source, std::span<const int> fields) {
  if (const SourceTraits traits = source.traits(); !traits.fixed || traits.live) return 0;
  size_t sum = 0;
  for (const int field : fields)
    sum += device_bytes(static_cast<size_t>(source.size()) * byte_size(source.fields()[static_cast<size_t>(field)]));
  return sum;
}

DeviceMemory plan_device_memory(const DeviceMemoryQuestion& q) {
  const Params& params = q.model.params();
  const size_t block = device_bytes(params.block_bytes());
  DeviceMemory need{.parameters = block + (q.model.spec().half ? device_bytes(half_block_bytes(params)) : 0),
                    .states = device_bytes(params.state_bytes().size()),
                    .gradients = block + (q.scaled ? 2 : 1) * kDeviceBorder};
  if (q.summed) need.gradients += block;
  if (q.averaged) need.average = DeviceAverage::bytes_for(params);
  if (q.gpus > 1) {
    if (!params.state_specs().empty()) need.states += device_bytes(state_sum_bytes(params));
    need.gradients += kDeviceBorder;
    const size_t part = (q.copied + static_cast<size_t>(q.gpus) - 1) / static_cast<size_t>(q.gpus);
    if (q.copied > 0) need.sums = static_cast<size_t>(q.gpus - 1) * device_bytes(part);
  }
  need.optimizer = q.slots * block + DeviceUpdate::bytes_for(params, q.optimizer, q.slots);
  std::vector<size_t> rows;
  for (const int field : q.fields) rows.push_back(byte_size(q.source.fields()[static_cast<size_t>(field)]));
  const StepLayout layout(q.model, DeviceUpdate::image_bytes_for(q.optimizer, q.scaled), q.batch, rows, q.resident, q.scaled);
  need.batches = 2 * device_bytes(layout.total);
  need.pinned = 2 * (layout.total + sizeof(CudaStepRecord));
  if (q.resident) {
    need.data_set = resident_bytes(q.source, q.fields);
    for (const size_t row : rows) need.batches += device_bytes(static_cast<size_t>(q.batch) * row);
  }
  if (q.streams > 0) need.batches += DeviceRows::bytes_for(q.model.carried(), q.streams);
  if (!q.training) return need;
  const std::shared_ptr<const Plan> plan = q.training->plan(q.batch);
  need.training = device_bytes(plan->arena_bytes());
  const int64_t of_all = q.batch * q.gpus;
  const bool rest = !q.source.traits().live && q.source.size() % of_all != 0 && q.source.size() > of_all;
  need.constants = constants_of(*plan) * (rest ? 2 : 1);
  if (!q.evaluation) return need;
  const std::shared_ptr<const Plan> forward = q.evaluation->plan(kEvaluationBatch);
  need.evaluation = device_bytes(forward->arena_bytes());
  need.constants += 2 * constants_of(*forward) * static_cast<size_t>(q.evaluated_parts);
  for (const size_t row : evaluated_rows(q.model.spec())) {
    const size_t bytes = static_cast<size_t>(kEvaluationBatch) * row;
    need.batches += 2 * device_bytes(bytes) * static_cast<size_t>(q.evaluated_parts);
    need.pinned += 2 * bytes * static_cast<size_t>(q.evaluated_parts);
  }
  return need;
}

std::string mebibytes(size_t bytes) {
  char text[32];
  const double mib = static_cast<double>(bytes) / (1 << 20);
  std::snprintf(text, sizeof text, mib < 10 ? "%.2f MiB" : "%.1f MiB", mib);
  return text;
}

std::string DeviceMemory::text() const {
  std::string lines;
  const auto line = [&](const char* what, size_t bytes, const std::string& note = "") {
    char text[96];
    std::snprintf(text, sizeof text, "  %-24s %14s", what, mebibytes(bytes).c_str());
    lines += text + note + "\n";
  };
  line("parameters, states", parameters + states);
  line("gradients", gradients);
  line("optimiser", optimizer);
  if (average > 0) line("average of the weights", average);
  line("activations", arena(),
       "  training " + mebibytes(training) + (evaluation > 0 ? ", evaluation " + mebibytes(evaluation) + ", one after the other" : ""));
  line("constants", constants);
  line("batches", batches);
  if (sums > 0) line("sums over the GPUs", sums);
  if (replica > 0) line("codecs, last result", replica, "  of a worker among several");
  line("data set", data_set, data_set > 0 ? "" : "  batches are streamed");
  line("together", total());
  line("pinned, of the host", pinned);
  return lines;
}

std::string largest_tensors(const Plan& plan, const Params& params) {
  std::vector<std::pair<size_t, std::string>> found;
  for (const PlanStep& step : plan.steps())
    for (const Operand& out : step.out) {
      if (out.place != Place::arena || out.index < 0) continue;
      const Type type{out.view.dtype, Shape(std::vector<int64_t>(out.view.dims, out.view.dims + out.view.rank))};
      found.emplace_back(static_cast<size_t>(out.view.elements()) * dtype_bytes(out.view.dtype),
                         (step.scope.empty() ? "" : step.scope + ", ") + "op '" + step.op->name + "': " + type.text());
    }
  for (const ParamWindow& window : params.windows())
    found.emplace_back(static_cast<size_t>(window.elements) * params.width(), "parameter '" + window.name + "': " + window.shape.text());
  const size_t most = std::min<size_t>(3, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(most), found.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < most; ++i) text += (i ? "; " : "") + found[i].second + ", " + mebibytes(found[i].first);
  return text;
}

}  // namespace perigee
