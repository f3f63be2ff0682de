// `perigee vectors`: trains word vectors on texts, and asks files of vectors who is near whom.
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>

#include "repl/commands/command.h"
#include "repl/signals.h"
#include "src/core/cores.h"
#include "src/io/codec/compress.h"
#include "src/vectors/files/vector_file.h"
#include "src/vectors/trained_vectors.h"
#include "src/vectors/vector_tests.h"

namespace perigee {
namespace {

struct Options {
  std::string action, out, documents, format;
  std::vector<std::string> arguments, minus;
  int64_t count = 10;
  bool json = false;
  Json given = Json::object();  // by the names of word_vectors_schema
} options;

void declare_training(CLI::App& app) {
  for (const Option& option : word_vectors_schema.options) {
    const std::string name = option.name;
    if (name == "files") continue;
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const std::string doc = "train: " + std::string(option.doc) + "; the default is " + option.fallback;
    const auto set = [name](const auto& value) { options.given.set(name, value); };
    if (option.type == TypeName("integer")) app.add_option_function<int64_t>(flag, set, doc);
    else if (option.type == TypeName("number")) app.add_option_function<double>(flag, set, doc);
    else if (option.type == TypeName("boolean")) app.add_option_function<bool>(flag, set, doc);
    else app.add_option_function<std::string>(flag, set, doc);
  }
}

void declare(CLI::App& app) {
  app.add_option(
         "action", options.action,
         "train TEXT... --out VECTORS; nearest VECTORS WORD...: the words most like these; analogy VECTORS A B C: what is to C as B is "
         "to A; similarity VECTORS A B; evaluate VECTORS FILE...: pairs with what people said, or analogies; convert VECTORS OUT")
      ->required()
      ->check(CLI::IsMember({"train", "nearest", "analogy", "similarity", "evaluate", "convert"}));
  app.add_option("arguments", options.arguments, "files and words, as the action takes them")->required();
  app.add_option("--out", options.out, "train: where the vectors go");
  app.add_option("--documents", options.documents, "train, with model dbow or dm: where the vectors of the files go");
  app.add_option("--format", options.format, "train and convert: how vectors are written; the default follows from the name, .bin or .txt")
      ->check(CLI::IsMember({"binary", "text", "glove"}));
  app.add_option("--minus", options.minus, "nearest: words that count negatively; may be given several times")->allow_extra_args(false);
  app.add_option("--count", options.count, "nearest and analogy: how many words (10)")->check(CLI::Range(1, 1000000));
  app.add_flag("--json", options.json, "the results as JSON");
  declare_training(app);
}

void expect_arguments(size_t least, size_t most, const char* usage) {
  if (options.arguments.size() >= least && options.arguments.size() <= most) return;
  throw Error(ErrorKind::usage, {.where = "perigee vectors " + options.action,
                                 .what = "the command has another number of arguments",
                                 .got = std::to_string(options.arguments.size()),
                                 .expected = usage});
}

VectorFormat format_for(const std::string& path) {
  if (options.format == "binary") return VectorFormat::binary;
  if (options.format == "text") return VectorFormat::text;
  return options.format == "glove" ? VectorFormat::glove : vector_format(path);
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

int train() {
  if (options.out.empty())
    throw Error(ErrorKind::usage, {.where = "perigee vectors train", .what = "the vectors have no place to go", .expected = "--out FILE"});
  Json files = Json::array();
  for (const std::string& path : options.arguments) files.push(path);
  options.given.set("files", std::move(files));
  const VectorOptions wanted = vector_options(options.given, "vectors train");
  const VectorFormat format = format_for(options.out), of_documents = options.documents.empty() ? format : format_for(options.documents);
  if (!options.documents.empty() && !wanted.has_labels())
    throw Error(
        ErrorKind::usage,
        {.where = "perigee vectors train", .what = "files have no vectors with this model", .expected = "--model dbow or --model dm"});
  watch_signals("\nstopping; the vectors so far are written\n");
  Shown shown;
  const TrainedVectors trained(
      wanted, [&](const VectorProgress& now) { shown(now); }, &stop_requested());
  write_vectors(options.out, trained.words(), format);
  if (!options.documents.empty()) write_vectors(options.documents, trained.documents(), of_documents);
  std::fprintf(stderr, "%s: %lld vectors of %lld numbers%s\n", options.out.c_str(), static_cast<long long>(trained.words().size()),
               static_cast<long long>(trained.words().numbers()), trained.complete() ? "" : ", from a part of the training");
  return trained.complete() ? 0 : stop_exit_code();
}

void print_neighbours(const WordVectors& vectors, const std::vector<Neighbour>& found) {
  Json list = Json::array();
  for (const Neighbour& one : found) {
    const std::string name(vectors.names().name(one.number));
    if (!options.json) {
      std::printf("%8.4f  %s\n", static_cast<double>(one.similarity), name.c_str());
      continue;
    }
    Json item = Json::object();
    item.set("name", name), item.set("similarity", static_cast<double>(one.similarity));
    list.push(std::move(item));
  }
  if (options.json) std::printf("%s\n", list.dump().c_str());
}

int nearest(std::vector<std::string> plus, std::vector<std::string> minus) {
  const WordVectors vectors = read_vectors(options.arguments[0]);
  const std::vector<float> query = vectors.mean(plus, minus);
  plus.insert(plus.end(), minus.begin(), minus.end());
  print_neighbours(vectors, vectors.nearest(query, options.count, plus));
  return 0;
}

int evaluate() {
  expect_arguments(2, 1000, "perigee vectors evaluate VECTORS FILE...");
  const WordVectors vectors = read_vectors(options.arguments[0]);
  Json all = Json::object();
  for (size_t i = 1; i < options.arguments.size(); ++i) {
    const std::string& path = options.arguments[i];
    expect_there(path);
    const FileContent content = FileContent::open(path, uint64_t{1} << 30);
    const Json scores = vector_scores(vectors, as_text(content.bytes()), path, available_cores());
    if (options.json) {
      all.set(path, scores);
      continue;
    }
    std::printf("%s:", path.c_str());
    for (const auto& [key, value] : scores.as_object())
      if (key != "sections") std::printf("  %s %s", key.c_str(), value.dump().c_str());
    std::printf("\n");
  }
  if (options.json) std::printf("%s\n", all.dump(1).c_str());
  return 0;
}

int run() {
  const std::vector<std::string>& given = options.arguments;
  if (options.action == "train") return train();
  if (options.action == "evaluate") return evaluate();
  if (options.action == "nearest") {
    expect_arguments(2, 1000, "perigee vectors nearest VECTORS WORD...");
    return nearest({given.begin() + 1, given.end()}, options.minus);
  }
  if (options.action == "analogy") {
    expect_arguments(4, 4, "perigee vectors analogy VECTORS A B C");
    return nearest({given[2], given[3]}, {given[1]});
  }
  if (options.action == "similarity") {
    expect_arguments(3, 3, "perigee vectors similarity VECTORS A B");
    std::printf("%.6f\n", read_vectors(given[0]).similarity(given[1], given[2]));
    return 0;
  }
  expect_arguments(2, 2, "perigee vectors convert VECTORS OUT");
  write_vectors(given[1], read_vectors(given[0]), format_for(given[1]));
  return 0;
}

}  // namespace

extern const Command command_vectors;
const Command command_vectors{
    .name = "vectors", .doc = "train word vectors on texts, and ask which words are alike", .declare = declare, .run = run};

}  // namespace perigee
