// The contract of every data source and transform, tested because it exists: one without an example here fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "src/data/arrays.h"
#include "src/data/loader.h"
#include "src/data/padding.h"
#include "src/data/sources/host.h"
#include "src/data/transform.h"
#include "src/io/file.h"
#include "tests/data/fixtures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

using CheckedExample = std::vector<std::vector<std::byte>>;  // one per field

CheckedExample read_checked(const DataSource& source, int64_t index, uint64_t epoch = 0, uint64_t seed = 1) {
  CheckedExample example;
  std::vector<std::byte*> slots;
  for (const auto& field : source.fields()) {
    // Filled with a pattern, and a guard behind it: a source writes all of its slot and nothing else.
    const size_t bytes = static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype);
    example.emplace_back(bytes + 8, std::byte{0xA5});
  }
  for (auto& slot : example) slots.push_back(slot.data());
  source.read({.index = index, .epoch = epoch, .seed = seed}, slots);
  for (auto& slot : example) {
    for (int i = 0; i < 8; ++i) EXPECT_EQ(slot[slot.size() - 1 - i], std::byte{0xA5}) << "wrote behind its slot";
    slot.resize(slot.size() - 8);
  }
  return example;
}

void check_source(const DataSource& source) {
  ASSERT_GE(source.size(), 1);
  EXPECT_FALSE(source.traits().description.empty());
  std::set<std::string> names;
  for (const auto& field : source.fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name << " twice";
    const bool sequence = field.classes == 0 && field.shape.rank() == 1;  // of labels, whose names they are
    EXPECT_TRUE(field.class_names.empty() || sequence || static_cast<int64_t>(field.class_names.size()) == field.classes);
    if (field.classes > 0) {
      EXPECT_EQ(field.dtype, Dtype::i64);
      EXPECT_EQ(field.shape.rank(), 0);
    }
  }
  for (int64_t index : {int64_t{0}, source.size() - 1, source.size() / 2}) {
    const CheckedExample once = read_checked(source, index, 3);
    EXPECT_EQ(once, read_checked(source, index, 3)) << "example " << index << " is not a function of its key";
    for (size_t f = 0; f < once.size(); ++f)
      if (const Field& field = source.fields()[f]; field.classes > 0) {
        int64_t label = -1;
        std::memcpy(&label, once[f].data(), sizeof label);
        EXPECT_TRUE(label >= 0 && label < field.classes) << label;
      } else if (field.dtype == Dtype::f32) {
        for (int64_t i = 0; i < field.shape.elements(); ++i) {
          float value;
          std::memcpy(&value, once[f].data() + 4 * i, 4);
          ASSERT_TRUE(std::isfinite(value)) << field.name << "[" << i << "]";
        }
      }
    EXPECT_TRUE(!source.traits().fixed || once == read_checked(source, index, 4))
        << "example " << index << " is another one in the next epoch";
  }
}

// The same seed gives the same batches with any number of threads, from any position.
void check_order(const SourcePtr& source) {
  const int64_t batch = std::max<int64_t>(1, std::min<int64_t>(source->size() / 3, 16));
  Loader a(source, {.batch = batch, .seed = 9, .threads = 0}), b(source, {.batch = batch, .seed = 9, .threads = 3});
  std::vector<std::vector<std::byte>> first;
  for (int i = 0; i < 5; ++i) {
    const Batch &x = a.next(), &y = b.next();
    ASSERT_EQ(x.size, y.size);
    ASSERT_TRUE(std::equal(x.ids.begin(), x.ids.begin() + x.size, y.ids.begin()));
    for (size_t f = 0; f < x.fields.size(); ++f) {
      const size_t bytes = x.fields[f].bytes() / static_cast<size_t>(batch) * static_cast<size_t>(x.size);
      ASSERT_EQ(std::memcmp(x.fields[f].data<std::byte>(), y.fields[f].data<std::byte>(), bytes), 0) << source->fields()[f].name;
      if (i == 3 && f == 0) first.emplace_back(x.fields[f].data<std::byte>(), x.fields[f].data<std::byte>() + bytes);
    }
  }
  a.seek(3 / ((source->size() + batch - 1) / batch), 3 % ((source->size() + batch - 1) / batch) * batch);
  const Batch& again = a.next();
  EXPECT_EQ(std::memcmp(again.fields[0].data<std::byte>(), first[0].data(), first[0].size()), 0) << "seek";
}

TEST(EverySource, KeepsTheContract) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::map<std::string, Json> examples = source_examples(folder.path());
  const std::map<std::string, SourcePtr> held{{"drawn", open_json(examples.at("digits"), folder.path())}};
  const HostScope scope(held);
  for (const SourceDef* def : source_defs()) {
    SCOPED_TRACE(def->type);
    EXPECT_NE(def->doc, nullptr);
    const auto found = examples.find(def->type);
    ASSERT_NE(found, examples.end()) << "give tests/data/fixtures.cpp an example of it";
    if (found->second.is_null()) {
      std::printf("[ skipped ] %s: PERIGEE_DATA is not set\n", def->type);
      continue;
    }
    const SourcePtr source = open_json(found->second, folder.path());
    check_source(*source);
    check_order(source);
    Json typo = found->second;
    typo.set("no_such_option", 1);
    EXPECT_THROW(open_json(typo, folder.path()), Error);
  }
}

Json parse(const std::string& text) { return Json::parse(text, "test"); }

// Each transform on an image of 3x8x6 and on numbers.
const std::map<std::string, std::string>& transform_examples() {
  static const std::map<std::string, std::string> examples = {
      {"affine", R"({"type":"affine","translate":0.2,"scale":[0.8,1.2],"shear":10})"},
      {"auto_augment", R"({"type":"auto_augment","policy":"svhn"})"},
      {"blur", R"({"type":"blur","kernel":7})"},
      {"colour", R"({"type":"colour","hue":0.1,"order":"random","top":1})"},
      {"crop", R"({"type":"crop","size":[6,5],"pad":2})"},
      {"erase", R"({"type":"erase","noise":0.5})"},
      {"flip", R"({"type":"flip"})"},
      {"gain", R"({"type":"gain"})"},
      {"mel", R"({"type":"mel","mels":10,"deltas":1})"},
      {"mfcc", R"({"type":"mfcc","coefficients":7,"mels":10,"deltas":2,"standardize":true})"},
      {"minmax", R"({"type":"minmax","low":-1})"},
      {"normalize", R"({"type":"normalize","mean":[0.1,0.2,0.3],"std":0.5})"},
      {"noise", R"({"type":"noise"})"},
      {"one_hot", R"({"type":"one_hot"})"},
      {"perspective", R"({"type":"perspective","probability":0.9})"},
      {"rand_augment", R"({"type":"rand_augment","operations":3,"magnitude":20})"},
      {"resize", R"({"type":"resize","size":[5,9],"fit":"pad"})"},
      {"resized_crop", R"({"type":"resized_crop","size":[7,4]})"},
      {"trivial_augment", R"({"type":"trivial_augment"})"},
      {"rotate", R"({"type":"rotate","degrees":30})"},
      {"scale", R"({"type":"scale","factor":2,"offset":1})"},
      {"shift", R"({"type":"shift","pixels":2})"},
      {"spec_augment", R"({"type":"spec_augment"})"},
      {"spectrogram", R"({"type":"spectrogram","log":"db"})"},
      {"speed", R"({"type":"speed"})"},
      {"standardize", R"({"type":"standardize"})"},
      {"time_shift", R"({"type":"time_shift","steps":50})"},
      {"voice", R"({"type":"voice","margin":1,"decibels":3,"pauses":false})"},
  };
  return examples;
}

SourcePtr endless_images(int64_t count) {
  Tensor x(Dtype::f32, {count, 3, 8, 6}), y(Dtype::i64, {count});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>((i * 7919) % 1000) / 1000;
  for (int64_t i = 0; i < count; ++i) y.data<int64_t>()[i] = i % 4;
  return arrays_source("images", {{.name = "x", .values = x}, {.name = "y", .values = y, .label = true}});
}

Json map_of(const std::string& transforms) {
  return parse(R"({"type":"map","source":{"type":"arrays","handle":"images"},"transforms":[)" + transforms + "]}");
}

// These change recordings.
bool is_of_sequences(const std::string& type) {
  return std::set<std::string>{"gain", "mel", "mfcc", "noise", "spec_augment", "spectrogram", "speed", "time_shift", "voice"}.contains(
      type);
}

TEST(EveryTransform, KeepsTheContract) {
  const TemporaryFolder folder;
  const Json recordings = source_examples(folder.path()).at("audio");
  register_source("images", endless_images(40));
  for (const TransformDef* def : transform_defs()) {
    SCOPED_TRACE(def->type);
    if (std::string_view(def->type) == "box_grid") continue;  // it is of boxes: objects_test.cpp
    const auto found = transform_examples().find(def->type);
    ASSERT_NE(found, transform_examples().end()) << "give tests/data/contract_test.cpp an example of it";
    Json description = map_of(found->second);
    if (is_of_sequences(def->type)) {
      EXPECT_THROW(open_json(description), Error) << "pictures are no sequences";
      description.set("source", recordings);
    }
    const SourcePtr source = open_json(description, folder.path());
    check_source(*source);
    check_order(source);
    description.find("transforms")->as_array()[0].set("no_such_option", 1);
    EXPECT_THROW(open_json(description, folder.path()), Error);
  }
  EXPECT_THROW(open_json(map_of(R"({"type":"filp"})")), Error);
  EXPECT_THROW(open_json(map_of(R"({"type":"flip","field":"y"})")), Error);
  EXPECT_THROW(open_json(map_of(R"({"type":"scale","field":"y"})")), Error);
  register_source("images", nullptr);
}

TEST(Transforms, DrawPerExampleAndEpochOnly) {
  register_source("images", endless_images(40));
  const SourcePtr source = open_json(map_of(R"({"type":"crop","pad":2},{"type":"flip"},{"type":"shift"})"));
  int other_epoch = 0, other_seed = 0;
  for (int i = 0; i < 40; ++i) {
    other_epoch += read_checked(*source, i, 0, 1) != read_checked(*source, i, 1, 1);
    other_seed += read_checked(*source, i, 0, 1) != read_checked(*source, i, 0, 2);
  }
  EXPECT_GT(other_epoch, 30);
  EXPECT_GT(other_seed, 30);
  // Half of the flips happen.
  const SourcePtr flip = open_json(map_of(R"({"type":"flip"})")), plain = open_json(map_of(""));
  int flipped = 0;
  for (int e = 0; e < 25; ++e)
    for (int i = 0; i < 40; ++i) flipped += read_checked(*flip, i, e) != read_checked(*plain, i, e);
  EXPECT_NEAR(flipped, 500, 70);
  register_source("images", nullptr);
}

std::vector<float> floats(const CheckedExample& example, size_t field = 0) {
  std::vector<float> values(example[field].size() / 4);
  std::memcpy(values.data(), example[field].data(), example[field].size());
  return values;
}

TEST(Transforms, StandardizeWithTheTrainingPartsValues) {
  const std::string standardize = R"("transforms":[{"type":"standardize"}])";
  const Json train = parse(R"({"type":"map","source":{"type":"arrays","x":[[1,5],[3,5],[5,5]],"y":[0,1,1]},)" + standardize + "}");
  const Json test = parse(R"({"type":"map","source":{"type":"arrays","x":[[3,7]],"y":[0]},)" + standardize + "}");
  const SourcePtr fitted = open_json(train);
  const std::vector<float> first = floats(read_checked(*fitted, 0));
  EXPECT_NEAR(first[0], -1.2247449f, 1e-6);
  EXPECT_EQ(first[1], 0.f) << "a constant";
  const std::vector<float> other = floats(read_checked(*open_json(with_fitted(test, fitted->traits().fitted)), 0));
  EXPECT_NEAR(other[0], 0.f, 1e-6);
  EXPECT_EQ(other[1], 2.f);
  // Through a split, and back through JSON text.
  const Json nested = parse(R"({"type":"take","count":1,"source":)" + test.dump() + "}");
  const Json back = parse(fitted->traits().fitted.dump());
  EXPECT_EQ(floats(read_checked(*open_json(with_fitted(nested, back)), 0)), other);
}

// The numbers 1, 3 and 5 count, and 99 is padding.
TEST(Transforms, WhatIsMeasuredIsNoPadding) {
  const std::string source = R"({"type":"arrays","x":[[[1,3,99]],[[5,99,99]]],"y":[0,1],"n":[2,1],"m":[[1,1,0],[1,0,0]]})";
  const auto fitted_by = [&](const std::string& transform) {
    return *open_json(parse(R"({"type":"map","source":)" + source + R"(,"transforms":[)" + transform + "]}"))
                ->traits()
                .fitted.find("transforms");
  };
  for (const std::string by : {R"("lengths":"n")", R"("masks":"m")"}) {
    const Json fitted = fitted_by(R"({"type":"standardize",)" + by + "}").as_array()[0];
    EXPECT_DOUBLE_EQ(fitted.find("mean")->as_array()[0].as_number(), 3);
    EXPECT_DOUBLE_EQ(fitted.find("std")->as_array()[0].as_number(), std::sqrt(8. / 3));
    EXPECT_EQ(fitted_by(R"({"type":"minmax",)" + by + "}").dump(), R"([{"min":[1.0],"max":[5.0]}])");
    const Json steps = fitted_by(R"({"type":"standardize","over":"element",)" + by + "}").as_array()[0];
    EXPECT_EQ(steps.find("mean")->dump(), "[3.0,3.0,0.0]") << "nothing counts in the last one";
    EXPECT_EQ(steps.find("std")->dump(), "[2.0,0.0,0.0]");
  }
  EXPECT_THROW(fitted_by(R"({"type":"minmax","lengths":"m"})"), Error);
  // As a job tells it to the transforms of such a field, through other sources.
  const std::string map =
      R"({"type":"take","count":2,"source":{"type":"map","source":)" + source + R"(,"transforms":[{"type":"standardize"}]}})";
  const Json told = with_padding(parse(map), parse(R"({"lengths":{"x":"n"}})"));
  EXPECT_EQ(told.find("source")->find("transforms")->dump(), R"([{"type":"standardize","lengths":"n"}])");
  EXPECT_EQ(with_padding(parse(map), parse(R"({"masks":{"y":"m"}})")), parse(map));
}

TEST(Transforms, OneHotAndMinmax) {
  const SourcePtr source = open_json(parse(R"({"type":"map","source":{"type":"arrays","x":[[1],[3],[5]],"y":[0,2,1]},
    "transforms":[{"type":"minmax","low":-1,"high":1},{"type":"one_hot"}]})"));
  EXPECT_EQ(floats(read_checked(*source, 0))[0], -1.f);
  EXPECT_EQ(floats(read_checked(*source, 1))[0], 0.f);
  EXPECT_EQ(floats(read_checked(*source, 1), 1), (std::vector<float>{0, 0, 1}));
}

TEST(Transforms, CropInTheMiddleAndRotateByNothing) {
  register_source("images", endless_images(4));
  const std::vector<float> whole = floats(read_checked(*open_json(map_of("")), 2));
  EXPECT_EQ(floats(read_checked(*open_json(map_of(R"({"type":"rotate","degrees":0})")), 2)), whole);
  const std::vector<float> middle = floats(read_checked(*open_json(map_of(R"({"type":"crop","size":[2,2],"random":false})")), 2));
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 2; ++x) EXPECT_EQ(middle[c * 4 + y * 2 + x], whole[c * 48 + (y + 3) * 6 + x + 2]);
  register_source("images", nullptr);
}

std::multiset<int64_t> described_values(const Json& description) {
  std::multiset<int64_t> all;
  const SourcePtr source = open_json(description);
  for (int64_t i = 0; i < source->size(); ++i) all.insert(static_cast<int64_t>(floats(read_checked(*source, i))[0]));
  return all;
}

TEST(Splits, AreDisjointAndComplete) {
  std::string list;
  for (int i = 0; i < 103; ++i) list += (i ? "," : "") + std::to_string(i);
  const std::string source = R"("source":{"type":"arrays","x":[)" + list + "]}";
  for (const char* shuffle : {"true", "false"}) {
    std::multiset<int64_t> all;
    for (int part = 0; part < 3; ++part)
      all.merge(described_values(parse(R"({"type":"split","parts":[0.7,0.2,0.1],"part":)" + std::to_string(part) + R"(,"shuffle":)" +
                                       shuffle + "," + source + "}")));
    EXPECT_EQ(all.size(), 103u);
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 103u);
    std::multiset<int64_t> tests;
    for (int fold = 0; fold < 5; ++fold) {
      const std::string k = R"({"type":"k_fold","folds":5,"fold":)" + std::to_string(fold) + R"(,"shuffle":)" + shuffle + "," + source;
      std::multiset<int64_t> test = described_values(parse(k + R"(,"part":"test"})")), train = described_values(parse(k + "}"));
      EXPECT_EQ(test.size() + train.size(), 103u);
      train.insert(test.begin(), test.end());
      EXPECT_EQ(std::set<int64_t>(train.begin(), train.end()).size(), 103u);
      tests.merge(test);
    }
    EXPECT_EQ(tests.size(), 103u);
  }
  EXPECT_THROW(described_values(parse(R"({"type":"split","parts":[0.7,0.7],)" + source + "}")), Error);
}

// As scikit-learn's StratifiedKFold: the folds' sizes and their shares of each class differ by one at most.
TEST(Splits, StratifiedFoldsHaveTheirShareOfEachClass) {
  std::multiset<int64_t> all;
  for (int fold = 0; fold < 5; ++fold) {
    const std::string k =
        R"({"type":"k_fold","stratified":true,"folds":5,"fold":)" + std::to_string(fold) + R"(,"source":)" + unequal_classes();
    const std::multiset<int64_t> test = described_values(parse(k + R"(,"part":"test"})")), train = described_values(parse(k + "}"));
    std::map<int, int> counts;
    for (const int64_t k : test) {
      ++counts[class_of(k)];
      EXPECT_FALSE(train.contains(k));
    }
    EXPECT_EQ(test.size() + train.size(), 103u);
    EXPECT_EQ(counts[0], 12);
    EXPECT_EQ(counts[1], 6);
    EXPECT_TRUE(counts[2] == 2 || counts[2] == 3) << counts[2];
    all.insert(test.begin(), test.end());
  }
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 103u);
}

TEST(Splits, StratifiedFoldsAreShuffledByTheSeedAndKeepTheOrderOfTheRest) {
  const auto fold = [](const std::string& options) {
    return parse(R"({"type":"k_fold","stratified":true,"folds":5,"fold":1,)" + options + R"("source":)" + unequal_classes() + "}");
  };
  // Class by class, each in the order of the source, of which the fold has every fifth.
  std::multiset<int64_t> in_turn;
  int dealt = 0;
  for (int label = 0; label < 3; ++label)
    for (int64_t i = 0; i < 103; ++i)
      if (class_of(i * 37 % 103) == label && dealt++ % 5 == 1) in_turn.insert(i * 37 % 103);
  EXPECT_EQ(described_values(fold(R"("part":"test","shuffle":false,)")), in_turn);
  const std::multiset<int64_t> shuffled = described_values(fold(R"("part":"test",)"));
  EXPECT_NE(shuffled, in_turn);
  EXPECT_NE(shuffled, described_values(fold(R"("part":"test","seed":1,)")));
  const SourcePtr rest = open_json(fold(""));
  std::vector<int64_t> places;  // 39 times 37 is 1 modulo 103
  for (int64_t i = 0; i < rest->size(); ++i) places.push_back(static_cast<int64_t>(floats(read_checked(*rest, i))[0]) * 39 % 103);
  EXPECT_TRUE(std::ranges::is_sorted(places));
}

}  // namespace
}  // namespace perigee
