// Documents (JSON, YAML, XML) and several files as one table; DataVec's own files, which stand with the oracles.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

Frame read_document(const std::string& text, const std::string& name = "data.txt") { return TableFile(name, {}, text).all(); }

std::string text_of(const Frame& frame) {
  std::string text;
  for (size_t c = 0; c < frame.columns.size(); ++c)
    text += (c ? "," : "") + frame.schema.columns[c].name + ":" + type_text(frame.schema.columns[c].type);
  for (int64_t r = 0; r < frame.rows; ++r) {
    text += '\n';
    for (size_t c = 0; c < frame.columns.size(); ++c)
      text += (c ? "|" : "") + (frame.columns[c].is_missing(r) ? "-" : cell_text(frame.columns[c], frame.schema.columns[c], r));
  }
  return text;
}

std::string document_refusal(const std::string& text, const std::string& name = "d.xml") {
  return refusal([&] { read_document(text, name); });
}

TEST(Documents, XmlElementsAreRows) {
  EXPECT_EQ(
      text_of(read_document("<?xml version=\"1.0\"?>\n<!-- people -->\n<people xmlns='urn:x'>\n"
                            "<p id='1'><name>Ada &amp; co</name><born>1815-12-10</born><at><x>1.5</x><y/></at></p>\n"
                            "<p id='2'><name><![CDATA[B<o>b]]></name><at><x> 2 </x><y>7</y></at><tag>a</tag><tag>b</tag></p></people>\n")),
      "id:integer,name:text,born:time,at.x:real,at.y:integer,tag:text\n1|Ada & co|1815-12-10|1.5|-|-\n2|B<o>b|-|2|7|a,b");
  EXPECT_EQ(text_of(read_document("<?xml version='1.0'?><a><b>1</b><c d='2'>x</c></a>")), "b:integer,c.d:integer,c:text\n1|2|x")
      << "children of different names: the root is the row";
  EXPECT_EQ(text_of(read_document("<r><i><v>1</v></i></r>", "one.xml")), "v:integer\n1");
  EXPECT_EQ(text_of(read_document("<r>7</r>", "one.xml")), "r:integer\n7");
  EXPECT_EQ(text_of(read_document("<r><i v='1'/><i v='2'/></r>", "one.xml")), "v:integer\n1\n2");
  const TemporaryFolder folder;
  write_file(folder / "d.xml", as_bytes("<?xml version='1.0' encoding='ISO-8859-1'?><r><n>\xe9</n><s><k>1</k></s><s><k>2</k></s></r>"));
  EXPECT_EQ(text_of(TableFile(folder / "d.xml#s", {}).all()), "k:integer\n1\n2") << "FILE#NAME chooses elements";
  EXPECT_EQ(TableFile(folder / "d.xml", {}).all().columns[0].text(0), "\u00e9");
  write_file(folder / "d.xml.gz", gzip(as_bytes("<r><i><v>1</v></i></r>")));
  EXPECT_EQ(text_of(TableFile(folder / "d.xml.gz", {}).all()), "v:integer\n1");
}

TEST(Documents, DamagedXmlIsAnError) {
  EXPECT_HAS(document_refusal("<r>\n<a></b></r>"), "d.xml:2: a tag closes what is not open; got </b>, expected </a>");
  EXPECT_HAS(document_refusal("<r></r></q>"), "expected the end");
  EXPECT_HAS(document_refusal("<r></r>\n<q/>"), "d.xml:2: the document has a second root; got <q>");
  EXPECT_HAS(document_refusal("<r>\n<a>1"), "d.xml:2: an element does not end; expected </a>");
  EXPECT_HAS(document_refusal("<!DOCTYPE r [<!ENTITY a 'x'>]>\n<r>&a;</r>"), "the document has entities of its own, which are not read");
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += "<a>";
  EXPECT_HAS(document_refusal(deep), "the elements are nested too deeply; expected at most 64");
  EXPECT_HAS(document_refusal("<?xml version='1.0'?>"),
             "the document has no rows; got nothing in it, expected elements that repeat; FILE#NAME chooses others");
  std::string wide = "<r><i>", sparse = "<r>";
  for (int i = 0; i < 66'000; ++i) wide += "<a" + std::to_string(i) + ">1</a" + std::to_string(i) + ">";
  EXPECT_HAS(document_refusal(wide + "</i></r>"), "the document has too many columns");
  for (int i = 0; i < 8'000; ++i) sparse += "<i><a" + std::to_string(i) + ">1</a" + std::to_string(i) + "></i>";
  EXPECT_HAS(document_refusal(sparse + "</r>"),
             "the document has far more cells than one of this size would have: few of its rows have the same elements");
}

TEST(Documents, JsonAndYamlAreRows) {
  EXPECT_EQ(text_of(read_document(R"([{"a": 1, "c": {"x": "p", "y": 2.5}}, {"a": 2, "c": {"y": null}}])")),
            "a:integer,c.x:text,c.y:real\n1|p|2.5\n2|-|-");
  EXPECT_EQ(text_of(read_document("{\n  \"a\": 1,\n  \"l\": [1, 2]\n}\n")), "a:integer,l:list\n1|1 2") << "one object of several lines";
  EXPECT_EQ(text_of(read_document("- a: 1\n  c:\n    x: p\n- a: 2\n", "d.yaml")), "a:integer,c.x:text\n1|p\n2|-");
  EXPECT_EQ(text_of(read_document("a: 1\n---\na: 2\n---\n", "d.yml")), "a:integer\n1\n2");
  EXPECT_HAS(document_refusal("[{\"a\": 1},\n 7]"), "d.xml: row 2: the row is no object; got integer");
  EXPECT_HAS(document_refusal("[{\"a\": 1},\n"), "d.xml:2:");
  EXPECT_HAS(document_refusal("a: [1", "d.yaml"), "d.yaml:");
  EXPECT_HAS(document_refusal("[]", "d.json"), "the document has no rows");
  const TemporaryFolder folder;
  write_file(folder / "d.json", as_bytes("{\n\"data\": {\"rows\": [{\"v\": 1}, {\"v\": 2}]}}"));
  EXPECT_EQ(text_of(TableFile(folder / "d.json#data.rows", {}).all()), "v:integer\n1\n2");
  EXPECT_HAS(refusal([&] { TableFile(folder / "d.json#data.cells", {}); }),
             "the document has no such part; got #data.cells, expected keys with points between them: FILE#data.rows");
  // A short text that unpacks to a long one.
  write_file(folder / "d.json.gz", gzip(as_bytes("[{\"a\": 1}" + std::string(size_t{40} << 20, ' ') + "]")));
  EXPECT_HAS(refusal([&] { TableFile(folder / "d.json.gz", {}); }), "decompressed");
}

TEST(Documents, CommentsAndLinesBetweenDocuments) {
  EXPECT_EQ(text_of(read_document("<r><row><a>1<!-- a > b -->2</a></row><row><a>3</a></row></r>", "d.xml")), "a:integer\n12\n3");
  EXPECT_EQ(text_of(read_document("%YAML 1.2\n# people\n--- # one\na: 1\n---\na: 2\n--- {a: 3}", "d.yaml")), "a:integer\n1\n2\n3");
  EXPECT_HAS(document_refusal("a: 1\n---\na: 2\n---\nb: [\n", "d.yaml"), "d.yaml: document 3:");
  const std::string wide = "[{\n\"a\": 1, \"b\": \"" + std::string(size_t{3} << 19, 'x') + "\"}, {\"a\": 2}]";
  EXPECT_EQ(read_document(wide, "d.json").rows, 2) << "a row of more than 1 MiB";
  std::string elements;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "e" + std::to_string(i) + std::string(4000, 'x');
    elements += "<" + name + ">1</" + name + ">";
  }
  EXPECT_HAS(document_refusal("<r><row>" + elements + "</row><row/></r>"), "the names of the document's columns are longer than 1 MiB");
}

TEST(Documents, AColumnMayBeCalledByAPath) {
  const ReadOptions options = options_of_schema(
      Json::parse(R"({"columns": [{"name": "c.x"}, {"name": "a", "type": "integer"}, {"name": "c.d.e", "type": "real"}]})", "schema"),
      "schema");
  EXPECT_EQ(text_of(TableFile("l.jsonl", options, "{\"a\": 1, \"c\": {\"x\": \"p\", \"d\": {\"e\": 2}}}\n{\"c\": {\"y\": 1}}\n").all()),
            "c.x:text,a:integer,c.d.e:real\np|1|2\n-|-|-");
}

TEST(Documents, SeveralFilesAreOneTable) {
  const TemporaryFolder folder;
  for (int i = 12; i >= 1; --i)
    write_file(folder / ("day_" + std::to_string(i) + ".log"),
               as_bytes("# a header\n" + std::to_string(i) + " 200\n" + (i == 10 ? "0.5 404\n" : "")));
  ReadOptions options;
  options.dialect.lines = R"((?<n>\S+) (?<status>\d+))";
  options.dialect.skip = 1;
  const Frame frame = TableFile(folder / "day_*.log", options).all();
  EXPECT_EQ(frame.schema.names(), (std::vector<std::string>{"file", "n", "status"}));
  EXPECT_EQ(type_text(frame.schema.columns[1].type), std::string("real")) << "the narrowest type of all files";
  ASSERT_EQ(frame.rows, 13);
  EXPECT_EQ(frame.columns[0].text(1), "day_2.log") << "numbers in names by value";
  EXPECT_EQ(frame.columns[1].real[10], 0.5);
  Frame sequences = frame;
  Steps(Json::parse(R"([{"sequence": "file"}, {"group": "file", "rows": "n"}])", "steps"), "steps", ".").run(sequences);
  EXPECT_EQ(text_of(sequences).substr(0, 47), "file:text,rows(n):integer\nday_1.log|1\nday_2.log") << text_of(sequences);
  options.threads = 3;
  EXPECT_EQ(text_of(TableFile(folder / "day_?.log", options).all()).substr(0, 30), "file:text,n:integer,status:int");

  write_file(folder / "a.csv", as_bytes("x,y\n1,p\n"));
  write_file(folder / "b.csv", as_bytes("y,z\nq,2.5\n"));
  EXPECT_EQ(text_of(TableFile(folder / "*.csv", {}).all()), "file:text,x:integer,y:text,z:real\na.csv|1|p|-\nb.csv|-|q|2.5");
  std::string late = "n\n";
  for (int i = 0; i < 200'000; ++i) late += "1234567\n";
  write_file(folder / "late_1.csv", as_bytes(late + "2.5\n"));
  EXPECT_EQ(type_text(TableFile(folder / "late_*.csv", {}).schema().columns[1].type), std::string("real")) << "behind the first 1 MiB";
  for (const std::string letter : {"p", "q"}) {
    std::string header = letter, row = "1";
    for (int i = 0; i < 33'000; ++i) header += "," + letter + std::to_string(i), row += ",1";
    write_file(folder / ("wide_" + letter + ".txt"), as_bytes(header + "\n" + row + "\n"));
  }
  EXPECT_HAS(refusal([&] { TableFile(folder / "wide_*", {}); }), "the files have too many columns together");
  write_file(folder / "c.csv", as_bytes("file,y\nq,2.5\n"));
  EXPECT_HAS(refusal([&] { TableFile(folder / "*.csv", {}); }),
             "the file has a column 'file', as the table of several files has; a schema with the other columns reads those");
  EXPECT_HAS(refusal([&] { TableFile(folder / "*.tsv", {}); }),
             "no file has such a name; expected 1 to 1000000 files; * stands for any letters, ? for one");
}

// Where all is text, the first line of one file says nothing of the next.
TEST(Documents, SeveralFilesHaveAHeaderOrNone) {
  const TemporaryFolder folder;
  const auto table_of = [&](std::string_view first, std::string_view second) {
    write_file(folder / "1.csv", as_bytes(first));
    write_file(folder / "2.csv", as_bytes(second));
    return text_of(TableFile(folder / "*.csv", {}).all());
  };
  std::vector<std::string> told;
  const WarningHandler before = set_warning_handler([&](const std::string& text) { told.push_back(text); });
  EXPECT_EQ(table_of("good,cat\nbad,dog\n", "fine,emu\nworse,fox\n"),
            "file:text,c0:text,c1:text\n1.csv|good|cat\n1.csv|bad|dog\n2.csv|fine|emu\n2.csv|worse|fox");
  EXPECT_EQ(told.size(), 1u);
  EXPECT_HAS(told.back(),
             "all columns are texts, and the files begin with different lines: these are rows; with header = true they are names");
  EXPECT_EQ(table_of("good,cat\nbad,dog\n", "fine,emu\nfine,fox\n").substr(0, 26), "file:text,c0:text,c1:text\n")
      << "the second has none for sure";
  EXPECT_EQ(table_of("word,kind\nbad,dog\n", "word,kind\nfine,emu\n"), "file:text,word:text,kind:text\n1.csv|bad|dog\n2.csv|fine|emu");
  EXPECT_EQ(told.size(), 3u);
  EXPECT_HAS(told.back(), "all columns are texts: the first line is taken for their names; with header = false it is a row");
  EXPECT_EQ(table_of("word,n\nbad,1\n", "word,m\nfine,2\n"), "file:text,word:text,n:integer,m:integer\n1.csv|bad|1|-\n2.csv|fine|-|2");
  EXPECT_EQ(told.size(), 3u) << "numbers below words: sure names";
  set_warning_handler(before);
}

TEST(Documents, DataVecsFilesAreRead) {
  const char* const data = std::getenv("PERIGEE_DATA");
  const std::string folder = std::string(data == nullptr ? "" : data) + "/oracles/third_party/datavec/src/main/resources/datavec-api/";
  if (data == nullptr || !folder_exists(folder)) GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  const TemporaryFolder copies;
  for (const std::string kind : {"xml", "json", "yaml"}) {
    for (const std::string number : {"0", "1", "2"})
      write_file(copies / (number + "." + kind), read_file(folder + kind + "/" + kind + "_test_" + number + ".txt"));
    EXPECT_EQ(text_of(TableFile(copies / ("*." + kind), {}).all()),
              "file:text,a:text,b:text,c.x:text,c.y:text\n0." + kind + "|aValue0|bValue0|cxValue0|cyValue0\n1." + kind +
                  "|aValue1|-|cxValue1|cyValue1\n2." + kind + "|aValue2|bValue2|-|cyValue2");
  }
  ReadOptions lines;
  lines.dialect.lines = R"((\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{3}) (\d+) ([A-Z]+) (.*))";
  lines.dialect.skip = 1;
  Frame logs = TableFile(folder + "logtestdata/logtestfile*.txt", lines).all();
  Steps(Json::parse(R"([{"sequence": "file"}])", "steps"), "steps", ".").run(logs);
  EXPECT_EQ(logs.sequences, (std::vector<int64_t>{0, 3, 6})) << "a sequence for each file";
  EXPECT_EQ(logs.columns[2].whole[5], 13);
}

}  // namespace
}  // namespace perigee::tables
