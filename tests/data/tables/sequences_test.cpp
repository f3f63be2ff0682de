// Several sequences in one file, on the files of DataVec's own test of its CSVMultiSequenceRecordReader.
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"
#include "tests/core/refusal.h"

namespace perigee::tables {
namespace {

TableFile opened(const std::string& sequences, const std::string& separator, const std::string& text, bool header = false) {
  ReadOptions options;
  options.dialect.sequences = sequences;
  options.dialect.separator = separator;
  if (header) options.dialect.header = true;
  return TableFile("s.csv", options, text);
}

std::string text_of(const Frame& frame) {
  std::string text;
  for (const ColumnSpec& column : frame.schema.columns) text += (text.empty() ? "" : ",") + column.name;
  for (int64_t r = 0; r < frame.rows; ++r)
    for (size_t c = 0; c < frame.columns.size(); ++c)
      text += (c == 0 ? "\n" : ",") + (frame.columns[c].is_missing(r) ? "-" : cell_text(frame.columns[c], frame.schema.columns[c], r));
  return text;
}

TEST(TableSequences, AreAsDataVecReadsThem) {
  for (const std::string separator : {"", "---", "&"}) {
    EXPECT_EQ(text_of(opened("joined", separator, "a,b,c\n1,2,3,4\nx,y\n" + separator + "\nA,B,C").all()),
              "sequence,c0\n1,a\n1,b\n1,c\n1,1\n1,2\n1,3\n1,4\n1,x\n1,y\n2,A\n2,B\n2,C");
    EXPECT_EQ(text_of(opened("columns", separator, "a,b\n1,2\nx,y\n" + separator + "\nA\nB\nC").all()),
              "sequence,c0,c1,c2\n1,a,1,x\n1,b,2,y\n2,A,B,C");
    EXPECT_EQ(text_of(opened("padded", separator, "a,b\n1\nx\n" + separator + "\nA\nB\nC").all()),
              "sequence,c0,c1,c2\n1,a,1,x\n1,b,-,-\n2,A,B,C");
  }
}

TEST(TableSequences, MayHaveTheirStepsInLines) {
  TableFile file = opened("rows", "", "x,y\r\n1,p\r\n2,\"q,r\"\r\n\r\n \r\n3,p\r\n", true);
  const Json schema = schema_json(file.schema(), &file.dialect());
  Frame frame = file.all();
  EXPECT_EQ(text_of(frame), "sequence,x,y\n1,1,p\n1,2,q,r\n2,3,p");
  EXPECT_EQ(frame.schema.columns[1].type, Type::integer);
  Steps(Json::parse(R"([{"sequence": "sequence"}])", "steps"), "steps", ".").run(frame);
  EXPECT_EQ(frame.sequences, (std::vector<int64_t>{0, 2, 3}));
  TableFile again("t.csv", options_of_schema(schema, "schema"), "x,y\n7,p\n\n8,q\n");
  EXPECT_EQ(text_of(again.all()), "sequence,x,y\n1,7,p\n2,8,q") << "the schema says how the file is written";
  EXPECT_EQ(text_of(opened("rows", "end", "1,2\n\n3,4\nend\n5,6\nend\nend\n").all()), "sequence,c0,c1\n1,1,2\n1,3,4\n2,5,6");
  EXPECT_HAS(refusal([&] { TableFile("t.csv", options_of_schema(schema, "schema"), "x,y\n7,p\n\nz,q\n").all(); }), "t.csv:4");
}

TEST(TableSequences, SayWhatIsWrong) {
  const auto said = [](const std::string& sequences, const std::string& text) {
    return refusal([&] { opened(sequences, "", text).all(); });
  };
  EXPECT_HAS(said("columns", "1,2\n3\n"), "s.csv:2: the lines of a sequence have different lengths; got 1 fields, expected 2");
  EXPECT_HAS(said("padded", "1,2\n3\n\n4\n"), "a sequence has not as many lines as the first one, and each is a column; got 1 lines");
  EXPECT_HAS(said("joined", "1,\"2\n"), "s.csv:1: the line has quotes that do not match");
  EXPECT_HAS(said("joined", std::string(1 << 16, ',')), "the line of a sequence has too many fields");
  EXPECT_HAS(said("columns", std::string(size_t{9} << 20, '1')), "lines of at most 8 MiB");
  std::string large = std::string(4095, ',') + "\n";
  for (int i = 0; i < 1024; ++i) large += "1\n";
  EXPECT_HAS(said("padded", large),
             "s.csv:1025: a sequence is too large to have its lines as columns; got 1025 lines of up to 4096 fields");
  ReadOptions both;
  both.dialect.sequences = "rows", both.dialect.lines = "(a)";
  EXPECT_HAS(refusal([&] { TableFile("s.csv", both, "a\n"); }), "'lines' and 'sequences' are both given");
  EXPECT_HAS(refusal([] { options_of_schema(Json::parse(R"({"columns": [{"name": "a"}], "sequences": "row"})", "s"), "s"); }), "rows");
}

}  // namespace
}  // namespace perigee::tables
