// `perigee predict`: what a trained model says about images, tables, arrays and texts.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "repl/commands/slices.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/core/utf8.h"
#include "src/model/device/device_choice.h"
#include "src/model/inference.h"
#include "src/model/prediction_data.h"

namespace perigee {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> files;
  bool json = false;
  int64_t top = 3, threads = 0, workers = 1;
  std::string slice, device = "cpu";
} options;

void declare(CLI::App& app) {
  app.add_option("model", options.model, "a model file, or the folder of a finished run")->required();
  app.add_option("files", options.files, "images (JPEG, PNG), tables (CSV), arrays (npy, npz) or texts")->required();
  app.add_option("--top", options.top, "how many classes to name")->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "one JSON object per example: file, index, label, probabilities or values");
  app.add_option("--threads", options.threads, "the default is one per core")->check(CLI::PositiveNumber);
  app.add_option("--device", options.device,
                 "cpu, cuda, cuda:N, cuda:0-3 (which take batches in turns), or auto: a GPU where there is one");
  app.add_option("--workers", options.workers, "share the examples out to so many processes; the results come in the order of the input")
      ->check(CLI::Range(1, 1024));
  app.add_option("--slice", options.slice, "predict only what one of several processes is to predict")->group("");
}

std::string class_name(const LoadedModel& loaded, size_t c) {
  return c < loaded.class_names.size() ? loaded.class_names[c] : std::to_string(c);
}

void print_classes(const LoadedModel& loaded, const std::string& file, int64_t index, std::vector<double> p) {
  if (p.size() == 1) p = {1 - p[0], p[0]};
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  if (options.json) {
    Json probabilities = Json::array();
    for (double value : p) probabilities.push(value);
    const Json line = Json(Json::Object{{"file", file},
                                        {"index", index},
                                        {"class", static_cast<int64_t>(order[0])},
                                        {"label", class_name(loaded, order[0])},
                                        {"probabilities", probabilities}});
    std::printf("%s\n", line.dump().c_str());
    return;
  }
  std::printf("%s[%lld]:", file.c_str(), static_cast<long long>(index));
  for (size_t i = 0; i < order.size() && i < static_cast<size_t>(options.top); ++i)
    std::printf("%s %s %.2f %%", i ? "," : "", printable(class_name(loaded, order[i])).c_str(), 100 * p[order[i]]);
  std::printf("\n");
}

void print_values(const std::string& file, int64_t index, const std::vector<double>& values) {
  if (options.json) {
    Json list = Json::array();
    for (double value : values) list.push(value);
    std::printf("%s\n", Json(Json::Object{{"file", file}, {"index", index}, {"values", list}}).dump().c_str());
    return;
  }
  std::printf("%s[%lld]:", file.c_str(), static_cast<long long>(index));
  for (size_t i = 0; i < values.size() && i < 16; ++i) std::printf(" %.6g", values[i]);
  std::printf(values.size() > 16 ? " ... (%zu values; --json prints all)\n" : "\n", values.size());
}

void predict_file(const LoadedModel& loaded, Inference& inference, const std::string& file, const SourcePtr& source, int64_t begin,
                  int64_t end) {
  Loader loader(source, {.batch = inference.max_batch(), .shuffle = false, .threads = 0});
  loader.seek(0, begin);
  std::vector<size_t> fields;
  for (const NetworkInput& input : loaded.model->spec().inputs) fields.push_back(static_cast<size_t>(field_index(*source, input.name)));
  int64_t printed = begin;
  const auto print_next = [&] {
    const Inference::Result& result = inference.take();
    const Tensor outputs = result.output.to(Dtype::f32);  // of a float64 model a copy
    const int64_t columns = outputs.elements() / outputs.shape()[0];
    for (int64_t i = 0; i < result.count; ++i, ++printed) {
      const float* row = outputs.data<float>() + i * columns;
      if (loaded.model->spec().classes > 0) print_classes(loaded, file, printed, {row, row + columns});
      else print_values(file, printed, {row, row + columns});
    }
  };
  for (int64_t done = begin; done < end && !stop_requested();) {
    const Batch& batch = loader.next();
    while (inference.queued() >= inference.ahead()) print_next();
    std::vector<const std::byte*> rows;
    for (size_t field : fields) rows.push_back(static_cast<const std::byte*>(batch.fields[field].view().data));
    const int64_t count = std::min(batch.size, end - done);
    inference.queue(rows, count);
    done += count;
  }
  while (inference.queued() > 0) print_next();
}

int threads() {
  if (options.threads > 0) return static_cast<int>(options.threads);
  return static_cast<int>(std::max<int64_t>(1, std::max(1u, std::thread::hardware_concurrency()) / options.workers));
}

// The same command for one slice.
std::vector<std::string> slice_arguments() {
  std::vector<std::string> words = {"predict", options.model};
  words.insert(words.end(), options.files.begin(), options.files.end());
  words.insert(words.end(), {"--top", std::to_string(options.top), "--threads", std::to_string(threads()), "--device", options.device});
  if (options.json) words.emplace_back("--json");
  return words;
}

void copy_out(std::FILE* from) {
  char buffer[65536];
  for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, from)) > 0;) std::fwrite(buffer, 1, size, stdout);
  std::fflush(stdout);
}

// One slice of all examples together, those of the first file first.
void predict_slice(const LoadedModel& loaded, Inference& inference, Slice slice) {
  const auto files = static_cast<int64_t>(options.files.size());
  if (files >= slice.count) {  // whole files: no process opens a file that it does not predict
    const auto [first, last] = slice.of(files);
    for (int64_t i = first; i < last && !stop_requested(); ++i) {
      const std::string& file = options.files[static_cast<size_t>(i)];
      const SourcePtr source = open_for_prediction(loaded, file);
      predict_file(loaded, inference, file, source, 0, source->size());
    }
    return;
  }
  std::vector<SourcePtr> sources;
  int64_t total = 0;
  for (const std::string& file : options.files) total += sources.emplace_back(open_for_prediction(loaded, file))->size();
  const auto [first, last] = slice.of(total);
  int64_t before = 0;
  for (size_t i = 0; i < sources.size() && !stop_requested(); ++i) {
    const int64_t size = sources[i]->size();
    const int64_t begin = std::clamp(first - before, int64_t{0}, size), end = std::clamp(last - before, int64_t{0}, size);
    if (begin < end) predict_file(loaded, inference, options.files[i], sources[i], begin, end);
    before += size;
  }
}

int run() {
  watch_signals("\nstopping; once more to quit at once\n");
  const LoadedModel loaded = load_model(model_path(options.model));
  if (options.workers > 1 && options.slice.empty()) {
    run_slices(slice_arguments(), options.workers, copy_out);
    return stop_requested() ? stop_exit_code() : 0;
  }
  ThreadTeam team(threads());
  const std::optional<int> worker =
      options.slice.empty() ? std::nullopt : std::optional(static_cast<int>(parse_slice(options.slice).index));
  const ModelSite site(*loaded.model, loaded.job, options.device, "--device", worker);
  Inference inference(*loaded.model, team, false, 256, site.devices());
  predict_slice(loaded, inference, options.slice.empty() ? Slice{} : parse_slice(options.slice));
  return stop_requested() ? stop_exit_code() : 0;
}

}  // namespace

extern const Command command_predict;
const Command command_predict{
    .name = "predict", .doc = "say what a trained model makes of images, tables, arrays and texts", .declare = declare, .run = run};

}  // namespace perigee
