#include "src/run/log/tensorboard_log.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "src/core/stopwatch.h"
#include "src/core/warning.h"
#include "src/data/streams.h"
#include "src/io/plot/matrix.h"
#include "src/io/plot/short_names.h"
#include "src/job/job_schema.h"
#include "src/model/shown_example.h"
#include "src/nn/describe_network.h"

namespace perigee {
namespace {

constexpr size_t kMostSettings = 200, kMostClasses = 40;
// First guesses, which the first time corrects.
constexpr double kSecondsPerNumber = 4e-9, kSecondsAtLeast = 2e-4, kSecondsPerExample = 2e-3;

const Json& inside(const Json& json, const char* key) {
  static const Json kNone;
  const Json* found = json.is_object() ? json.find(key) : nullptr;
  return found ? *found : kNone;
}

// The numbers, texts and booleans of a job by their paths: "optimizer.lr". What its network and its data are made of is left to the job.
void tensorboard_log_collect(const Json& json, const std::string& path, std::vector<TensorboardSetting>* settings) {
  if (settings->size() >= kMostSettings) return;
  if (json.is_number()) settings->emplace_back(path, json.as_number());
  else if (json.is_string()) settings->emplace_back(path, json.as_string());
  else if (json.is_bool()) settings->emplace_back(path, json.as_bool());
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.as_object()) {
    const std::string inner = path.empty() ? key : path + "." + key;
    if (inner != "network" && inner != "data.train" && inner != "data.test" && inner != "data.validation" && inner != "perigee")
      tensorboard_log_collect(value, inner, settings);
  }
}

// "parts:1" is an output of "parts".
std::string node_of(const std::string& input) { return input.substr(0, input.find(':')); }

std::vector<std::string> inputs_of(const Json& node) {
  std::vector<std::string> names;
  const Json& inputs = inside(node, "inputs");
  if (inputs.is_string()) names.push_back(node_of(inputs.as_string()));
  if (inputs.is_array())
    for (const Json& input : inputs.as_array())
      if (input.is_string()) names.push_back(node_of(input.as_string()));
  return names;
}

}  // namespace

LogOptions log_options(const Job& job) {
  static const Json kDefaults = Json::object();
  const Json* given = job.json().find("log");
  const Config config(given && given->is_object() ? *given : kDefaults, log_schema, job.where() + ": log");
  return {.tensorboard = config.boolean("tensorboard"), .histograms = config.number("histograms"), .images = config.integer("images")};
}

template <class Work>
void TensorboardLog::quietly(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    if (!std::exchange(warned_, true)) warn(std::string("TensorBoard lacks a part of this run: ") + error.what());
  }
}

void TensorboardLog::begin(Trainer& trainer) {
  quietly([&] {
    layers(trainer);
    settings(trainer);
    writer_.flush();
  });
}

// A graph's nodes with what they take, a sequence as a chain.
void TensorboardLog::layers(Trainer& trainer) {
  const ModelSpec& spec = trainer.shape().spec();
  std::vector<TensorboardNode> nodes;
  std::vector<std::string> before;
  for (const NetworkInput& input : spec.inputs) {
    nodes.push_back({.name = input.name, .kind = "input", .inputs = {}});
    before.push_back(input.name);
  }
  const Json& graph = inside(spec.network, "nodes");
  const Json described = describe_network(Network(spec.network, spec.where), spec.inputs);
  if (graph.is_array()) {
    for (const Json& node : graph.as_array())
      if (const Json& name = inside(node, "name"); name.is_string()) {
        const Json& type = inside(inside(node, "layer"), "type");
        nodes.push_back({.name = name.as_string(), .kind = type.is_string() ? type.as_string() : "layer", .inputs = inputs_of(node)});
      }
  } else {
    for (const Json& layer : inside(described, "layers").as_array()) {
      const std::string& name = layer.find("name")->as_string();
      nodes.push_back({.name = name, .kind = layer.find("type")->as_string(), .inputs = std::exchange(before, {name})});
    }
  }
  writer_.graph(nodes);
}

void TensorboardLog::settings(Trainer& trainer) {
  std::vector<TensorboardSetting> settings;
  tensorboard_log_collect(trainer.job().json(), "", &settings);
  settings.emplace_back("parameters", static_cast<double>(trainer.shape().params().parameter_elements()));
  writer_.settings(settings);
}

bool TensorboardLog::affordable(double cost, double seconds) const {
  if (options_.histograms >= 1) return true;
  return options_.histograms > 0 && spent_ + cost <= options_.histograms * seconds;
}

// Seldom where epochs are many.
bool TensorboardLog::is_due(const Trainer& trainer, double seconds) const {
  if (options_.histograms < 1 && (epochs_ - 1) % (int64_t{1} << std::min<int64_t>(times_ / kOften, 40)) != 0) return false;
  const auto steps = static_cast<double>(std::max<int64_t>(trainer.position().step - trainer.origin().step, 1));
  const double numbers = 2 * static_cast<double>(trainer.shape().params().parameter_elements());
  return affordable(times_ > 0 ? numbers_cost_ : seconds / steps + kSecondsPerNumber * numbers + kSecondsAtLeast, seconds);
}

template <class Work>
double TensorboardLog::timed(Work work) {
  const Stopwatch watch;
  quietly(work);
  const double cost = watch.seconds();
  spent_ += cost;
  return cost;
}

void TensorboardLog::after_epoch(Trainer& trainer, const Json& evaluation, double seconds) {
  ++epochs_;
  if (!is_due(trainer, seconds)) return;
  numbers_cost_ = timed([&] {
    parameters(trainer);
    gradients(trainer);
  });
  ++times_;
  if (!shown_ && affordable(kSecondsPerExample * static_cast<double>(options_.images), seconds)) {
    timed([&] { examples(trainer); });
    shown_ = true;
  }
  if (affordable(matrix_cost_, seconds)) matrix_cost_ = timed([&] { confusion(evaluation, trainer.position().step); });
  writer_.flush();
}

void TensorboardLog::end(Trainer& trainer) {
  if (options_.histograms <= 0 || times_ > 0) return;
  quietly([&] { parameters(trainer); });
  ++times_;
}

// The first ones of the training data, where they are pictures.
void TensorboardLog::examples(const Trainer& trainer) {
  const DataSource& source = trainer.train_source();
  const ModelSpec& spec = trainer.shape().spec();
  if (spec.inputs.empty() || source.traits().live) return;
  for (int64_t i = 0; i < std::min(options_.images, source.size()); ++i) {
    const std::string png = example_png(source, spec.inputs[0].name, i);
    if (png.empty()) return;
    writer_.image("examples/" + spec.inputs[0].name + "/" + std::to_string(i), 0, png);
  }
}

void TensorboardLog::confusion(const Json& evaluation, int64_t step) {
  const Json& result = inside(evaluation, "classification").is_object() ? inside(evaluation, "classification") : evaluation;
  const Json& rows = inside(result, "confusion");
  if (options_.images == 0 || !rows.is_array() || rows.as_array().empty() || rows.as_array().size() > kMostClasses) return;
  MatrixChart chart{.title = "confusion matrix, step " + std::to_string(step), .names = {}, .counts = {}};
  for (const Json& row : rows.as_array())
    for (const Json& count : row.as_array()) chart.counts.push_back(count.is_number() ? count.as_number() : 0);
  const Json& classes = inside(result, "classes");
  for (size_t i = 0; i < rows.as_array().size(); ++i) {
    const bool named = classes.is_array() && i < classes.as_array().size() && inside(classes.as_array()[i], "name").is_string();
    chart.names.push_back(named ? inside(classes.as_array()[i], "name").as_string() : std::to_string(i));
  }
  chart.names = short_names(chart.names, 24, "..");
  writer_.image("confusion", step, png_matrix(chart));
}

void TensorboardLog::histograms_of(const Trainer& trainer, const char* what, const std::byte* block, double scale) {
  const Params& params = trainer.shape().params();
  std::vector<float> values;
  for (size_t i = 0; i < params.specs().size(); ++i) {
    values.resize(static_cast<size_t>(params.specs()[i].shape.elements()));
    const std::byte* from = block + params.parameter_offset(static_cast<int>(i));
    for (size_t k = 0; k < values.size(); ++k)
      values[k] = params.dtype() == Dtype::f64 ? static_cast<float>(reinterpret_cast<const double*>(from)[k] * scale)
                                               : reinterpret_cast<const float*>(from)[k] * static_cast<float>(scale);
    writer_.histogram(std::string(what) + "/" + params.specs()[i].name, trainer.position().step, values);
  }
}

void TensorboardLog::parameters(const Trainer& trainer) { histograms_of(trainer, "parameters", trainer.model().params().block(), 1); }

// The first batch of the run.
void TensorboardLog::take_batch(Trainer& trainer) {
  Loader& loader = trainer.loader();
  loader.clear_list();
  loader.list({.epoch = 0, .position = 0, .size = std::min(trainer.batch_at_once(), trainer.train_source().size())});
  batch_ = loader.next();
  for (Tensor& field : batch_.fields) {  // the loader's are used again
    Tensor own(field.dtype(), field.shape());
    std::memcpy(own.view().data, field.view().data, field.bytes());
    field = std::move(own);
  }
  loader.seek(trainer.position().epoch, trainer.position().position);
  read_for_ = &trainer;
}

// The mean gradient of one batch, which is the same each time. It is left out where finding it would change the run: values that carry on, a
// loss scale; and where there is more than one loss.
void TensorboardLog::gradients(Trainer& trainer) {
  const DataSource& source = trainer.train_source();
  const Json& objectives = inside(trainer.job().json(), "objectives");
  if (trainer.carried() || trainer.loss_scale() || !objectives.is_null() || source.traits().live || streams_of(source) > 0) return;
  if (read_for_ != &trainer) take_batch(trainer);
  Storage gradient(trainer.shape().params().block_bytes());
  const GradientReport report = trainer.sum_gradient(batch_, {.to = gradient.data()});
  if (report.finite && !report.cancelled && report.weight > 0) histograms_of(trainer, "gradients", gradient.data(), 1 / report.weight);
}

}  // namespace perigee
