// Errors of steps, formulas, readers and writers of tables: each text once, with the value that is to blame.
#include <gtest/gtest.h>

#include <functional>

#include "src/core/error.h"
#include "src/data/source.h"
#include "src/data/table/analysis/analysis.h"
#include "src/data/table/spill/scratch_file.h"
#include "src/data/table/steps.h"
#include "src/data/table/write_table.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

struct Wrong {
  const char* what;
  const char* said;
};

// On a table of a number, two texts and a time.
constexpr Wrong kSteps[] = {
    {R"~({"filter": "n > 1"})~", "steps are a list"},
    {R"~([3])~", "a step is an object whose key is a verb"},
    {R"~([{"windows": "t", "size": "0 s"}])~", "windows want a size and a distance above 0"},
    {R"~([{"windows": "t", "size": "1 ms"}])~", "there are too many windows"},
    {R"~([{"pivot": "a", "value": "n"}])~", "the columns do not fit; got text and integer"},
    {R"~([{"one_hot": "n", "min": 1}])~", "and max go together"},
    {R"~([{"one_hot": "n", "min": 3, "max": 1}])~", "makes no range"},
    {R"~([{"named": "n", "categories": ["zero"]}])~", "the number stands for no category; got 1, expected 0 to 0"},
    {R"~([{"list": "a", "words": ["x"], "unknown": "error"}])~", "the list has a word that is none of 'words'; got 'red'"},
    {R"~([{"expand": "a", "words": ["x"], "unknown": "error"}])~", "the text has a part that is none of 'words'; got 'red'"},
    {R"~([{"bucket": "n", "edges": [3, 1]}])~", "must ascend"},
    {R"~([{"impute": "a", "by": "mean"}])~", "the column 'a' has no mean"},
    {R"~([{"impute": "n", "value": "x"}])~", "the value does not fit the column 'n'; got 'x', expected a integer"},
    {R"~([{"length": 9, "pad": [1]}])~", "'pad' has another number of values than the table columns"},
    {R"~([{"length": 9, "pad": ["x", "", "", ""]}])~", "'pad' has a value that does not fit 'n'"},
    {R"~([{"difference": "n", "first": "x"}])~", "the value does not fit the column 'n'"},
    {R"~([{"group": "a", "sum": "b"}])~", "the column 'b' has no sum; got text, expected a number"},
    {R"~([{"derive": {"n": "n * 4611686018427387904"}}, {"group": [], "sum": "n"}])~", "a result is no 64-bit integer"},
    {R"~([{"derive": {"n": "n * 2305843009213693952"}}, {"group": [], "product": "n"}])~", "the product of 'n' is no 64-bit integer"},
    {R"~([{"derive": {"n": 3}}])~", "must map names to texts; got integer 3"},
    {R"~([{"rename": "n"}])~", "has the wrong type; got string"},
    {R"~([{"join": {"columns": [{"name": "n", "type": "integer"}], "rows": [[1, 2]]}, "on": "n"}])~", "has a row of another length"},
    {R"~([{"join": {"columns": [{"name": "n", "type": "integer"}], "rows": [["x"]]}, "on": "n"}])~",
     "has a value of another type than 'n'"},
    {R"~([{"join": {"columns": [{"name": "n", "type": "integer"}]}, "on": "n"}])~", "must be a list of rows"},
    {R"~([{"join": {"columns": [{"name": "n", "type": "integer"}], "rows": []}, "on": "n", "right_on": ["n", "n"]}])~",
     "names no keys, or not as many"},
    {R"~([{"join": {"columns": [{"name": "n", "type": "text"}], "rows": [["x"]]}, "on": "n", "how": "outer"}])~",
     "a key of the right table does not fit"},
    {R"~([{"join": "there-is-none.csv", "on": "n"}])~", "there-is-none.csv"},
    {R"~([{"category": "a", "categories": ["blue"]}, {"one_hot": "a", "other": "error", "categories": ["x"]}, {"index": "nn"}])~",
     "the value is none of the categories of 'a'; got 'blue'"},
    {R"~([{"index": "nn"}])~", "there is no such column"},
    {R"~([{"filter": "n = 'x'"}])~", "values of these types are not compared; got integer and text"},
    {R"~([{"filter": "t > 'noon'"}])~", "this is no time; got 'noon'"},
    {R"~([{"filter": "n = missing"}])~", "nothing is equal to a missing value"},
    {R"~([{"filter": "not n"}])~", "'not' wants conditions; got a integer"},
    {R"~([{"filter": "n in 3"}])~", "'in' wants a list"},
    {R"~([{"derive": {"x": "(n"}}])~", "a bracket is not closed"},
    {R"~([{"derive": {"x": "'n"}}])~", "a quote is not closed"},
    {R"~([{"derive": {"x": "n n"}}])~", "something follows the end of the formula"},
    {R"~([{"derive": {"x": "n ? 1"}}])~", "something follows the end of the formula"},
    {R"~([{"derive": {"x": "n + ?"}}])~", "this is no part of a formula"},
    {R"~([{"derive": {"x": "lower(n)"}}])~", "argument 1 has the wrong type; got a integer, expected a text"},
    {R"~([{"derive": {"x": "hash(a, 0)"}}])~", "the number of buckets is no positive constant"},
    {R"~([{"derive": {"x": "format_time(t, a)"}}])~", "argument 2 is no constant text"},
    {R"~([{"derive": {"x": "if(n > 1, n, a)"}}])~", "its values have different types; got integer and text"},
    {R"~([{"derive": {"x": "euclidean_distance(n, n, n)"}}])~", "as many numbers for the first vector as for the second"},
    {R"~([{"derive": {"x": "hour(t, 'Atlantis')"}}])~", "there is no such time zone"},
};

constexpr const char* kTable = "n,a,b,t\n1,red,x,2020-01-01\n2,blue,y,2020-06-01\n";

TEST(TableErrors, OfSteps) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes(kTable));
  for (const Wrong& wrong : kSteps) {
    const std::string text = refusal([&] {
      Frame frame = read_table(folder / "t.csv");
      Steps(Json::parse(wrong.what, "steps"), "steps", folder.path()).run(frame);
    });
    EXPECT_NE(text.find(wrong.said), std::string::npos) << wrong.what << "\n" << text;
  }
}

TEST(TableErrors, OfRoom) {
  const std::string amount = refusal([] { table_memory_of("3 parsecs", "--memory"); });
  EXPECT_NE(amount.find("--memory: this is no amount of memory for tables; got '3 parsecs'"), std::string::npos) << amount;
  EXPECT_NE(amount.find("'512MiB', '4GB' or a number of bytes, at least 1 MiB"), std::string::npos) << amount;
  EXPECT_EQ(table_memory_of("1.5MiB", ""), uint64_t{3} << 19);
  const std::string folder = refusal([] { ScratchFile({.memory = 1 << 20, .folder = "there-is-none", .threads = 1}); });
  EXPECT_NE(folder.find("no scratch file can be made for a table that is larger than its memory: No such file"), std::string::npos)
      << folder;
  EXPECT_NE(folder.find("set TMPDIR to a folder with more room, or give more memory: PERIGEE_TABLE_MEMORY=8GiB"), std::string::npos)
      << folder;
}

constexpr Wrong kFiles[] = {{"", "the table has no rows"},
                            {"\xff\xfe"
                             "a",
                             "the text ends inside a character"},
                            {"\"a", "the first row has quotes that do not match"},
                            {"{\"a\": 1}\n[2]\n", "the line has no object; got array"},
                            {"{\"a\": 1}\n{\"a\"\n", "t.csv:2"}};
constexpr Wrong kSchemas[] = {{R"({"columns": []})", "must be a list of columns"},
                              {R"({"columns": [{"name": "a", "type": "intger"}]})", "did you mean 'integer'?"},
                              {R"({"columns": [{"name": "a", "type": "category"}]})", "lists no category"},
                              {R"({"columns": [{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]})", "names a column twice"},
                              {R"({"columns": [{"name": "a", "type": "text"}], "delimiter": "ab"})", "must be one character"},
                              {R"({"columns": [{"name": "z", "type": "text"}]})", "columns of the schema are missing: 'z'"}};

TEST(TableErrors, OfFilesAndSchemas) {
  const TemporaryFolder folder;
  for (const Wrong& wrong : kFiles) {
    write_file(folder / "t.csv", as_bytes(wrong.what));
    const std::string text = refusal([&] { read_table(folder / "t.csv"); });
    EXPECT_NE(text.find(wrong.said), std::string::npos) << wrong.what << "\n" << text;
  }
  write_file(folder / "t.csv", as_bytes(kTable));
  for (const Wrong& wrong : kSchemas) {
    const std::string text =
        refusal([&] { TableFile(folder / "t.csv", options_of_schema(Json::parse(wrong.what, "schema"), "schema")).all(); });
    EXPECT_NE(text.find(wrong.said), std::string::npos) << wrong.what << "\n" << text;
  }
  EXPECT_NE(refusal([&] { TableFile(folder / "t.csv", {}).all(10); }).find("too large for the memory"), std::string::npos);
  EXPECT_NE(refusal([&] { write_table(folder / "t.doc"); }).find("not written in this format"), std::string::npos);
  EXPECT_NE(refusal([&] { write_table(folder / "none/t.csv"); }).find("the file cannot be written"), std::string::npos);
  const Frame frame = read_table(folder / "t.csv");
  EXPECT_NE(refusal([&] { write_table(folder / "t.npz")->add(frame); }).find("the column 'a' is no array of numbers"), std::string::npos);
}

TEST(TableErrors, OfSources) {
  const TemporaryFolder folder;
  write_file(folder / "t.csv", as_bytes(kTable));
  const auto said = [&](const std::string& more) {
    const Json json = Json::parse(R"({"type": "table", "file": "t.csv", )" + more + "}", "source");
    return refusal([&] { open_source(Config(json, "train", ErrorKind::data), folder.path()); });
  };
  EXPECT_NE(said(R"("steps": [{"filter": "n > 9"}])").find("the steps leave no row"), std::string::npos);
  EXPECT_NE(said(R"("target": "nn")").find("names a column that the table does not have"), std::string::npos);
  EXPECT_NE(said(R"("delimiter": "")").find("must be one character"), std::string::npos);
  EXPECT_NE(said(R"("fitted": {"type": "table"})").find("has no schema"), std::string::npos);
  const std::string gap = said(R"~("steps": [{"derive": {"n": "if(n = 2, real('x'), n)"}}], "target": "a")~");
  EXPECT_NE(gap.find(": record 2: column 'n': the value is missing"), std::string::npos) << gap;
}

}  // namespace
}  // namespace perigee::tables
