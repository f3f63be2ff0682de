// `perigee vectors`: trains word vectors on texts, and asks files of vectors who is near whom.
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>

#include "repl/commands/command.h"
#include "repl/commands/train/vector_runs.h"
#include "repl/signals.h"
#include "src/core/cores.h"
#include "src/io/codec/compress.h"
#include "src/run/vectors/stored_vectors.h"
#include "src/vectors/files/vector_file.h"
#include "src/vectors/rows/neighbour_index.h"
#include "src/vectors/trained_vectors.h"
#include "src/vectors/vector_tests.h"

namespace perigee {
namespace {

struct VectorsOptions {
  std::string action, out, documents, format;
  std::vector<std::string> arguments, minus;
  std::string by = "all";
  int64_t count = 10;
  bool json = false;
  Json given = Json::object();  // by the names of word_vectors_schema
  VectorRun run;
} vectors_command_options;

void declare_training(CLI::App& app) {
  for (const Option& option : word_vectors_schema.options) {
    const std::string name = option.name;
    if (name == "files") continue;
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const std::string doc = "train: " + std::string(option.doc) + "; the default is " + option.fallback;
    const auto set = [name](const auto& value) { vectors_command_options.given.set(name, value); };
    if (option.type == TypeName("integer")) app.add_option_function<int64_t>(flag, set, doc);
    else if (option.type == TypeName("number")) app.add_option_function<double>(flag, set, doc);
    else if (option.type == TypeName("boolean")) app.add_option_function<bool>(flag, set, doc);
    else app.add_option_function<std::string>(flag, set, doc);
  }
}

void declare_vectors(CLI::App& app) {
  app.add_option("action", vectors_command_options.action,
                 "train TEXT... --out VECTORS; job TEXT... --out JOB.json: the same as a job for `perigee train`; nearest VECTORS WORD...: "
                 "the words "
                 "most like these; analogy VECTORS A B C: what is to C as B is "
                 "to A; similarity VECTORS A B; evaluate VECTORS FILE...: pairs with what people said, or analogies; convert VECTORS OUT")
      ->required()
      ->check(CLI::IsMember({"train", "job", "nearest", "analogy", "similarity", "evaluate", "convert"}));
  app.add_option("arguments", vectors_command_options.arguments, "files and words, as the action takes them")->required();
  app.add_option("--out", vectors_command_options.out, "train: where the vectors go");
  app.add_option("--documents", vectors_command_options.documents, "train, with model dbow or dm: where the vectors of the files go");
  app.add_option("--format", vectors_command_options.format,
                 "train and convert: how vectors are written; the default follows from the name, .bin, .txt or .kv")
      ->check(CLI::IsMember({"binary", "text", "glove", "keyed"}));
  app.add_option("--minus", vectors_command_options.minus, "nearest: words that count negatively; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--count", vectors_command_options.count, "nearest and analogy: how many words (10)")->check(CLI::Range(1, 1000000));
  app.add_option(
         "--by", vectors_command_options.by,
         "nearest and analogy: how they are found: all looks at each vector, tree at those that a vantage-point tree leaves, graph at "
         "a few that links lead to, and may miss some")
      ->check(CLI::IsMember({"all", "tree", "graph"}));
  app.add_flag("--json", vectors_command_options.json, "the results as JSON");
  app.add_option("--run", vectors_command_options.run.run, "train: a run folder with checkpoints, which --resume goes on from");
  app.add_option("--resume", vectors_command_options.run.resume, "train: goes on with a run that was stopped, or with more epochs");
  app.add_option("--averaging", vectors_command_options.run.averaging, "train, with several workers: the policy as JSON, as a job has it");
  declare_cluster_options(app, &vectors_command_options.run.cluster);
  declare_training(app);
}

void expect_arguments(size_t least, size_t most, const char* usage) {
  if (vectors_command_options.arguments.size() >= least && vectors_command_options.arguments.size() <= most) return;
  throw Error(ErrorKind::usage, {.where = "perigee vectors " + vectors_command_options.action,
                                 .what = "the command has another number of arguments",
                                 .got = std::to_string(vectors_command_options.arguments.size()),
                                 .expected = usage});
}

VectorFormat format_for(const std::string& path) {
  if (vectors_command_options.format == "binary") return VectorFormat::binary;
  if (vectors_command_options.format == "text") return VectorFormat::text;
  if (vectors_command_options.format == "keyed") return VectorFormat::keyed;
  return vectors_command_options.format == "glove" ? VectorFormat::glove : vector_format(path);
}

std::string duration(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (whole >= 3600) std::snprintf(text, sizeof text, "%lldh %02lldm", whole / 3600, whole / 60 % 60);
  else std::snprintf(text, sizeof text, "%lldm %02llds", whole / 60, whole % 60);
  return text;
}

// On a terminal one line that changes; else a line now and then.
class Shown {
 public:
  void operator()(const VectorProgress& now) {
    if (!terminal_ && now.seconds < next_ && now.done < now.all) return;
    next_ = now.seconds + 10;
    std::fprintf(stderr, "%s%5.1f %%  %.0f words/s  loss %.4f  rate %.5f  %s left%s", terminal_ ? "\r\x1b[K" : "",
                 100 * static_cast<double>(now.done) / static_cast<double>(std::max<int64_t>(1, now.all)), now.speed, now.loss, now.rate,
                 duration(now.remaining).c_str(), terminal_ && now.done < now.all ? "" : "\n");
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  double next_ = 0;
};

VectorOptions options_given() {
  Json files = Json::array();
  for (const std::string& path : vectors_command_options.arguments) files.push(path);
  vectors_command_options.given.set("files", std::move(files));
  return vector_options(vectors_command_options.given, "vectors train");
}

int train() {
  if (vectors_command_options.out.empty())
    throw Error(ErrorKind::usage, {.where = "perigee vectors train", .what = "the vectors have no place to go", .expected = "--out FILE"});
  const VectorOptions wanted = options_given();
  const VectorFormat format = format_for(vectors_command_options.out),
                     of_documents = vectors_command_options.documents.empty() ? format : format_for(vectors_command_options.documents);
  if (!vectors_command_options.documents.empty() && !wanted.has_labels())
    throw Error(
        ErrorKind::usage,
        {.where = "perigee vectors train", .what = "files have no vectors with this model", .expected = "--model dbow or --model dm"});
  watch_signals("\nstopping; the vectors so far are written\n");
  bool stopped = false;
  std::unique_ptr<TrainedVectors> trained;
  if (vectors_command_options.run.asked()) {
    trained = train_vectors_as_job(vectors_command_options.given, wanted, vectors_command_options.run, &stopped);
  } else {
    Shown shown;
    trained = std::make_unique<TrainedVectors>(
        wanted, [&](const VectorProgress& now) { shown(now); }, &stop_requested());
    stopped = !trained->complete();
  }
  write_vectors(vectors_command_options.out, trained->words(), format);
  if (!vectors_command_options.documents.empty()) write_vectors(vectors_command_options.documents, trained->documents(), of_documents);
  std::fprintf(stderr, "%s: %lld vectors of %lld numbers%s\n", vectors_command_options.out.c_str(),
               static_cast<long long>(trained->words().size()), static_cast<long long>(trained->words().numbers()),
               stopped ? ", from a part of the training" : "");
  return stopped ? stop_exit_code() : 0;
}

int write_job() {
  const VectorOptions wanted = options_given();
  write_vector_job(vectors_command_options.out, vectors_command_options.given, wanted, vectors_command_options.run.cluster.workers);
  return 0;
}

WordVectors open_vectors(const std::string& path) { return is_stored_vectors(path) ? stored_vectors(path)->words() : read_vectors(path); }

void print_neighbours(const WordVectors& vectors, const std::vector<Neighbour>& found) {
  Json list = Json::array();
  for (const Neighbour& one : found) {
    const std::string name(vectors.names().name(one.number));
    if (!vectors_command_options.json) {
      std::printf("%8.4f  %s\n", static_cast<double>(one.similarity), name.c_str());
      continue;
    }
    Json item = Json::object();
    item.set("name", name), item.set("similarity", static_cast<double>(one.similarity));
    list.push(std::move(item));
  }
  if (vectors_command_options.json) std::printf("%s\n", list.dump().c_str());
}

// As WordVectors::nearest() has them.
std::vector<Neighbour> by_index(const WordVectors& vectors, std::span<const float> query, const std::vector<std::string>& except) {
  const auto index = neighbour_index(vectors.rows(), {.exact = vectors_command_options.by == "tree"});
  std::vector<Neighbour> found;
  for (const NearRow& one : index->nearest(query, vectors_command_options.count + static_cast<int64_t>(except.size()))) {
    const bool left_out = std::find(except.begin(), except.end(), vectors.names().name(one.row)) != except.end();
    if (!left_out && static_cast<int64_t>(found.size()) < vectors_command_options.count) found.push_back({one.row, 1 - one.distance});
  }
  return found;
}

int nearest(std::vector<std::string> plus, std::vector<std::string> minus) {
  const WordVectors vectors = open_vectors(vectors_command_options.arguments[0]);
  const std::vector<float> query = vectors.mean(plus, minus);
  plus.insert(plus.end(), minus.begin(), minus.end());
  print_neighbours(vectors, vectors_command_options.by == "all" ? vectors.nearest(query, vectors_command_options.count, plus)
                                                                : by_index(vectors, query, plus));
  return 0;
}

int evaluate_vectors() {
  expect_arguments(2, 1000, "perigee vectors evaluate VECTORS FILE...");
  const WordVectors vectors = open_vectors(vectors_command_options.arguments[0]);
  Json all = Json::object();
  for (size_t i = 1; i < vectors_command_options.arguments.size(); ++i) {
    const std::string& path = vectors_command_options.arguments[i];
    expect_there(path);
    const FileContent content = FileContent::open(path, uint64_t{1} << 30);
    const Json scores = vector_scores(vectors, as_text(content.bytes()), path, available_cores());
    if (vectors_command_options.json) {
      all.set(path, scores);
      continue;
    }
    std::printf("%s:", path.c_str());
    for (const auto& [key, value] : scores.as_object())
      if (key != "sections") std::printf("  %s %s", key.c_str(), value.dump().c_str());
    std::printf("\n");
  }
  if (vectors_command_options.json) std::printf("%s\n", all.dump(1).c_str());
  return 0;
}

int run_vectors() {
  const std::vector<std::string>& given = vectors_command_options.arguments;
  if (vectors_command_options.action == "train") return train();
  if (vectors_command_options.action == "job") return write_job();
  if (vectors_command_options.action == "evaluate") return evaluate_vectors();
  if (vectors_command_options.action == "nearest") {
    expect_arguments(2, 1000, "perigee vectors nearest VECTORS WORD...");
    return nearest({given.begin() + 1, given.end()}, vectors_command_options.minus);
  }
  if (vectors_command_options.action == "analogy") {
    expect_arguments(4, 4, "perigee vectors analogy VECTORS A B C");
    return nearest({given[2], given[3]}, {given[1]});
  }
  if (vectors_command_options.action == "similarity") {
    expect_arguments(3, 3, "perigee vectors similarity VECTORS A B");
    std::printf("%.6f\n", open_vectors(given[0]).similarity(given[1], given[2]));
    return 0;
  }
  expect_arguments(2, 2, "perigee vectors convert VECTORS OUT");
  write_vectors(given[1], open_vectors(given[0]), format_for(given[1]));
  return 0;
}

}  // namespace

extern const Command command_vectors;
const Command command_vectors{
    .name = "vectors", .doc = "train word vectors on texts, and ask which words are alike", .declare = declare_vectors, .run = run_vectors};

}  // namespace perigee
