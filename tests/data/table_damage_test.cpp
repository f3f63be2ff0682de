// Damaged tables of other programs: each file is one of the fuzz corpus with a few bytes that are others, and each text of a reader comes up. That
// no damage crashes is for tests/fuzz.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "src/core/error.h"
#include "src/data/table/columnar/columnar.h"
#include "src/data/table/columnar/parquet/parquet_file.h"
#include "src/data/table/columnar/records/mds.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/file.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

// `bytes` take the place of those at `at`; without any the file ends there.
struct Damage {
  const char* file;
  size_t at;
  std::string_view bytes;
  const char* said;
};

std::string corpus(const std::string& folder, const char* file) {
  const Bytes bytes = read_file(std::string(PERIGEE_ROOT "/tests/fuzz/corpus/") + folder + "_fuzz/" + file);
  return std::string(as_text(bytes));
}

// All that is said while each column of each chunk is read.
std::string said_of(const std::string& bytes, const std::string& folder, const std::string& part = "") {
  std::string said;
  const auto note = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::data || error.kind() == ErrorKind::resources) << error.what();
      EXPECT_TRUE(error.parts().where.starts_with("input")) << "no place: " << error.what();
      said += std::string(error.what()) + "\n";
    }
  };
  note([&] {
    const auto file = folder == "mds" ? open_mds_shard("input", bytes)
                                      : open_columnar_content(folder == "arrays" ? "input.npz" : "input", part, as_bytes(bytes));
    if (file == nullptr) return;
    for (size_t c = 0; c < file->schema().columns.size(); ++c)
      for (int64_t chunk = 0; chunk < file->chunks() && file->refusal(c).empty(); ++chunk)
        note([&] {
          const size_t one[] = {c};
          file->read(chunk, one);
        });
  });
  return said;
}

void expect_said(const std::string& said, const std::string& text) {
  EXPECT_NE(said.find(text), std::string::npos) << said << "expected: " << text;
}

// Each says where and what is wrong, and what helps.
template <size_t n>
void expect_told(const Damage (&list)[n], const std::string& folder) {
  for (const Damage& damage : list) {
    std::string bytes = corpus(folder, damage.file);
    if (damage.bytes.empty()) bytes.resize(damage.at);
    else bytes.replace(damage.at, damage.bytes.size(), damage.bytes);
    const std::string said = said_of(bytes, folder);
    SCOPED_TRACE(damage.file);
    expect_said(said, damage.said);
    const size_t at = std::min(said.find(damage.said), said.size());
    EXPECT_NE(said.substr(at, said.find('\n', at) - at).find("; "), std::string::npos) << "no remedy: " << said;
  }
}

constexpr Damage kParquet[] = {
    {"p0", 70, "\x05"sv, "the column's pages lead out of the file"},
    {"p12", 74, "\xff\xff\xff\xff"sv, "the Parquet metadata have a number that does not end"},
    {"p13", 4, {}, "the Parquet file is cut short: its end is missing"},
    {"p13", 274, "\xff\xff\xff\xff"sv, "the Parquet metadata have a type that there is not"},
    {"p13", 277, "\x0c"sv, "the Parquet metadata are cut short"},
    {"p13", 279, "\x1a"sv, "the Parquet metadata have row groups and no schema before them"},
    {"p13", 280, "\x0c"sv, "the Parquet schema is no tree"},
    {"p13", 280, "\x00"sv, "the Parquet metadata have a list of another kind"},
    {"p13", 280, "\xff\xff\xff\xff"sv, "the Parquet metadata have a list that leads out of them"},
    {"p13", 281, "\x01"sv, "a row group of the Parquet file has another number of columns"},
    {"p13", 282, "\x01"sv, "the Parquet schema has a repetition that there is not"},
    {"p13", 284, "\x80"sv, "the Parquet metadata have a text that leads out of them"},
    {"p13", 293, "\x00\x00\x00\x00"sv, "the Parquet schema has a type that there is not"},
    {"p13", 295, "\x00"sv, "the Parquet schema has a decimal of a type that it cannot have"},
    {"p13", 357, "\x00\x00\x01\x00"sv, "a row group of the Parquet file has no columns"},
    {"p13", 357, "\x00\x00\x01\x00"sv, "the Parquet file has no columns"},
    {"p13", 365, "\x00"sv, "a column of the Parquet file has no metadata: it may be encrypted, which is not read"},
    {"p13", 371, "\xb5"sv, "a column of the Parquet file does not lie in it"},
    {"p13", 384, "\x01"sv, "the Parquet file has a compression that there is not"},
    {"p13", 584, "\x3b"sv, "the Parquet metadata have a map that leads out of them"},
    {"p13", 593, "\xff\xff\xff\xff"sv, "the Parquet metadata do not lie in the file"},
    {"p14", 268, "\x95"sv, "the page has fewer values than it says"},
    {"p14", 338, "\x03\x00\x00\x00"sv, "columns of the Parquet file lie in another file, which is not read"},
    {"p18", 4, "\x05"sv, "a page of the Parquet file has a negative size"},
    {"p18", 4, "\x01"sv, "the page needs a dictionary, and there is none"},
    {"p18", 5, "\x00\x00\x00\x00"sv, "the Parquet metadata have a type that there is not"},
    {"p18", 9, "\x80"sv, "the page leads out of the file"},
    {"p18", 10, "\x08"sv, "the page has a place beyond its dictionary"},
    {"p18", 11, "\x05"sv, "the dictionary has an encoding that it cannot have"},
    {"p18", 37, "\x80"sv, "the page ends inside its levels"},
    {"p18", 39, "\x08"sv, "the page's levels lead out of it"},
    {"p18", 39, "\x0c"sv, "the page has places in a dictionary of more than 32 bits"},
    {"p18", 42, "\x02"sv, "the column has more values than it says"},
    {"p18", 44, "\x01"sv, "the page has an encoding that its type cannot have"},
    {"p18", 47, "\x00\x00\x01\x00"sv, "the page ends inside a run"},
    {"p18", 107, "\x01"sv, "the page has an empty run"},
    {"p18", 159, "\x00"sv, "the column has another number of values than the row group has rows"},
    {"p19", 133, "\x01"sv, "the page ends inside a number"},
    {"p19", 166, "\x06"sv, "the page is compressed by LZO, which is not read"},
    {"p20", 14, "\x0c"sv, "the page has deltas in blocks that there cannot be"},
    {"p20", 118, "\x01"sv, "the page ends inside a text"},
    {"p24", 98, "\x02"sv, "the page has a level beyond the column's"},
    {"p7", 8, "\xff\xff\xff\x7f"sv, "a page has far more values than a file of this size would have"},
    {"p7", 127, "\x80"sv, "the page goes on with a list that has not begun"},
    {"p7", 128, "\x00"sv, "the column's lists are not as many as the row group has rows"},
    {"p7", 165, "\xff\xff\xff\xff"sv, "the page has an unsigned number beyond 2^63, which a column cannot have"},
};

TEST(DamagedTables, ParquetSaysWhatIsWrong) { expect_told(kParquet, "columnar"); }

constexpr Damage kArrow[] = {
    {"a10", 53, "\x00\x00\x00\x00"sv, "the Arrow batch has an unsigned number beyond 2^63, which a column cannot have"},
    {"a10", 276, "\x0b"sv, "the Arrow batch has a list that leads out of its elements"},
    {"a17", 180, "\x08"sv, "the Arrow file has a place beyond its dictionary"},
    {"a28", 8, "\x03"sv, "the Arrow metadata have a table before their message"},
    {"a28", 9, {}, "the Arrow file is cut short"},
    {"a28", 14, "\x08"sv, "the Arrow metadata lack a part"},
    {"a28", 16, {}, "an Arrow message leads out of the file"},
    {"a28", 37, "\xff\xff\xff\x7f"sv, "the Arrow file has numbers in big-endian order, which are not read"},
    {"a28", 42, "\x08"sv, "the Arrow metadata have a list that leads out of them"},
    {"a28", 75, "\x05"sv, "a buffer of the Arrow batch has fewer bytes than its rows need"},
    {"a28", 115, "\x05"sv, "the Arrow batch has fewer buffers than its columns need"},
    {"a28", 115, "\x05"sv, "the Arrow batch has a column that is far larger than a file of this size would have"},
    {"a28", 160, "\x08"sv, "the Arrow batch has a place before its dictionary"},
    {"a28", 217, "\xff\xff\xff\xff"sv, "a buffer of the Arrow batch has a negative size"},
    {"a28", 240, "\x01"sv, "the Arrow batch has fewer columns than its schema"},
    {"a28", 242, "\x0d"sv, "a buffer of the Arrow batch leads out of its body"},
    {"a28", 247, "\x00\x00\x01\x00"sv, "the Arrow file has two schemas"},
    {"a28", 269, "\xff\xff\xff\x7f"sv, "a column of the Arrow batch has another number of rows than it"},
    {"a28", 270, "\x00\x00\x01\x00"sv, "the Arrow batch has far more rows than its bytes can have"},
    {"a28", 305, "\xff\xff\xff\xff"sv, "the Arrow batch has a compression that there is not"},
    {"a28", 326, "\x00\x00\x01\x00"sv, "a compressed buffer of the Arrow batch has no size"},
    {"a28", 472, {}, "the body of an Arrow message leads out of the file"},
    {"a4", 228, "\x0b"sv, "body at byte 400: the Arrow batch has a text that leads out of its buffer"},
    {"a30", 178, "\x0a"sv, "the Arrow batch has a text in a buffer that there is not"},
    {"a31", 121, "\x00\x00\x00\x00"sv, "the Arrow file has places of an odd size"},
};

TEST(DamagedTables, ArrowSaysWhatIsWrong) { expect_told(kArrow, "columnar"); }

constexpr Damage kSqlite[] = {
    {"table", 15, "\x00\x00\x00\x00"sv, "the database has pages of an impossible size"},
    {"table", 16, "\x02"sv, "a cell of the database lies outside its page"},
    {"table", 18, "\x00\x00\x01\x00"sv, "a record of the database leads out of its page"},
    {"table", 53, "\xff\xff\xff\xff"sv, "the database has texts in an unknown encoding"},
    {"table", 97, "\xff\xff\xff\xff"sv, "a page of the database is none of a tree"},
    {"table", 104, "\x02"sv, "a value of the database leads out of its record"},
    {"table", 105, "\x00\x00\x00\x00"sv, "the head of a record of the database is cut short"},
    {"table", 109, "\x91"sv, "the head of a record of the database is longer than it"},
    {"table", 109, "\x94"sv, "the schema of the database is damaged"},
    {"table", 916, "\x00\x00\x00\x00"sv, "the table is virtual, or damaged: the file has no page of it"},
    {"table", 978, "\xff\xff\xff\xff"sv, "a row has more values than the table has columns"},
    {"table", 1024, "\x02"sv, "a tree of the database has pages of two kinds"},
    {"table", 1025, "\xff\xff\xff\xff"sv, "a page of the database has more cells than room"},
    {"table", 1035, "\x02"sv, "a tree of the database comes back to a page"},
    {"table", 1036, {}, "a tree of the database leads to page"},
    {"table", 2348, "\x0a"sv, "a value of the database has an unknown type"},
    {"table", 21534, {}, "the database is cut short"},
    {"table", 21534, {}, "a record of the database is cut short"},
};

TEST(DamagedTables, SqliteSaysWhatIsWrong) { expect_told(kSqlite, "sqlite"); }

constexpr Damage kLmdb[] = {
    {"records", 4116, "\x00"sv, "the database has an unknown version"},
    {"records", 8203, "\x00\x00\x01\x00"sv, "an entry of the database lies outside its page"},
    {"records", 8205, "\x00\x00\x00\x00"sv, "an entry of the database leads out of its page"},
    {"records", 8208, "\x0c"sv, "the database has databases in it, which are not read"},
    {"records", 8214, {}, "a page of the database is not in the file"},
    {"records", 16391, {}, "a value of the database leads out of the file"},
};

TEST(DamagedTables, LmdbSaysWhatIsWrong) { expect_told(kLmdb, "lmdb"); }

constexpr Damage kTfRecord[] = {
    {"examples", 12, {}, "a record is cut short"},
    {"examples", 73, "\xff\xff\xff\xff"sv, "the checksum of a record's length differs: the file is damaged"},
    {"examples", 77, {}, "the head of a record is cut short"},
};

TEST(DamagedTables, TfRecordSaysWhatIsWrong) { expect_told(kTfRecord, "tfrecord"); }

constexpr Damage kMds[] = {
    {"shard", 0, {}, "the shard is cut short"},
    {"shard", 2, "\x00\x00\x00\x00"sv, "the shard does not say what it has"},
    {"shard", 8, {}, "the shard has more samples than room"},
    {"shard", 8, "\x0c"sv, "a value leads out of its sample"},
    {"shard", 162, "\x30"sv, "a column of the shard has an impossible size"},
    {"shard", 266, {}, "a sample leads out of its shard"},
};

TEST(DamagedTables, MdsSaysWhatIsWrong) { expect_told(kMds, "mds"); }

constexpr Damage kWorkbook[] = {
    {"book", 5172, "\0"sv, "the workbook lacks the file of a sheet"},
    {"book", 5428, "\0"sv, "the archive is no workbook: it lacks xl/workbook.xml"},
};
constexpr Damage kNoArrow[] = {{"book", 0, "\xff\xff\xff\xff"sv, "the Arrow metadata lead out of their message"}};
constexpr Damage kNoSchema[] = {{"arrays", 0, "\xff\xff\xff\xff"sv, "the Arrow file does not begin with a schema"}};

// A column that cannot be read is refused where it is asked for.
TEST(DamagedTables, AColumnThatIsNotReadSaysHowTheOthersAre) {
  std::string bytes = corpus("hdf5", "arrays");
  bytes[1456] = 20;
  const TemporaryFolder mine;
  write_file(mine / "a.h5", as_bytes(bytes));
  try {
    TableFile(mine / "a.h5", {}).all();
    ADD_FAILURE();
  } catch (const Error& error) {
    expect_said(
        error.what(),
        R"(is not read: it has elements of bit fields; expected columns with one value in each row; a schema that names the others reads those: {"columns")");
  }
}

TEST(DamagedTables, OthersSayWhatIsWrong) {
  expect_told(kWorkbook, "xlsx");
  expect_told(kNoArrow, "xlsx");
  expect_told(kNoSchema, "arrays");
  expect_said(said_of(corpus("arrays", "arrays"), "arrays", "nothing"), "FILE#NAME chooses an array");
  expect_said(said_of(corpus("hdf5", "arrays"), "hdf5", "nothing"), "FILE#PATH chooses a data set or a group");
}

// --- Messages that no single changed byte brings about ---

std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

// A page of two values in one of Parquet's encodings.
void expect_page(const std::string& bytes, int64_t encoding, parquet::Leaf leaf, const char* text) {
  parquet::Values values;
  try {
    parquet::read_values(as_bytes(bytes), encoding, leaf, 2, values, {.where = "input", .offset = 4, .room = 1 << 20});
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error& error) {
    expect_said(error.what(), std::string("input: page at byte 4: ") + text);
  }
}

TEST(DamagedTables, PagesOfParquetSayWhatIsWrong) {
  using enum parquet::Physical;
  const std::string head = "\x80\x01\x04"s;  // blocks of 128 in four pieces
  expect_page(std::string(11, '\xff'), 5, {.physical = int64}, "the page has a number that does not end");
  expect_page(head + "\x09\0"s, 5, {.physical = int64}, "the page has more deltas than values");
  expect_page(head + "\2\0\0"s, 5, {.physical = int64}, "the page ends inside its deltas");
  expect_page(head + "\2\0\0\x41\0\0\0"s, 5, {.physical = int64}, "the page has deltas of more than 64 bits");
  expect_page(head + "\1\0"s, 6, {.physical = bytes}, "the page has fewer lengths than values");
  const std::string empty = head + "\2\0\0\0\0\0\0"s;  // two lengths of nothing
  expect_page(head + "\2\x0a\0\0\0\0\0"s + empty, 7, {.physical = bytes}, "the page has a text that shares more than there is");
  expect_page(empty + empty, 7, {.physical = fixed, .width = 4}, "the page has values of another width");
  const std::string digits(65, '\1');
  parquet::Values decimal;
  decimal.texts = {digits};
  try {
    parquet::convert_values({.physical = fixed, .meaning = parquet::Meaning::decimal}, decimal, {.where = "input", .offset = 4});
    ADD_FAILURE() << "a number of 520 bits";
  } catch (const Error& error) {
    expect_said(error.what(), "input: page at byte 4: the page has a decimal of more than 64 bytes");
  }
}

std::string parquet_file(const std::string& metadata) { return "PAR1" + metadata + little(metadata.size(), 4) + "PAR1"; }

TEST(DamagedTables, FilesOfParquetSayWhatIsWrong) {
  expect_said(said_of("PAR1\0\0\0\0PARE"s, ""), "the Parquet file is encrypted; write it again without encryption");
  expect_said(said_of(parquet_file("\xa9" + std::string(40, '\x19')), ""), "the Parquet metadata are too deep");
  // One column of numbers, and 2^40 rows.
  const std::string schema = "\x15\2\x19\x2c\x48\1r\x15\2\0\x15\2\x25\0\x18\1a\0\x16\0"s, rows = "\x80\x80\x80\x80\x80\x40"s;
  const std::string column = "\x19\x1c\x26\x08\x1c\x15\2\x19\5\x19\x18\1a\x15\0\x16"s + rows + "\x16\0\x16\0\x26\x08\0\0"s;
  expect_said(said_of(parquet_file(schema + "\x19\x1c"s + column + "\x16\0\x16"s + rows + "\0\0"s), ""),
              "a row group has far more rows than its bytes can have");
  Column into(Type::integer);
  try {
    Room room(1 << 20);
    parquet::read_column(as_bytes("PAR1"s), {}, {.values = int64_t{1} << 40}, 1, {.from = 0, .to = 1}, "input", room, into);
    ADD_FAILURE();
  } catch (const Error& error) {
    expect_said(error.what(), "the column has far more values than its bytes can have");
  }
}

TEST(DamagedTables, TreesOfDatabasesSayWhatIsWrong) {
  // 70 pages, each the only child of the one before.
  std::string deep = "SQLite format 3\0\2\0"s + std::string(494, '\0');
  deep[59] = 1;
  for (int page = 1; page <= 70; ++page) {
    if (page > 1) deep += std::string(512, '\0');
    const size_t at = page == 1 ? 100 : deep.size() - 512;
    deep[at] = 5, deep[at + 11] = static_cast<char>(page + 1);
  }
  expect_said(said_of(deep, ""), "a tree of the database is too deep");
  // A row whose size leads out of its page; rows that are all the same one, which has pages of its own.
  std::string number = corpus("sqlite", "table");
  number.replace(2048 + 8, 2, "\x03\xfc"), number.replace(2048 + 1020, 4, "\xff\xff\xff\xff");
  expect_said(said_of(number, ""), "a number of the database leads out of its page");
  std::string lmdb = corpus("lmdb", "records");
  std::string several = lmdb, around = lmdb, same = lmdb;
  for (const size_t meta : {16, 4096 + 16}) several.replace(meta + 76, 2, "\4\0"s);
  expect_said(said_of(several, ""), "the database has several values of a key, which is not read; write it without MDB_DUPSORT");
  // The root is a branch whose first child is itself.
  constexpr size_t kRoot = 2 * 4096;
  around.replace(kRoot + 10, 8, "\1\0\x12\0\x10\0\x20\0"s), around.replace(kRoot + 32, 8, "\2\0\0\0\0\0\0\0"s);
  expect_said(said_of(around, ""), "the tree of the database comes back to a page");
  // All entries are the one with the large value.
  for (size_t pointer = 16; pointer < 98; pointer += 2) {
    const std::string place = lmdb.substr(kRoot + pointer, 2);
    const size_t inside = static_cast<uint8_t>(place[0]) + 256 * static_cast<size_t>(static_cast<uint8_t>(place[1]));
    if (lmdb[kRoot + inside + 4] == 1)
      for (size_t other = 16; other < 98; other += 2) same.replace(kRoot + other, 2, place);
  }
  expect_said(said_of(same, ""), "entries of the database share bytes");
  // A page of rows that are all its first one.
  std::string rows = corpus("sqlite", "table");
  constexpr size_t kLeaf = 2 * 1024;
  const std::string first = rows.substr(kLeaf + 8, 2);
  rows.replace(kLeaf + 3, 2, "\x01\x40"s);
  for (size_t row = 0; row < 320; ++row) rows.replace(kLeaf + 8 + 2 * row, 2, first);
  expect_said(said_of(rows, ""), "rows of the database share bytes; ");
  // A Datum of Caffe's is followed by a text.
  std::string datum = corpus("lmdb", "records");
  datum.replace(kRoot + 4076 + 12, 8, "\x08\1\x22\1\5\x28\x83\1"s);
  expect_said(said_of(datum, ""), "record 2: a value is no Datum of Caffe's, as the first is; ");
}

// A schema of 5,000 columns that all have the same description, which costs four bytes each.
TEST(DamagedTables, ASchemaMayNameOneColumnThousandsOfTimes) {
  const auto numbers = [](std::initializer_list<uint64_t> all, size_t bytes) {
    std::string text;
    for (const uint64_t each : all) text += little(each, bytes);
    return text;
  };
  const std::string message = numbers({16}, 4) + numbers({10, 12, 0, 8, 4, 0}, 2) + numbers({12, 16, 1}, 4);  // of kind 1: a schema
  const std::string schema = numbers({8, 8, 0, 4}, 2) + numbers({8, 4, 5000}, 4) + std::string(20'000, '\0');
  const std::string metadata = message + schema;
  expect_said(said_of(numbers({0xffffffff, metadata.size()}, 4) + metadata, ""),
              "the Arrow file has more columns than its bytes can have; ");
}

// HDF5 keeps numbers that nobody wrote and texts that are all alike in few bytes.
TEST(DamagedTables, SmallFilesOfHdf5MayHaveFarTooMuch) {
  expect_said(said_of(corpus("hdf5", "columns"), "hdf5"), "the data sets make too many columns");
  expect_said(said_of(corpus("hdf5", "texts"), "hdf5"), "the texts of 't' are far larger than the file");
}

TEST(DamagedTables, ShardsSayWhatIsWrong) {
  const std::string json = R"({"column_names": ["t"], "column_encodings": ["str"], "column_sizes": [null]})";
  const size_t end = 12 + json.size();
  expect_said(said_of(little(1, 4) + little(end, 4) + little(end, 4) + json, "mds"), "a sample is cut short");
  const TemporaryFolder mine;
  std::filesystem::create_directory(mine / "mds");
  for (
      const auto& [index, text] :
      {std::pair("[1]", "the index lists no shards; got array"),
       std::pair(R"({"shards": [{"format": "csv"}]})", R"(a shard has another format; got string "csv", expected mds)"),
       std::pair(
           R"({"shards": [{"format": "mds", "compression": "br:11", "raw_data": {"basename": "a.mds"}, "zip_data": {"basename": "a.mds.br"}}]})",
           "a shard is packed in a way that is not read; got 'br', expected zstd or gz")}) {
    write_file(mine / "mds/index.json", as_bytes(std::string_view(index)));
    try {
      open_columnar_folder(mine / "mds");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      expect_said(error.what(), text);
    }
  }
}

}  // namespace
}  // namespace perigee::tables
