#include "repl/commands/train/repeats.h"

#include <algorithm>
#include <charconv>

#include "src/core/error.h"
#include "src/data/transform.h"
#include "src/io/file.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

constexpr int64_t kMostSeeds = 1000;

int64_t seed_of(const Job& job) { return Config(job.json(), job.where()).integer("seed", 0); }

[[noreturn]] void wrong_seeds(const std::string& what, const std::string& got) {
  throw Error(ErrorKind::usage,
              {"--seeds", what, "'" + got + "'", "how many, from 1 to 1000, or a list of them: --seeds 3, --seeds 1,2,7"});
}

std::vector<int64_t> read_seeds(const std::string& text, int64_t first) {
  std::vector<int64_t> given, all;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t value = 0;
    const auto [stop, status] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (status != std::errc() || stop != text.data() + end) wrong_seeds("is no number of seeds and no list of them", text);
    if (std::ranges::find(given, value) != given.end()) wrong_seeds("has the seed " + std::to_string(value) + " twice", text);
    given.push_back(value);
    begin = end + 1;
  }
  if (given.size() > static_cast<size_t>(kMostSeeds)) wrong_seeds("has " + std::to_string(given.size()) + " seeds", text.substr(0, 40));
  if (given.size() > 1) return given;
  if (given[0] < 1 || given[0] > kMostSeeds) wrong_seeds("is no number of seeds", text);
  for (int64_t i = 0; i < given[0]; ++i) all.push_back(first + i);
  return all;
}

// The transform without chance, at the same place of the list: values that are fitted to the training part go by it.
Json without_chance(const Json& transform) {
  const Json* type = transform.find("type");
  for (const TransformDef* def : transform_defs()) {
    if (!type || *type != Json(def->type) || !def->random) continue;
    Json still = transform;
    if (def->schema.find("random")) {
      still.set("random", false);
      return still;
    }
    const Json* field = transform.find("field");
    return Json(Json::Object{{"type", "scale"}, {"factor", 1}, {"field", field ? *field : Json(def->field)}});
  }
  return transform;
}

}  // namespace

Repeats::Repeats(const Job& job, int64_t folds, const std::string& seeds) : folds_(folds) {
  if (!seeds.empty()) seeds_ = read_seeds(seeds, seed_of(job));
}

Repeats Repeats::read(const std::string& folder) {
  Repeats repeats;
  const std::string file = folder + "/" + kRepeatsFile;
  if (!file_exists(file)) return repeats;
  const Json json = Json::parse(as_text(read_file(file, 1 << 20)), file);
  const Config plan(json, file, ErrorKind::usage);
  repeats.folds_ = plan.integer_in("folds", 0, 1 << 20, 0);
  repeats.label_ = plan.string("stratified_by", "");
  if (const Json* seeds = json.find("seeds"); seeds && seeds->is_array())
    for (const Json& seed : seeds->as_array())
      if (seed.is_int()) repeats.seeds_.push_back(seed.as_int());
  return repeats;
}

void Repeats::write(const std::string& folder) const {
  Json seeds = Json::array();
  for (const int64_t seed : seeds_) seeds.push(seed);
  const Json plan(Json::Object{{"folds", folds_}, {"seeds", std::move(seeds)}, {"stratified_by", label_}});
  write_file(folder + "/" + kRepeatsFile, as_bytes(plan.dump(2) + "\n"));
}

void Repeats::stratify(const Job& job, const DataSource& source) {
  const Json* target = job.json().find("target");
  if (target && target->is_array() && target->as_array().size() == 1) target = &target->as_array()[0];
  const std::string name = target && target->is_string() ? target->as_string() : "y";
  if (source.traits().live) return;
  for (const Field& field : source.fields())
    if (field.name == name && field.classes > 0 && field.shape.elements() == 1) label_ = name;
}

std::vector<Repeat> Repeats::runs(const Job& job) const {
  std::vector<Repeat> all;
  for (const int64_t seed : seeds_.empty() ? std::vector<int64_t>{seed_of(job)} : seeds_)
    for (int64_t fold = std::min<int64_t>(1, folds_); fold <= folds_; ++fold) {
      Repeat each{.fold = fold, .seed = seed, .of = folds_};
      if (fold > 0) each.name = "fold-" + std::to_string(fold);
      if (!seeds_.empty()) each.name += (fold > 0 ? "-seed-" : "seed-") + std::to_string(seed);
      all.push_back(std::move(each));
    }
  return all;
}

// The fold is cut below the transforms, so that random ones do not change what the network is judged by.
Json Repeats::fold_of(const Json& source, const Repeat& repeat, const char* part) const {
  const Json* type = source.find("type");
  if (type && *type == Json("map") && source.find("source")) {
    Json mapped = source;
    mapped.set("source", fold_of(*source.find("source"), repeat, part));
    Json* list = mapped.find("transforms");
    if (std::string_view(part) == "test" && list && list->is_array())
      for (Json& transform : list->as_array()) transform = without_chance(transform);
    return mapped;
  }
  Json fold(Json::Object{{"type", "k_fold"}, {"source", source}, {"folds", folds_}, {"fold", repeat.fold - 1}, {"part", part}});
  if (!label_.empty()) fold.set("stratified", true), fold.set("field", label_);
  return fold;
}

Job Repeats::job_of(const Job& job, const Repeat& repeat) const {
  Json json = job.json();
  json.set("seed", repeat.seed);
  json.set("name", job.name() + "-" + repeat.name);
  Json* data = json.find("data");
  const Json* train = data ? data->find("train") : nullptr;
  if (repeat.fold > 0 && train && train->is_object()) {
    const Json whole = *train;
    data->set("train", fold_of(whole, repeat, "train"));
    data->set("test", fold_of(whole, repeat, "test"));
  }
  return Job(std::move(json), job.where(), job.folder());
}

std::string Repeats::arguments() const {
  if (seeds_.size() == 1) return (folds_ > 0 ? " --folds " + std::to_string(folds_) : "") + " --seeds 1";
  std::string text = folds_ > 0 ? " --folds " + std::to_string(folds_) : "";
  for (size_t i = 0; i < seeds_.size(); ++i) text += (i == 0 ? " --seeds " : ",") + std::to_string(seeds_[i]);
  return text;
}

}  // namespace perigee
