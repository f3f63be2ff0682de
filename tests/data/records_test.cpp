// Records: what is read is what was prepared, for any number of threads, compressed or not, after a kill; damage is found.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "src/data/records/prepare.h"
#include "src/data/transform.h"
#include "src/io/digest.h"
#include "src/io/npy.h"
#include "src/io/record/shard.h"
#include "src/io/record/shard_format.h"
#include "src/io/record/shard_writer.h"
#include "tests/data/fixtures.h"
#include "tests/io/pictures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

using records::prepare_records;
using records::prepared_part;
using records::PrepareOptions;

Json parse(const std::string& text) { return Json::parse(text, "test"); }
SourcePtr open_folder(const std::string& folder, const std::string& more = "") {
  return open_json(parse(R"({"type":"records","folder":")" + folder + "\"" + more + "}"));
}

std::string example(const DataSource& source, int64_t index, uint64_t epoch = 0) {
  std::vector<Bytes> values;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) values.emplace_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype));
  for (Bytes& each : values) slots.push_back(each.data());
  source.read({.index = index, .epoch = epoch, .seed = 7}, slots);
  std::string all;
  for (const Bytes& each : values) all += as_text(each);
  return all;
}

void expect_same(const DataSource& a, const DataSource& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.fields().size(), b.fields().size());
  for (size_t f = 0; f < a.fields().size(); ++f) {
    EXPECT_EQ(a.fields()[f].name, b.fields()[f].name);
    EXPECT_EQ(a.fields()[f].shape, b.fields()[f].shape);
    EXPECT_EQ(a.fields()[f].dtype, b.fields()[f].dtype);
    EXPECT_EQ(a.fields()[f].class_names, b.fields()[f].class_names);
    EXPECT_EQ(a.fields()[f].role, b.fields()[f].role);
    EXPECT_EQ(a.fields()[f].of, b.fields()[f].of);
  }
  for (int64_t i = 0; i < a.size(); ++i) ASSERT_EQ(example(a, i), example(b, i)) << "example " << i;
}

std::string bytes_in(const std::string& folder) {
  std::string all;
  for (int64_t i = 0; file_exists(folder + "/" + records::shard_name(i)); ++i)
    all += as_text(read_file(folder + "/" + records::shard_name(i)));
  return all + std::string(as_text(read_file(folder + "/records.json")));
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Records, AreTheExamplesOfEverySource) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  int prepared = 0;
  for (const auto& [type, description] : source_examples(folder.path())) {
    if (description.is_null() || type == "host" || type == "mnist") continue;
    SCOPED_TRACE(type);
    const SourcePtr source = open_json(description, folder.path());
    const std::string out = folder / ("of-" + type);
    // Digits, and which words are hidden, are drawn anew in each epoch.
    if (description.dump().find("digits") != std::string::npos || type == "masked_lm" || type == "packed") {
      EXPECT_NE(message_of([&, &job = description] { prepare_records(*source, job, out, {}); }).find("others in each epoch"),
                std::string::npos);
      continue;
    }
    for (const int level : {0, 3}) {
      const std::string here = out + std::to_string(level);
      prepare_records(*source, description, here, {.level = level});
      const SourcePtr found = open_folder(here);
      expect_same(*source, *found);
      EXPECT_TRUE(found->traits().fixed);
    }
    ++prepared;
  }
  EXPECT_GE(prepared, 12);
}

// `count` examples of 784 numbers and a label, in a file.
Json numbers_source(const TemporaryFolder& folder, int64_t count) {
  Tensor x(Dtype::f32, {count, 784}), y(Dtype::i64, {count});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i * 7919 % 1009) / 64;
  for (int64_t i = 0; i < count; ++i) y.data<int64_t>()[i] = i % 10;
  const std::string name = folder / std::to_string(count);
  write_file(name + "x.npy", npy_bytes(x));
  write_file(name + "y.npy", npy_bytes(y));
  return parse(R"({"type":"npy","x":")" + name + R"(x.npy","y":")" + name + R"(y.npy"})");
}

TEST(Records, HaveTheSameBytesForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const Json description = numbers_source(folder, 700);
  const SourcePtr source = open_json(description);
  for (const int level : {0, 1}) {
    std::string first;
    for (const int threads : {1, 2, 5}) {
      const std::string out = folder / (std::to_string(level) + "-" + std::to_string(threads));
      const auto made = prepare_records(*source, description, out, {.threads = threads, .level = level, .shard_records = 150});
      EXPECT_EQ(made.shards, 5);
      if (first.empty()) first = bytes_in(out);
      EXPECT_EQ(first, bytes_in(out));
      expect_same(*source, *open_folder(out));
    }
  }
}

// As a kill leaves it: some files whole, one half written, no list of them.
TEST(Records, GoOnAfterAKill) {
  const TemporaryFolder folder;
  const Json description = numbers_source(folder, 700);
  const SourcePtr source = open_json(description);
  const std::string whole = folder / "whole", killed = folder / "killed";
  const PrepareOptions options{.shard_records = 100};
  prepare_records(*source, description, whole, options);
  prepare_records(*source, description, killed, options);
  std::filesystem::remove(killed + "/records.json");
  std::filesystem::remove(killed + "/00003.pgr");
  std::filesystem::remove(killed + "/00006.pgr");
  write_file(killed + "/00003.pgr.part", as_bytes("half of"));
  EXPECT_NE(message_of([&] { open_folder(killed); }).find("the preparation of these records has not ended"), std::string::npos);
  const auto made = prepare_records(*source, description, killed, options);
  EXPECT_EQ(made.kept, 5);
  EXPECT_EQ(bytes_in(whole), bytes_in(killed));
  EXPECT_EQ(prepare_records(*source, description, killed, options).kept, 7) << "nothing is left to do";
  // Other data into the same folder.
  const Json other = numbers_source(folder, 701);
  EXPECT_NE(message_of([&] { prepare_records(*open_json(other), other, killed, options); }).find("records of another preparation"),
            std::string::npos);
  // A file of other records in its place.
  const std::string elsewhere = folder / "elsewhere";
  prepare_records(*open_json(other), other, elsewhere, options);
  std::filesystem::copy_file(elsewhere + "/00001.pgr", killed + "/00001.pgr", std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(message_of([&] { open_folder(killed); }).find("is none of those that"), std::string::npos);
  EXPECT_NE(message_of([&] { prepare_records(*source, description, killed, options); }).find("is of another preparation"),
            std::string::npos);
}

TEST(Records, KeepRecordingsAsTheirFilesAre) {
  const TemporaryFolder folder;
  const Json description = source_examples(folder.path()).at("audio");
  const SourcePtr source = open_json(description, folder.path());
  for (const int level : {0, 9}) {
    const std::string out = folder / ("sound" + std::to_string(level));
    prepare_records(*source, description, out, {.level = level, .encoded = true});
    const SourcePtr found = open_folder(out);
    EXPECT_TRUE(found->traits().fixed);
    expect_same(*source, *found);
  }
  EXPECT_NE(message_of([&] { open_folder(folder / "sound0", R"(,"size":3)"); }).find("these records hold recordings"), std::string::npos);
  const std::string list = folder / "sound0/records.json";
  Json json = parse(std::string(as_text(read_file(list))));
  json.set("rate", int64_t{0});
  write_file(list, as_bytes(json.dump()));
  const std::string message = message_of([&] { open_folder(folder / "sound0"); });
  EXPECT_NE(message.find("the records of recordings do not say their rate and length"), std::string::npos) << message;
}

TEST(Records, KeepPicturesAsTheirFilesAre) {
  const TemporaryFolder folder;
  source_examples(folder.path());
  const Json description = parse(R"({"type":"images","folder":"pets","size":[6,7],"fit":"random"})");
  const SourcePtr source = open_json(description, folder.path());
  EXPECT_NE(message_of([&] { prepare_records(*source, description, folder / "no", {}); }).find("--encoded keeps pictures"),
            std::string::npos);
  for (const int level : {0, 9}) {
    const std::string out = folder / ("out" + std::to_string(level));
    prepare_records(*source, description, out, {.level = level, .encoded = true});
    const SourcePtr found = open_folder(out);
    EXPECT_FALSE(found->traits().fixed);
    for (int64_t i = 0; i < source->size(); ++i)
      for (const uint64_t epoch : {0, 1}) EXPECT_EQ(example(*source, i, epoch), example(*found, i, epoch)) << "the same part is drawn";
    const SourcePtr middle = open_folder(out, R"(,"fit":"crop","size":9)");
    EXPECT_EQ(middle->fields()[0].shape, Shape({3, 9, 9}));
    expect_same(*open_json(parse(R"({"type":"images","folder":"pets","size":9,"fit":"crop"})"), folder.path()), *middle);
  }
  const Json arrays = parse(R"({"type":"arrays","x":[[1],[2]],"y":[0,1]})");
  EXPECT_NE(
      message_of([&] { prepare_records(*open_json(arrays), arrays, folder / "no", {.encoded = true}); }).find("not made of encoded files"),
      std::string::npos);
  prepare_records(*open_json(arrays), arrays, folder / "numbers", {});
  EXPECT_NE(message_of([&] { open_folder(folder / "numbers", R"(,"size":3)"); }).find("these records hold arrays"), std::string::npos);
}

// The part of a chain that is the same in each epoch is stored; the rest goes on around the records.
TEST(Records, AreCutBeforeWhatDraws) {
  const Json leaf = parse(R"({"type":"records","folder":"out"})");
  const auto around = [&](const std::string& text, bool encoded = false) { return prepared_part(parse(text), leaf, encoded); };
  const std::string digits = R"({"type":"digits","size":9})";
  const auto map = [](const std::string& source, const std::string& transforms) {
    return R"({"type":"map","source":)" + source + R"(,"transforms":[)" + transforms + "]}";
  };
  const std::string scale = R"({"type":"scale","factor":2})", flip = R"({"type":"flip"})",
                    still = R"({"type":"crop","size":3,"random":false})";
  auto part = around(map(digits, scale + "," + still + "," + flip + "," + scale));
  EXPECT_EQ(part.stored, parse(map(digits, scale + "," + still)));
  EXPECT_EQ(part.around, parse(map(leaf.dump(), flip + "," + scale)));
  part = around(R"({"type":"take","count":3,"source":)" + map(digits, scale) + "}");
  EXPECT_EQ(part.around, leaf) << "all of it is the same in each epoch";
  part = around(R"({"type":"take","count":3,"source":)" + map(digits, flip) + "}");
  EXPECT_EQ(part.stored, parse(digits));
  EXPECT_EQ(part.around, parse(R"({"type":"take","count":3,"source":)" + map(leaf.dump(), flip) + "}"));
  part = around(R"({"type":"mixup","source":)" + map(digits, scale) + "}");
  EXPECT_EQ(part.stored, parse(map(digits, scale)));
  part = around(map(digits, scale), true);
  EXPECT_EQ(part.stored, parse(digits));
  EXPECT_EQ(part.around, parse(map(leaf.dump(), scale)));
  EXPECT_NE(message_of([&] {
              around(R"({"type":"concat","sources":[)" + map(digits, flip) + "," + digits + "]}");
            }).find("cannot be prepared together"),
            std::string::npos);
}

TEST(Records, TellWhatTheyWereMadeFrom) {
  const TemporaryFolder folder;
  const Json description = parse(R"({"type":"map","source":{"type":"arrays","x":[[1,5],[3,5],[5,5]],"y":[0,1,1]},
    "transforms":[{"type":"standardize"}]})");
  const SourcePtr source = open_json(description);
  prepare_records(*source, with_fitted(description, source->traits().fitted), folder / "out", {});
  const Json fitted = parse(open_folder(folder / "out")->traits().fitted.dump());
  const Json made =
      records::with_prepared(with_fitted(parse(R"({"type":"take","count":1,"source":{"type":"records","folder":"gone"}})"), fitted));
  EXPECT_EQ(made.find("source")->find("transforms")->as_array()[0].find("fitted")->find("mean")->dump(), "[3.0,5.0]");
  EXPECT_EQ(*made.find("source")->find("source"), parse(R"({"type":"arrays"})")) << "numbers are not kept twice";
  const Json manifest = parse(std::string(as_text(read_file(folder / "out/records.json"))));
  EXPECT_EQ(manifest.find("statistics")->as_array()[1].find("classes")->dump(), "[1,2]");
  EXPECT_NEAR(manifest.find("statistics")->as_array()[0].find("mean")->as_number(), 0, 1e-7);
}

void write_quickly(const std::string& path, std::span<const std::byte> bytes) { write_file(path, std::span(&bytes, 1), false); }

// Every byte changed, and every length: damage is an Error, or changes nothing that is read.
TEST(Records, DamageIsFound) {
  const TemporaryFolder folder;
  const Json description = parse(R"({"type":"arrays","x":[[1,2],[3,4],[5,6],[7,9]],"y":[0,1,1,2]})");
  const SourcePtr source = open_json(description);
  int found = 0;
  std::string said;
  for (const int level : {0, 19}) {
    const std::string out = folder / std::to_string(level), path = out + "/00000.pgr";
    prepare_records(*source, description, out, {.level = level});
    const Bytes whole = read_file(path);
    for (size_t i = 0; i < whole.size(); i += i >= 16 && i < 4000 ? 97 : 1) {
      Bytes changed = whole;
      changed[i] ^= std::byte{0x40};
      write_quickly(path, changed);
      try {
        expect_same(*source, *open_folder(out));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data);
        said += error.what();
        ++found;
      }
    }
    for (size_t size = 0; size < whole.size(); size += 13) {
      write_quickly(path, std::span(whole).first(size));
      EXPECT_THROW(open_folder(out), Error) << size;
    }
  }
  EXPECT_GT(found, 1000);
  for (const char* each : {"block 0 of the record file is damaged", "the record file's table or footer is damaged",
                           "the record file's tail does not fit its size", "the record file has another version"})
    EXPECT_NE(said.find(each), std::string::npos) << each;
  EXPECT_NE(message_of([&] { open_folder(folder / "0"); }).find("the record file is cut short"), std::string::npos);
  write_file(folder / "0/00000.pgr", as_bytes(std::string(5000, 'x')));
  EXPECT_NE(message_of([&] { open_folder(folder / "0"); }).find("is no record file"), std::string::npos);
}

// A file that is well made and lies: labels that are no class, pieces that overlap.
TEST(Records, LiesAreFound) {
  const TemporaryFolder folder;
  const records::ShardLayout layout{.per_block = 4, .stride = 8, .variable = 0};
  records::BlockBuilder builder(layout, 0);
  const int64_t label = 5;
  std::memcpy(builder.add_row(), &label, sizeof label);
  std::filesystem::create_directories(folder / "out");
  records::ShardWriter writer(folder / "out/00000.pgr", layout);
  writer.add(builder.encode());
  const uint64_t hash = writer.finish(1, Json::object());
  write_file(folder / "out/records.json",
             as_bytes(R"({"format":1,"records":1,"per_shard":4,"fields":[{"name":"y","dtype":"i64","shape":[],"classes":3}],"shards":[")" +
                      hex_digest(hash) + R"("]})"));
  const SourcePtr source = open_folder(folder / "out");
  EXPECT_NE(message_of([&] { example(*source, 0); }).find("the label 'y' is out of range"), std::string::npos);
}

// A file whose hashes are right and whose numbers are not: `change` gets a sound one, the place of its table and that of its tail.
std::string shard_said(const std::string& path, const std::function<void(Bytes&, size_t, size_t)>& change) {
  using namespace records::format;
  const records::ShardLayout layout{.per_block = 4, .stride = 8, .variable = 1};
  records::BlockBuilder builder(layout, 0);
  builder.add_row();
  builder.add_piece(as_bytes("piece"));
  records::ShardWriter writer(path, layout);
  writer.add(builder.encode());
  writer.finish(1, Json::object());
  Bytes file = read_file(path);
  const size_t tail = file.size() - kTail, table = number_at(file.data() + tail);
  change(file, table, tail);
  const uint64_t offset = number_at(file.data() + table), stored = number_at(file.data() + table + 8);
  if (offset <= table && stored <= table - offset) put_number(file.data() + table + 24, xxh3_64(std::span(file).subspan(offset, stored)));
  put_number(file.data() + tail + 32, xxh3_64(std::span(file).subspan(table, tail - table)));
  return message_of([&] {
    const records::Shard shard("a.pgr", file);
    Bytes memory;
    shard.block(0, memory);
    shard.block(0);
  });
}

TEST(Records, NumbersThatDoNotFitTogetherAreFound) {
  using namespace records::format;
  const TemporaryFolder folder;
  const std::string path = folder / "a.pgr";
  const auto footer = [](Bytes& file, const std::string& from, const std::string& to) {
    const size_t at = as_text(file).find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::memcpy(file.data() + at, to.data(), to.size());
  };
  EXPECT_EQ(shard_said(path, [](Bytes&, size_t, size_t) {}), "nothing was thrown");
  const std::string remedy = "; delete the file and run `perigee data prepare` again: it makes what is not there";
  const auto expect = [&](const std::string& said, const std::string& text) {
    EXPECT_NE(said.find(text), std::string::npos) << said;
    EXPECT_TRUE(said.starts_with("a.pgr: ")) << said;
  };
  expect(shard_said(path, [&](Bytes& file, size_t, size_t) { footer(file, "\"stride\":8", "\"stride\":7"); }),
         "footer: 'stride' is no multiple of 8; got 7");
  expect(shard_said(path, [&](Bytes& file, size_t, size_t) { footer(file, "\"records\":1", "\"records\":9"); }),
         "the record file has another number of blocks than its records need" + remedy);
  expect(shard_said(path, [&](Bytes& file, size_t table, size_t) { put_number(file.data() + table, 4097); }),
         "block 0 of the record file does not lie in it" + remedy);
  expect(shard_said(path, [&](Bytes& file, size_t table, size_t) { put_number(file.data() + number_at(file.data() + table) + 8, 1); }),
         "block 0 of the record file has pieces that do not fit it" + remedy);
}

double cpu_seconds(const std::function<void()>& work) {
  timespec a{}, b{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  work();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  return static_cast<double>(b.tv_sec - a.tv_sec) + static_cast<double>(b.tv_nsec - a.tv_nsec) * 1e-9;
}

// Pieces as large as a photograph of 500 x 375, in random order, copied as a decoder's input would be.
TEST(Records, OfEncodedPicturesAreReadFast) {
  const TemporaryFolder folder;
  const records::ShardLayout layout{.per_block = 16, .stride = 8, .variable = 1};
  records::ShardWriter writer(folder / "a.pgr", layout);
  records::BlockBuilder builder(layout, 0);
  Bytes piece(47000), copy(47000);
  for (int block = 0; block < 100; ++block) {
    builder.clear();
    for (int i = 0; i < 16; ++i) {
      piece[0] = static_cast<std::byte>(i);
      builder.add_row();
      builder.add_piece(piece);
    }
    writer.add(builder.encode());
  }
  writer.finish(1600, Json::object());
  const records::Shard shard(folder / "a.pgr");
  double seconds = 1e9;
  for (int turn = 0; turn < 5; ++turn)
    seconds = std::min(seconds, cpu_seconds([&] {
                         for (int64_t i = 0; i < 1600; ++i) {
                           const int64_t record = i * 7919 % 1600;
                           const std::span<const std::byte> found = shard.block(record / 16).piece(record % 16, 0);
                           std::copy(found.begin(), found.end(), copy.begin());
                           ASSERT_EQ(copy[0], static_cast<std::byte>(record % 16));
                         }
                       }));
  std::printf("[ figure  ] %.0f encoded pictures/s of CPU time\n", 1600 / seconds);
  EXPECT_GT(1600 / seconds, 5000);
}

// A folder whose second field is a piece.
void write_pieces(const std::string& folder) {
  const records::ShardLayout layout{.per_block = 4, .stride = 8, .variable = 1};
  records::BlockBuilder builder(layout, 0);
  builder.add_row();
  builder.add_piece(as_bytes("abc"));
  std::filesystem::create_directories(folder);
  records::ShardWriter writer(folder + "/00000.pgr", layout);
  writer.add(builder.encode());
  const std::string hash = hex_digest(writer.finish(1, Json::object()));
  write_file(folder + "/records.json", as_bytes(R"({"format":1,"records":1,"per_shard":4,"fields":[{"name":"n","dtype":"i64","shape":[]},)"
                                                R"({"name":"x","dtype":"f32","shape":[],"encoded":true}],"shards":[")" +
                                                hash + R"("]})"));
}

// The message that `work` is refused with has this in it.
void expect_refusal(const std::string& text, const std::function<void()>& work) {
  const std::string message = message_of(work);
  EXPECT_NE(message.find(text), std::string::npos) << message;
}

TEST(Records, APreparationSaysWhatItRefuses) {
  const TemporaryFolder folder;
  const Json few = parse(R"({"type":"arrays","x":[[1],[2]],"y":[0,1]})"), digits = parse(R"({"type":"digits","size":9})");
  const auto prepare = [&](const Json& json, const std::string& out, PrepareOptions options = {}) {
    prepare_records(*open_json(json, folder.path()), json, folder / out, options);
  };
  expect_refusal("--encoded keeps pictures as they are, and training draws from them; else leave out what draws",
                 [&] { prepare(digits, "a"); });
  expect_refusal("the examples of this source are not made of encoded files", [&] { prepare(few, "a", {.encoded = true}); });
  write_file(folder / "t.txt", as_bytes(std::string(200, 'x') + std::string(200, 'y')));
  expect_refusal("these examples go on from one to the next, or appear while a program runs",
                 [&] { prepare(parse(R"({"type":"text","file":"t.txt","context":6,"streams":4})"), "a"); });
  prepare(few, "b", {.shard_records = 1});
  expect_refusal("the folder holds records of another preparation", [&] { prepare(few, "b", {.level = 2}); });
  std::filesystem::remove(folder / "b/plan.json");
  expect_refusal("the folder holds records without a plan", [&] { prepare(few, "b"); });
  prepare(few, "c", {.shard_records = 1});
  std::filesystem::copy_file(folder / "c/00000.pgr", folder / "c/00001.pgr", std::filesystem::copy_options::overwrite_existing);
  expect_refusal("the record file is of another preparation", [&] { prepare(few, "c", {.shard_records = 1}); });
  expect_refusal("prepare the data again, into an empty folder", [&] { open_folder(folder / "c"); });
  expect_refusal("that draw, or are kept encoded, cannot be prepared together",
                 [&] { prepared_part(parse(R"({"type":"concat","sources":[{"type":"digits"}]})"), parse("{}"), true); });
  std::filesystem::remove(folder / "c/records.json");
  expect_refusal("run the same `perigee data prepare` again: it goes on where it was", [&] { open_folder(folder / "c"); });
  expect_refusal("the folder has no prepared records", [&] { open_folder(folder / "nothing"); });
  prepare(few, "d");
  expect_refusal("`perigee data prepare --encoded` keeps pictures as they are", [&] { open_folder(folder / "d", R"(,"fit":"crop")"); });
}

TEST(Records, APreparationHasBounds) {
  const TemporaryFolder folder;
  const Json many = parse(R"({"type":"digits","size":2000000,"endless":false})"),
             few = parse(R"({"type":"arrays","x":[[1],[2]],"y":[0,1]})");
  expect_refusal("more records in each: --shard-records",
                 [&] { prepare_records(*open_json(many), many, folder / "a", {.shard_records = 1}); });
  expect_refusal("an example is too large", [&] {
    records::lay_out({{.name = "x", .dtype = Dtype::f32, .shape = {1 << 20, 1 << 12}}}, false);
  });
  prepare_records(*open_json(few), few, folder / "b", {});
  const int lock = ::open((folder / "b/plan.lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  expect_refusal("another process prepares records here", [&] { prepare_records(*open_json(few), few, folder / "b", {}); });
  ::close(lock);
}

TEST(Records, AListOfRecordsIsChecked) {
  const TemporaryFolder folder;
  const Json few = parse(R"({"type":"arrays","x":[[1],[2]],"y":[0,1],"class_names":["a","b"]})");
  prepare_records(*open_json(few), few, folder / "a", {});
  const std::string path = folder / "a/records.json", whole(as_text(read_file(path)));
  const auto changed = [&](const char* key, const std::string& value) {
    Json json = parse(whole);
    json.set(key, parse("[" + value + "]").as_array()[0]);
    write_file(path, as_bytes(json.dump()));
    open_folder(folder / "a");
  };
  const std::string field = R"({"name":"x","dtype":"f32","shape":[1]})";
  expect_refusal("prepare the data again with this program", [&] { changed("format", "2"); });
  expect_refusal("are not as many as the records need", [&] { changed("shards", "[]"); });
  expect_refusal("are not as many as the records need", [&] { changed("records", "1000000000000"); });
  expect_refusal("has an empty dimension", [&] { changed("fields", R"([{"name":"x","dtype":"f32","shape":[0]}])"); });
  expect_refusal("is no shape", [&] { changed("fields", R"([{"name":"x","dtype":"f32","shape":[9223372036854775807,4]}])"); });
  expect_refusal("the fields are too large", [&] { changed("fields", R"([{"name":"x","dtype":"f32","shape":[4294967296]}])"); });
  expect_refusal("the fields must be a list", [&] { changed("fields", "3"); });
  expect_refusal("two fields have one name", [&] { changed("fields", "[" + field + "," + field + "]"); });
  expect_refusal("are not as many as the classes",
                 [&] { changed("fields", R"([{"name":"x","dtype":"i64","shape":[],"classes":3,"class_names":["a"]}])"); });
  expect_refusal("is none of those that", [&] { changed("fields", "[" + field + "]"); });
  expect_refusal("only the first field may be encoded", [&] {
    write_pieces(folder / "pieces");
    open_folder(folder / "pieces");
  });
  write_file(path, as_bytes(whole));
  expect_refusal("has no fields", [&] { open_folder(folder / "a", R"(,"fitted":{"type":"records"})"); });
  expect_refusal("prepare both parts from one job, so that they have the same classes", [&] {
    open_folder(folder / "a", R"(,"fitted":{"fields":[{"name":"y","dtype":"i64","shape":[],"classes":2,"class_names":["a","c"]}]})");
  });
}

// Figures of the machine at hand: pages in memory, one thread.
TEST(Records, AreReadFast) {
  const TemporaryFolder folder;
  const Json description = numbers_source(folder, 20000);
  prepare_records(*open_json(description), description, folder / "out", {.threads = 2});
  const auto begin = std::chrono::steady_clock::now();
  const SourcePtr source = open_folder(folder / "out");
  const double opened = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LT(opened, 50) << "ms until the first example may be read";
  std::vector<float> x(784);
  int64_t y = 0;
  std::byte* slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y)};
  double seconds = 1e9;
  for (int turn = 0; turn < 5; ++turn)
    seconds = std::min(seconds, cpu_seconds([&] {
                         for (int64_t i = 0; i < source->size(); ++i) source->read({.index = i * 7919 % source->size()}, slots);
                       }));
  const double rate = static_cast<double>(source->size()) * 784 * 4 / seconds / 1e9;
  std::printf("[ figure  ] open %.2f ms; f32 fields in random order %.1f GB/s of CPU time\n", opened, rate);
  EXPECT_GT(rate, 0.5);
}

}  // namespace
}  // namespace perigee
