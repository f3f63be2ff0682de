// packed: each sequence once in an epoch, whole, apart from its neighbours; rows that are nearly full.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "src/core/error.h"
#include "src/data/loader.h"
#include "src/data/transform.h"
#include "src/io/file.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

struct PackedRow {
  std::vector<int64_t> x, y, s, label;
  int64_t n = 0;
};

class Packed : public testing::Test {
 protected:
  // 60 documents of 1 to 12 words; document i begins with the word d<i> and has the label i mod 3.
  Packed() {
    std::string text = "text,label\n";
    for (int i = 0; i < 60; ++i) {
      lengths_.push_back(1 + i * 7 % 12);
      text += "d" + std::to_string(i);
      for (int64_t t = 1; t < lengths_.back(); ++t) text += " w" + std::to_string(t);
      text += "," + std::string(1, static_cast<char>('a' + i % 3)) + "\n";
    }
    write_file(folder_ / "d.csv", as_bytes(text));
  }

  SourcePtr open(const std::string& json) const {
    return open_source(Config(Json::parse(json, "test"), "test", ErrorKind::data), folder_.path());
  }
  static std::string documents(const std::string& more = "") {
    return R"("source":{"type":"documents","file":"d.csv","length":12,"unit":"word")" + more + "}";
  }
  SourcePtr packed(const std::string& options) const { return open(R"({"type":"packed",)" + options + "," + documents() + "}"); }
  std::string refusal(const std::string& json) const {
    try {
      open(json);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  // With "next": "next".
  static PackedRow row(const DataSource& source, int64_t index, uint64_t epoch = 0, uint64_t seed = 1) {
    PackedRow row;
    std::vector<std::byte*> to;
    for (const Field& field : source.fields()) {
      std::vector<int64_t>& values = field.name == "x" ? row.x : field.name == "s" ? row.s : field.name == "next" ? row.y : row.label;
      values.resize(field.name == "n" ? values.size() : static_cast<size_t>(field.shape.elements()));
      to.push_back(field.name == "n" ? reinterpret_cast<std::byte*>(&row.n) : reinterpret_cast<std::byte*>(values.data()));
    }
    source.read({.index = index, .epoch = epoch, .seed = seed}, to);
    return row;
  }

  // How often each first word begins a sequence in an epoch, and the sequences' lengths by it.
  static std::map<int64_t, std::vector<int64_t>> sequences(const DataSource& source, uint64_t epoch) {
    std::map<int64_t, std::vector<int64_t>> found;
    for (int64_t i = 0; i < source.size(); ++i) {
      const PackedRow r = row(source, i, epoch);
      for (size_t t = 0; t < r.x.size(); ++t)
        if (r.s[t] == static_cast<int64_t>(t) + 1) found[r.x[t]].push_back(std::count(r.s.begin(), r.s.end(), r.s[t]));
    }
    return found;
  }

  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
  std::vector<int64_t> lengths_;
};

TEST_F(Packed, HasEachSequenceOnceInEveryEpoch) {
  const SourcePtr source = packed(R"("length":20,"next":"next")");
  int64_t all = 0;
  for (const int64_t length : lengths_) all += length;
  EXPECT_EQ(source->size(), (all + 19) / 20) << "rows without a gap are possible here, and are found";
  std::vector<PackedRow> first;
  for (const uint64_t epoch : {0, 1, 7}) {
    const auto found = sequences(*source, epoch);
    ASSERT_EQ(found.size(), 60u) << "sequences begin with words of their own";
    std::vector<int64_t> counts;
    for (const auto& [word, of] : found) {
      ASSERT_EQ(of.size(), 1u);
      counts.push_back(of[0]);
    }
    std::vector<int64_t> expected = lengths_;
    std::sort(counts.begin(), counts.end()), std::sort(expected.begin(), expected.end());
    EXPECT_EQ(counts, expected);
  }
  bool differs = false;
  for (int64_t i = 0; i < source->size(); ++i) {
    EXPECT_EQ(row(*source, i, 3).x, row(*source, i, 3).x);
    EXPECT_EQ(row(*source, i, 3).s, row(*source, i, 4).s) << "the lengths in a row stay";
    differs |= row(*source, i, 3).x != row(*source, i, 4).x;
  }
  EXPECT_TRUE(differs) << "sequences of one length change places";
  EXPECT_NE(source->traits().description.find("rows of 20 steps, of which"), std::string::npos) << source->traits().description;
  EXPECT_FALSE(source->traits().fixed);
  EXPECT_TRUE(packed(R"("length":20,"mix":false)")->traits().fixed);
}

TEST_F(Packed, RowsSayWhereSequencesBeginAndWhatComesNext) {
  const SourcePtr source = packed(R"("length":15,"next":"next")");
  for (int64_t i = 0; i < source->size(); ++i) {
    const PackedRow r = row(*source, i);
    ASSERT_EQ(r.x.size(), 15u);
    for (size_t t = 0; t < 15; ++t) {
      const bool there = static_cast<int64_t>(t) < r.n, last = t + 1 == 15 || r.s[t + 1] != r.s[t];
      EXPECT_EQ(r.s[t] > 0, there);
      EXPECT_TRUE(r.s[t] == 0 || r.s[t] == static_cast<int64_t>(t) + 1 || r.s[t] == r.s[t - 1]);
      EXPECT_EQ(r.y[t], there && !last ? r.x[t + 1] : -1) << "nothing is told across a border";
      EXPECT_TRUE(there || r.x[t] == 0);
      EXPECT_EQ(r.label[t] >= 0, there && last) << "the label stands at the last step of its sequence";
    }
  }
  const PackedRow other = row(*packed(R"("length":15,"label_at":"first")"), 0);
  for (size_t t = 0; t < 15; ++t) EXPECT_EQ(other.label[t] >= 0, other.s[t] == static_cast<int64_t>(t) + 1);
}

TEST_F(Packed, OneByOneTheSequencesKeepTheirOrder) {
  const SourcePtr source = packed(R"("length":12,"most":1,"next":"next")"), inner = open("{" + documents().substr(10));
  ASSERT_EQ(source->size(), 60);
  for (int64_t i = 0; i < 60; ++i) {
    std::vector<int64_t> x(12);
    int64_t n = 0, y = 0;
    std::byte* const to[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&n), reinterpret_cast<std::byte*>(&y)};
    inner->read({.index = i}, to);
    const PackedRow r = row(*source, i);
    EXPECT_EQ(r.x, x);
    EXPECT_EQ(r.n, n);
    EXPECT_EQ(r.label[static_cast<size_t>(n) - 1], y);
  }
  int64_t longest = 0;
  const SourcePtr pairs = packed(R"("length":24,"most":2,"next":"next")");
  for (int64_t i = 0; i < pairs->size(); ++i) {
    const PackedRow r = row(*pairs, i);
    int64_t begins = 0;
    for (size_t t = 0; t < r.s.size(); ++t) begins += r.s[t] == static_cast<int64_t>(t) + 1;
    longest = std::max(longest, begins);
  }
  EXPECT_EQ(longest, 2);
}

TEST_F(Packed, TakesWhatIsHiddenAlong) {
  const SourcePtr source =
      open(R"({"type":"packed","length":30,"source":{"type":"masked_lm","target":"next","share":0.5,)" + documents() + "}}");
  int64_t chosen = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    const PackedRow r = row(*source, i);
    for (size_t t = static_cast<size_t>(r.n); t < 30; ++t) EXPECT_EQ(r.y[t], -1);
    chosen += 30 - std::count(r.y.begin(), r.y.end(), -1);
  }
  EXPECT_GT(chosen, 100);
}

// Sequences in the place of those that a source reads, with what it says of their lengths.
class SaidLengths : public DataSource {
 public:
  explicit SaidLengths(Dtype dtype) {
    fields_.push_back({.name = "x", .dtype = dtype, .shape = Shape({4})});
    fields_.push_back({.name = "n", .dtype = Dtype::i64, .shape = {}, .role = FieldRole::length, .of = "x"});
  }
  int64_t size() const override { return 3; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const int64_t length = key.epoch == 0 ? first : later;
    std::memset(slots[0], 0, 4 * dtype_bytes(fields_[0].dtype));
    std::memcpy(slots[1], &length, sizeof length);
  }
  SourceTraits traits() const override { return {.description = "said lengths"}; }
  int64_t first = 2, later = 2;

 private:
  std::vector<Field> fields_;
};

TEST_F(Packed, ChecksWhatASourceSaysOfItsLengths) {
  const auto said = [&](Dtype dtype, int64_t first, int64_t later, const std::string& more) {
    auto inner = std::make_shared<SaidLengths>(dtype);
    inner->first = first, inner->later = later;
    const LeafScope scope([&](const Config& config, const std::string& folder) -> SourcePtr {
      if (config.string("type") == "packed") return source_named("packed").open(config, folder);
      return inner;
    });
    try {
      const SourcePtr source = open(R"({"type":"packed","length":4,)" + more + documents() + "}");
      std::vector<std::vector<std::byte>> room;
      std::vector<std::byte*> slots;
      for (const Field& field : source->fields())
        slots.push_back(room.emplace_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype)).data());
      source->read({.index = 0, .epoch = 1}, slots);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  EXPECT_EQ(said(Dtype::i64, 2, 2, R"("next":"y",)"), "accepted");
  EXPECT_EQ(said(Dtype::f32, 2, 2, ""), "accepted");
  has(said(Dtype::f32, 2, 2, R"("next":"y",)"), "is what comes behind each token, and the field has none");
  for (const int64_t length : {int64_t{5}, int64_t{-1}, INT64_MAX}) {
    has(said(Dtype::i64, length, 2, ""), "the length is none of the field");
    has(said(Dtype::i64, 2, length, ""), "the length is none of the field");
  }
  has(said(Dtype::i64, 2, 3, ""), "put transforms that change a length behind packed, or leave packed out");
}

TEST_F(Packed, SaysWhatItCannotTake) {
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  const std::string begin = R"({"type":"packed","length":12,)";
  has(refusal(R"({"type":"packed","length":11,)" + documents() + "}"), "at least as much as the longest, or a source that cuts it");
  has(refusal(begin + R"("source":{"type":"arrays","x":[[1,2]]}})"),
      "a field whose source says how long it is: pg.data.documents { length = ... }");
  has(refusal(begin + R"("segments":"n",)" + documents() + "}"), "names a field that is there already");
  has(refusal(begin + R"("next":"next","source":{"type":"map","transforms":[{"type":"one_hot","field":"y"}],)" + documents() + "}}"),
      "has a field that cannot lie in a row of several sequences");
  std::string many = R"({"type":"arrays")";
  for (int i = 0; i < 64; ++i) many += ",\"f" + std::to_string(i) + "\":[[1,2]]";
  has(refusal(begin + R"("field":"f0","source":)" + many + "}}"), "has too many fields to be packed");
}

}  // namespace
}  // namespace perigee
