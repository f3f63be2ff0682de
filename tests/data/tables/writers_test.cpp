// Tables are read again as they were written: every type, gaps, empty texts and lists, in one file and in several.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/write_table.h"
#include "src/io/file.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

// Rows of every type, some of them gaps; `first` numbers them.
Frame some_rows(int64_t first, int64_t count, bool lists) {
  Frame frame{.rows = count};
  Column whole(Type::integer), real(Type::real), text(Type::text), city(Type::category), when(Type::time), yes(Type::boolean),
      list(Type::list);
  for (int64_t r = first; r < first + count; ++r) {
    const bool gap = r % 7 == 3;
    gap ? whole.add_missing() : whole.add_whole(r * 1'000'003 - 5);
    gap ? real.add_missing() : real.add_real(std::sqrt(static_cast<double>(r)));
    gap ? text.add_missing() : text.add_text(r % 5 == 0 ? "" : "text " + std::to_string(r));
    gap ? city.add_missing() : city.add_whole(r % 3);
    gap ? when.add_missing() : when.add_whole(r * 86'400'123 - 1'000'000);
    gap ? yes.add_missing() : yes.add_whole(r % 2);
    if (gap) {
      list.add_missing();
    } else {
      for (int64_t i = 0; i < r % 4; ++i) list.items.push_back(static_cast<double>(r) + 0.5 * static_cast<double>(i));
      list.ends.push_back(list.items.size());
      if (!list.missing.empty()) list.missing.push_back(0);
    }
  }
  frame.add({.name = "whole", .type = Type::integer}, std::move(whole));
  frame.add({.name = "real", .type = Type::real}, std::move(real));
  frame.add({.name = "text", .type = Type::text}, std::move(text));
  frame.add({.name = "city", .type = Type::category, .categories = {"Oslo", "Rome", "Bern"}}, std::move(city));
  frame.add({.name = "when", .type = Type::time}, std::move(when));
  frame.add({.name = "yes", .type = Type::boolean}, std::move(yes));
  if (lists) frame.add({.name = "list", .type = Type::list}, std::move(list));
  return frame;
}

std::string all_text(const Frame& frame) {
  std::string text;
  for (int64_t r = 0; r < frame.rows; ++r)
    for (size_t c = 0; c < frame.columns.size(); ++c)
      text += (frame.columns[c].is_missing(r) ? "-" : cell_text(frame.columns[c], frame.schema.columns[c], r)) +
              (c + 1 == frame.columns.size() ? "\n" : "|");
  return text;
}

void write_rows(const std::string& path, bool lists, int64_t shard_rows = 0) {
  const auto writer = write_table(path, shard_rows);
  writer->add(some_rows(0, 700, lists));
  writer->add(some_rows(700, 300, lists));
  writer->finish();
}

Frame all(const std::string& path) { return TableFile(path, {}).all(); }

TEST(TableWriters, ParquetIsReadAgain) {
  const TemporaryFolder folder;
  write_rows(folder / "t.parquet", true);
  const Frame expected = some_rows(0, 1000, true), frame = all(folder / "t.parquet");
  ASSERT_EQ(frame.rows, 1000);
  ASSERT_EQ(frame.columns.size(), expected.columns.size());
  EXPECT_EQ(all_text(frame), all_text(expected));
  EXPECT_EQ(frame.schema.columns[4].type, Type::time);
  EXPECT_EQ(frame.schema.columns[6].type, Type::list);
}

TEST(TableWriters, ParquetHasSeveralRowGroups) {
  const TemporaryFolder folder;
  const auto writer = write_table(folder / "t.parquet");
  Frame frame{.rows = 300'000};
  Column number(Type::integer);
  for (int64_t r = 0; r < frame.rows; ++r) number.add_whole(r);
  frame.add({.name = "n", .type = Type::integer}, std::move(number));
  writer->add(frame);
  writer->finish();
  int64_t chunks = 0;
  TableFile file(folder / "t.parquet", {});
  file.each([](TableFile::Chunk&) {}, [&](TableFile::Chunk&) { ++chunks; });
  EXPECT_EQ(chunks, 3);
  EXPECT_EQ(file.all().columns[0].whole, frame.columns[0].whole);
}

TEST(TableWriters, CompressedTextIsReadAgain) {
  const TemporaryFolder folder;
  write_rows(folder / "t.csv", false);
  for (const char* name : {"t.csv.gz", "t.csv.zst"}) {
    write_rows(folder / name, false);
    EXPECT_EQ(all_text(all(folder / name)), all_text(all(folder / "t.csv"))) << name;
    EXPECT_LT(read_file(folder / name).size(), read_file(folder / "t.csv").size() / 2);
  }
  write_rows(folder / "t.jsonl.gz", true);
  EXPECT_EQ(all(folder / "t.jsonl.gz").rows, 1000);
}

TEST(TableWriters, ShardsHaveTheirRows) {
  const TemporaryFolder folder;
  write_rows(folder / "t.parquet", true, 400);
  Frame whole = all(folder / "t-00000.parquet");
  EXPECT_EQ(whole.rows, 400);
  for (const char* name : {"t-00001.parquet", "t-00002.parquet"}) whole.append(all(folder / name));
  EXPECT_EQ(all_text(whole), all_text(some_rows(0, 1000, true)));
  EXPECT_FALSE(file_exists(folder / "t-00003.parquet"));
}

TEST(TableWriters, TarIsReadAgain) {
  const TemporaryFolder folder;
  Frame frame{.rows = 2};
  Column key(Type::text), number(Type::integer), list(Type::list);
  for (const char* each : {"a/1", "a/2"}) key.add_text(each);
  number.whole = {3, 4};
  list.items = {0.5, 1.5, 2.5};
  list.ends = {2, 3};
  frame.add({.name = "key", .type = Type::text}, key);
  frame.add({.name = "cls", .type = Type::integer}, number);
  frame.add({.name = "x", .type = Type::list}, list);
  const auto writer = write_table(folder / "t.tar");
  writer->add(frame);
  writer->finish();
  EXPECT_EQ(all_text(all(folder / "t.tar")), "a/1|3|0.5 1.5\na/2|4|2.5\n");
  frame.columns[0].bytes = "../1a/2";
  frame.columns[0].ends = {4, 7};
  try {
    write_table(folder / "u.tar")->add(frame);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the key cannot name files of an archive; got '../1'"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(file_exists(folder / "u.tar") || file_exists(folder / "u.tar.part"));
}

}  // namespace
}  // namespace perigee::tables
