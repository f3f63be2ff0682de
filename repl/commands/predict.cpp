// `perigee predict`: what a trained model says about images, tables, arrays and texts.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <thread>

#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "repl/commands/predict/results.h"
#include "repl/commands/predict/slices.h"
#include "repl/signals.h"
#include "repl/standard_input.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/examples/table_source.h"
#include "src/io/file.h"
#include "src/model/device/device_choice.h"
#include "src/model/model_file.h"
#include "src/model/prediction.h"

namespace perigee {
namespace {

struct PredictOptions {
  std::string model;
  std::vector<std::string> files, layers;
  bool json = false;
  int64_t top = 3, beams = 1, threads = 0, workers = 1;
  std::string slice, device = "cpu", out;
} predict_command_options;

void declare_predict(CLI::App& app) {
  app.add_option("model", predict_command_options.model, "a model file, or the folder of a finished run")->required();
  app.add_option("files", predict_command_options.files,
                 "images (JPEG, PNG), tables (CSV, JSON, JSON Lines; columns by name in any order), arrays (npy, npz), texts; folders of "
                 "them; - is standard input")
      ->required();
  app.add_option("--top", predict_command_options.top, "how many classes to name")->check(CLI::PositiveNumber);
  app.add_option(
         "--beams", predict_command_options.beams,
         "of a model trained with ctc: search its label sequences with so many prefixes at a time; 1: the likeliest class of each step")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", predict_command_options.json,
               "one JSON object per example: file, index (the row, from 0), class (from 0), label, probabilities or values; outputs and "
               "layers by name where there are more; of a row "
               "that cannot be read file, index and error");
  app.add_option(
      "--out", predict_command_options.out,
      "write the results to a file: .jsonl, .npy, or .csv with the columns file, index (the row, from 0), then label and "
      "p_CLASS of each class, or the foretold column; a row that cannot be read has an error (.jsonl), empty cells (.csv) or nan (.npy)");
  app.add_option("--layer", predict_command_options.layers,
                 "also what a layer inside gives, by its name in `perigee describe`; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--threads", predict_command_options.threads, "the default is one per core")->check(CLI::PositiveNumber);
  app.add_option("--device", predict_command_options.device,
                 "cpu, cuda, cuda:N, cuda:0-3 (which take batches in turns), or auto: a GPU where there is one");
  app.add_option("--workers", predict_command_options.workers,
                 "share the examples out to so many processes; the results come in the order of the input")
      ->check(CLI::Range(1, 1024));
  app.add_option("--slice", predict_command_options.slice, "predict only what one of several processes is to predict")->group("");
}

int predict_threads() {
  if (predict_command_options.threads > 0) return static_cast<int>(predict_command_options.threads);
  return static_cast<int>(std::max<int64_t>(1, std::max(1u, std::thread::hardware_concurrency()) / predict_command_options.workers));
}

PredictionOptions wanted() { return {.layers = predict_command_options.layers, .beams = predict_command_options.beams}; }

// The inputs, with the files of folders in their place.
std::vector<std::string> inputs_of(const RecordReader& reader) {
  std::vector<std::string> inputs;
  for (const std::string& each : predict_command_options.files) {
    if (each == "-" && (predict_command_options.workers > 1 ||
                        std::count(predict_command_options.files.begin(), predict_command_options.files.end(), "-") > 1))
      throw Error(ErrorKind::usage,
                  {.where = "-", .what = "standard input is read once, by one process", .hint = "write it to a file first"});
    if (!folder_exists(each)) {
      inputs.push_back(each);
      continue;
    }
    for (std::string& file : reader.files_in(each)) inputs.push_back(std::move(file));
  }
  return inputs;
}

Records open_records(const RecordReader& reader, const std::string& input) {
  if (input != "-") return reader.open_file(input);
  return reader.open(read_standard_input(), RecordFormat::automatic, kStandardInput);
}

// The column of the training data's table that a model of numbers foretells; empty: it is of no table.
std::string foretold_column(const Json& fitted) {
  if (!fitted.is_object()) return "";
  const Json* target = fitted.find("target");
  const Json* name = target != nullptr && target->is_object() ? target->find("name") : nullptr;
  if (name != nullptr && name->is_string()) return name->as_string();
  const Json* inner = fitted.find("source");  // of transforms
  return inner != nullptr ? foretold_column(*inner) : "";
}

std::unique_ptr<Results> make_results(const LoadedModel& loaded, const std::vector<PredictedOutput>& outputs) {
  if (!predict_command_options.out.empty() && predict_command_options.slice.empty())
    return results_in_file(predict_command_options.out, outputs, foretold_column(loaded.fitted));
  return predict_command_options.json ? results_as_json() : results_as_text(outputs, predict_command_options.top);
}

// Predicts a slice of all examples together, those of the first input first. An input that cannot be read ends nothing but itself.
class Pass {
 public:
  Pass(const RecordReader& reader, RecordPredictor& predictor, Results& results, Slice slice)
      : reader_(reader), predictor_(predictor), results_(results), slice_(slice) {}

  void run(const std::vector<std::string>& inputs) {
    alone_ = inputs.size() == 1;
    const auto count = static_cast<int64_t>(inputs.size());
    if (count < slice_.count) return run_cut(inputs);
    const auto [first, last] = slice_.of(count);  // whole files: no process opens a file that it does not predict
    for (int64_t i = first; i < last && !stop_requested(); ++i) {
      const std::string& input = inputs[static_cast<size_t>(i)];
      attempt([&] { predict(input, open_records(reader_, input), 0, -1); });
    }
  }

  int failure() const { return failure_; }  // the kind of the first error; 0: none

  void tell_remarks() const {
    for (const std::string& line : remark_lines(remarks_)) warn(line);
  }

 private:
  template <class Work>
  void attempt(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      const bool of_input = error.kind() == ErrorKind::data || error.kind() == ErrorKind::usage;
      if (alone_ || !of_input) throw;
      std::fflush(stdout);
      if (!repeated_) std::fprintf(stderr, "perigee: %s\n", error.what());
      if (failure_ == 0) failure_ = static_cast<int>(error.kind());
    }
  }

  void predict(const std::string& input, const Records& records, int64_t begin, int64_t end) {
    const Json remarks = records.source->traits().remarks;
    const int64_t size = records.source->size(), last = end < 0 ? size : end;
    std::vector<BadRow> bad = bad_rows(remarks);
    std::erase_if(bad, [&](const BadRow& row) { return row.before < begin || (row.before >= last && last < size) || begin >= last; });
    size_t told = 0;
    const auto tell_before = [&](int64_t row) {
      for (; told < bad.size() && bad[told].row < row; ++told) refuse(input, bad[told], told);
    };
    predictor_.run(records, begin, end, &stop_requested(), [&](const Predictions& batch) {
      for (int64_t i = 0; i < batch.examples(); ++i) {
        tell_before(batch.rows[static_cast<size_t>(i)]);
        results_.add(with_file(input, batch.json(i)), records.single);
      }
    });
    if (stop_requested()) return;
    tell_before(INT64_MAX);
    if (told > kMostTold) std::fprintf(stderr, "perigee: %s: %zu more rows cannot be read\n", input.c_str(), told - kMostTold);
    if (!repeated_) add_remarks(remarks_, remarks);
  }

  // A row that cannot be read ends nothing but itself.
  void refuse(const std::string& input, const BadRow& row, size_t number) {
    std::fflush(stdout);
    if (number < kMostTold) std::fprintf(stderr, "perigee: %s\n", row.message.c_str());
    results_.add(with_file(input, Json(Json::Object{{"index", row.row}, {"error", row.message}})), false);
    if (failure_ == 0) failure_ = static_cast<int>(ErrorKind::data);
  }

  // Each process opens all inputs; the first one tells what is wrong with them.
  void run_cut(const std::vector<std::string>& inputs) {
    repeated_ = slice_.index > 0;
    std::vector<Records> records(inputs.size());
    int64_t total = 0, before = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
      attempt([&] {
        records[i] = open_records(reader_, inputs[i]);
        total += records[i].source->size();
      });
    const auto [first, last] = slice_.of(total);
    for (size_t i = 0; i < inputs.size() && !stop_requested(); ++i) {
      if (!records[i].source) continue;
      const int64_t size = records[i].source->size();
      const int64_t begin = std::clamp(first - before, int64_t{0}, size), end = std::clamp(last - before, int64_t{0}, size);
      attempt([&] { predict(inputs[i], records[i], begin, end); });
      before += size;
    }
  }

  static constexpr size_t kMostTold = 20;  // bad rows of a file; results have all

  const RecordReader& reader_;
  RecordPredictor& predictor_;
  Results& results_;
  Slice slice_;
  Json remarks_;
  bool alone_ = false, repeated_ = false;
  int failure_ = 0;
};

// The same command for one slice.
std::vector<std::string> predict_slice_arguments() {
  std::vector<std::string> words = {"predict", predict_command_options.model};
  words.insert(words.end(), predict_command_options.files.begin(), predict_command_options.files.end());
  words.insert(words.end(), {"--top", std::to_string(predict_command_options.top), "--threads", std::to_string(predict_threads()),
                             "--beams", std::to_string(predict_command_options.beams), "--device", predict_command_options.device});
  for (const std::string& layer : predict_command_options.layers) words.insert(words.end(), {"--layer", layer});
  if (predict_command_options.json || !predict_command_options.out.empty()) words.emplace_back("--json");
  return words;
}

void copy_out(std::FILE* from) {
  char buffer[65536];
  for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, from)) > 0;) std::fwrite(buffer, 1, size, stdout);
  std::fflush(stdout);
}

int share_out(Results& results) {
  const auto take = [&](std::FILE* output) {
    if (predict_command_options.out.empty()) return copy_out(output);
    for_each_line(output, [&](std::string_view line) { results.add(Json::parse(line, "a worker"), false); });
  };
  return run_slices(predict_slice_arguments(), predict_command_options.workers, take);
}

int predict_here(LoadedModel& loaded, const RecordReader& reader, const std::vector<std::string>& inputs, Results& results) {
  ThreadTeam team(predict_threads());
  const bool sliced = !predict_command_options.slice.empty();
  const Slice slice = sliced ? parse_slice(predict_command_options.slice) : Slice{};
  const std::optional<int> worker = sliced ? std::optional(static_cast<int>(slice.index)) : std::nullopt;
  const ModelSite site(*loaded.model, loaded.job, predict_command_options.device, "--device", worker);
  RecordPredictor predictor(*loaded.model, loaded.class_names, team, site.devices(), wanted());
  Pass pass(reader, predictor, results, slice);
  pass.run(inputs);
  std::fflush(stdout);
  pass.tell_remarks();
  return pass.failure() != 0 && sliced ? kPartlyFailed + pass.failure() : pass.failure();
}

// Counts what it hands on.
class CountedResults : public Results {
 public:
  explicit CountedResults(std::unique_ptr<Results> results) : results_(std::move(results)) {}
  void add(const Json& result, bool single) override {
    results_->add(result, single);
    ++count_;
  }
  void finish() override {
    results_->finish();
    if (predict_command_options.out.empty() || !predict_command_options.slice.empty()) return;
    std::fprintf(stderr, "%lld %s written to %s\n", count_, count_ == 1 ? "row" : "rows", predict_command_options.out.c_str());
  }

 private:
  std::unique_ptr<Results> results_;
  long long count_ = 0;
};

int run_predict() {
  watch_signals("\nstopping; once more to quit at once\n");
  LoadedModel loaded = load_model(model_path(predict_command_options.model));
  const RecordReader reader(loaded.model->spec(), loaded.job, loaded.fitted);
  const std::vector<std::string> inputs = inputs_of(reader);
  const std::vector<PredictedOutput> outputs = predicted_outputs(*loaded.model, loaded.class_names, wanted());
  CountedResults results(make_results(loaded, outputs));
  const bool shares_out = predict_command_options.workers > 1 && predict_command_options.slice.empty();
  const int failure = shares_out ? share_out(results) : predict_here(loaded, reader, inputs, results);
  if (stop_requested()) return stop_exit_code();
  results.finish();
  return failure;
}

}  // namespace

extern const Command command_predict;
const Command command_predict{.name = "predict",
                              .doc = "say what a trained model makes of images, tables, arrays and texts",
                              .declare = declare_predict,
                              .run = run_predict};

}  // namespace perigee
