// Files of a few kilobytes that want gigabytes: each reader of tables refuses them, or reads them in parts, in less than 64 MB. The files were made
// by hostile/make_hostile.py with the libraries that usually write such formats.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <new>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/archive/tar.h"
#include "src/io/codec/compress.h"
#include "tests/io/temporary.h"

namespace {

std::atomic<int64_t> held{0}, peak{0};

void* counted(size_t bytes) {
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) return nullptr;
  const auto now = held.fetch_add(static_cast<int64_t>(malloc_usable_size(memory))) + static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t most = peak.load(); now > most && !peak.compare_exchange_weak(most, now);) {}
  return memory;
}

void* counted_or_throw(size_t bytes) {
  if (void* const memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}

void uncounted(void* memory) {
  if (memory != nullptr) held.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return counted_or_throw(bytes); }
void* operator new[](size_t bytes) { return counted_or_throw(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }

namespace perigee::tables {
namespace {

constexpr int64_t kMost = int64_t{64} << 20;

struct Outcome {
  int64_t rows = 0, peak = 0, chunks = 0;
  std::string error;
};

Outcome outcome_of(const std::string& path) {
  Outcome outcome;
  const int64_t before = held;
  peak = before;
  try {
    TableFile file(path, {});
    for (bool whole = false; !whole;) {
      outcome.rows = outcome.chunks = 0;
      whole =
          file.each([](TableFile::Chunk&) {}, [&](TableFile::Chunk& chunk) { outcome.rows += chunk.block.frame.rows, ++outcome.chunks; });
    }
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::data || error.kind() == ErrorKind::resources) << error.what();
    outcome.error = error.what();
  }
  outcome.peak = peak - before;
  return outcome;
}

// The messages about files that are refused, or whose chunks are.
const std::map<std::string, std::string> kTold = {
    {"rows.parquet", "a row group has far more rows than its bytes can have"},
    {"text_page.parquet", "a page has far more values than a file of this size would have"},
    {"prefixes.parquet", "the page has too much text"},
    {"words.parquet", "a row group has far more cells or text than a file of this size would have"},
    {"text.arrow", "the Arrow batch has a column that is far larger than a file of this size would have"},
    {"words.arrow", "a batch of the Arrow file has too much text"},
    {"quote.csv.zst", "a row does not end"},
    {"fields.csv.zst", "the first row is longer than 1 MiB"},
    {"mds", "the records are far larger than their file"}};

void expect_small(const std::string& path, const std::string& name) {
  const Outcome outcome = outcome_of(path);
  if (const auto told = kTold.find(name); told != kTold.end()) {
    EXPECT_NE(outcome.error.find(told->second), std::string::npos) << name << ": " << outcome.error;
  }
  EXPECT_LE(outcome.peak, kMost) << name << " took " << (outcome.peak >> 20) << " MiB; " << outcome.rows << " rows; " << outcome.error;
  if (std::getenv("PERIGEE_TELL") != nullptr)
    std::printf("%-20s %4d MiB %9d rows %5d chunks  %s\n", name.c_str(), static_cast<int>(outcome.peak >> 20),
                static_cast<int>(outcome.rows), static_cast<int>(outcome.chunks), outcome.error.c_str());
}

class Hostile : public testing::Test {
 protected:
  // All files of the archive.
  std::vector<std::string> unpack() const {
    const std::string path = PERIGEE_HOSTILE_FILES;
    const Bytes archive = unxz(read_file(path), path, uint64_t{1} << 30);
    std::vector<std::string> names;
    for (const TarEntry& entry : tar_entries(archive, path)) {
      const std::string name = entry.name.substr(entry.name.starts_with("./") ? 2 : 0);
      if (name.empty() || name.ends_with('/')) continue;
      write_file(folder_ / name, as_bytes(entry.content));
      names.push_back(name);
    }
    return names;
  }
  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

TEST_F(Hostile, FilesOfEachFormatTakeLittle) {
  const std::vector<std::string> names = unpack();
  EXPECT_GE(names.size(), 30u);
  for (const std::string& name : names)
    if (!name.starts_with("mds/")) expect_small(folder_ / name, name);
  expect_small(folder_ / "mds", "mds");
}

TEST_F(Hostile, WideTextsTakeLittle) {
  std::string attributes = "@relation w\n", rows, ones = "1";
  for (int i = 0; i < 20000; ++i) attributes += "@attribute a" + std::to_string(i) + " numeric\n";
  for (int i = 0; i < 20000; ++i) rows += "{0 1}\n";
  for (int i = 1; i < 40000; ++i) ones += ",1";
  write_file(folder_ / "wide.arff", as_bytes(attributes + "@data\n" + rows));
  rows.clear();
  for (int i = 0; i < 100; ++i) rows += "1 65535:1\n";
  write_file(folder_ / "wide.svm", as_bytes(rows));
  const std::string head =
      "@problemName w\n@timeStamps false\n@missing false\n@univariate true\n@equalLength false\n@classLabel false\n@data\n";
  rows.clear();
  for (int i = 0; i < 1000; ++i) rows += "1\n";
  write_file(folder_ / "wide.ts", as_bytes(head + rows + ones + "\n"));
  for (const char* name : {"wide.arff", "wide.svm", "wide.ts"}) expect_small(folder_ / name, name);
}

// Names of columns are paths of keys: of a long key with many others below it they would be far longer than the file.
TEST_F(Hostile, LongPathsTakeLittle) {
  const std::string key(4000, 'k'), longer(5000, 'k');
  std::string members, attributes;
  for (int i = 0; i < 50000; ++i)
    members += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1", attributes += " a" + std::to_string(i) + "=\"1\"";
  write_file(folder_ / "wide.json", as_bytes("[{\"" + key + "\": {" + members + "}}]"));
  write_file(folder_ / "long.json", as_bytes("[{\"" + longer + "\": {\"a\": 1}}]"));
  const std::string part(1000, 'k');  // keys of YAML are no longer
  write_file(folder_ / "wide.yaml", as_bytes("{" + part + ": {" + part + ": {" + part + ": {" + members + "}}}}"));
  write_file(folder_ / "wide.xml", as_bytes("<r><row><" + key + attributes + "/></row></r>"));
  write_file(folder_ / "long.xml", as_bytes("<r><row><" + longer + " a=\"1\"/></row></r>"));
  for (const char* name : {"wide.json", "long.json", "wide.yaml", "wide.xml", "long.xml"}) {
    const Outcome outcome = outcome_of(folder_ / name);
    EXPECT_NE(outcome.error.find(std::string(name).ends_with("xml") ? "far longer names of columns than a table has"
                                                                    : "far longer than names of columns"),
              std::string::npos)
        << name << ": " << outcome.error;
    EXPECT_LE(outcome.peak, kMost) << name;
  }
}

// Files that are good, and that other libraries write: their rows all come, in parts.
TEST_F(Hostile, RowsThatAreAllAlikeAreReadInParts) {
  unpack();
  for (const char* name : {"constant.parquet", "constant.arrow"}) {
    const Outcome outcome = outcome_of(folder_ / name);
    EXPECT_EQ(outcome.error, "") << name;
    EXPECT_EQ(outcome.rows, 1 << 20) << name;
    EXPECT_GT(outcome.chunks, 1) << name;
  }
  TableFile file(folder_ / "constant.parquet", {});
  int64_t right = 0;
  file.each([](TableFile::Chunk&) {},
            [&](TableFile::Chunk& chunk) {
              const Frame& frame = chunk.block.frame;
              for (int64_t r = 0; r < frame.rows; ++r)
                right += frame.columns[0].real[static_cast<size_t>(r)] == 0 && frame.columns[1].whole[static_cast<size_t>(r)] == 0 &&
                         frame.columns[2].text(r) == "a constant text of thirty bytes";
            });
  EXPECT_EQ(right, 1 << 20);
}

}  // namespace
}  // namespace perigee::tables
