// {"type": "k_fold", "source": {...}, "folds": 5, "fold": 0, "part": "train"}: cross-validation; "test" is the fold, "train" all others.
#include <algorithm>

#include "src/data/indexed_source.h"
#include "src/data/labels.h"
#include "src/data/loader.h"

namespace perigee {
namespace {

// The examples class by class, those of a class in a shuffled order, dealt out to the folds in turn: each fold has its share of each class, to
// one example. Those of fold number `chosen` first, then the rest in the order of the source.
std::vector<int64_t> dealt(const std::vector<int64_t>& labels, int64_t folds, int64_t chosen, uint64_t seed, bool shuffle) {
  const auto size = static_cast<int64_t>(labels.size());
  std::vector<int64_t> order(labels.size());
  for (int64_t i = 0; i < size; ++i) order[static_cast<size_t>(i)] = shuffle ? shuffled_index(seed, 0, i, size) : i;
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return labels[static_cast<size_t>(a)] < labels[static_cast<size_t>(b)]; });
  std::vector<int64_t> fold, rest;
  for (int64_t i = 0; i < size; ++i) (i % folds == chosen ? fold : rest).push_back(order[static_cast<size_t>(i)]);
  std::ranges::sort(rest);
  fold.insert(fold.end(), rest.begin(), rest.end());
  return fold;
}

SourcePtr open_stratified(const Config& config, const SourcePtr& inner, int64_t folds, int64_t fold, bool test) {
  const std::vector<int64_t> labels = labels_of(*inner, label_field(*inner, config, config.string("field")));
  auto order = std::make_shared<std::vector<int64_t>>(
      dealt(labels, folds, fold, static_cast<uint64_t>(config.integer("seed")), config.boolean("shuffle")));
  const int64_t size = inner->size(), in_fold = (size - fold + folds - 1) / folds;
  const std::string name = "stratified fold " + std::to_string(fold + 1) + " of " + std::to_string(folds) + (test ? " (test)" : " (train)");
  return std::make_shared<IndexedSource>(name, inner, test ? in_fold : size - in_fold,
                                         [=](int64_t i) { return (*order)[static_cast<size_t>(test ? i : in_fold + i)]; });
}

SourcePtr open_k_fold(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  const int64_t size = inner->size();
  if (size < 2) config.fail("source", "has too few examples", std::to_string(size), "at least 2");
  const int64_t folds = config.integer_in("folds", 2, size, std::min<int64_t>(5, size));
  const int64_t fold = config.integer_in("fold", 0, folds - 1);
  const bool test = config.choice("part") == "test";
  if (config.boolean("stratified")) return open_stratified(config, inner, folds, fold, test);
  const auto seed = static_cast<uint64_t>(config.integer("seed"));
  const bool shuffle = config.boolean("shuffle");
  const auto border = [=](int64_t k) { return static_cast<int64_t>(static_cast<__int128>(size) * k / folds); };
  const int64_t from = border(fold), to = border(fold + 1);
  const std::string name = "fold " + std::to_string(fold + 1) + " of " + std::to_string(folds) + (test ? " (test)" : " (train)");
  return std::make_shared<IndexedSource>(name, inner, test ? to - from : size - (to - from), [=](int64_t i) {
    const int64_t position = test ? from + i : i < from ? i : i + (to - from);
    return shuffle ? shuffled_index(seed, 0, position, size) : position;
  });
}

constexpr Option kKFoldOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                                    {"folds", "integer", "5", "how many folds", {2}},
                                    {"fold", "integer", nullptr, "which, from 0", {0}},
                                    {"part", "name", "train", "which of the two", {}, {"train", "test"}},
                                    {"shuffle", "boolean", "true", "before they are cut"},
                                    {"seed", "integer", "0", "of the shuffle"},
                                    {"stratified", "boolean", "false", "every fold has its share of each class"},
                                    {"field", "string", "y", "the label that stratified goes by"}};

}  // namespace

extern const SourceDef source_k_fold;
const SourceDef source_k_fold{.type = "k_fold",
                              .doc =
                                  "Fold number 'fold' of 'folds' (5): part 'test' is the fold, 'train' the rest. Options: shuffle (true), "
                                  "seed (0), stratified (false)",
                              .schema = {.options = kKFoldOptions},
                              .open = open_k_fold,
                              .wraps = true};

}  // namespace perigee
