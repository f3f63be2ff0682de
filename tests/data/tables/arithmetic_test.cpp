// Formulas are computed some hundred rows at a time: over many rows they give what one row after the other gives. And the first line of texts.
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/warning.h"
#include "src/data/table/expression/expression.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/file.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

constexpr int64_t kRows = 1300;  // two whole parts and a bit

// x: reals, some missing; y: reals; k: whole numbers, some missing.
Frame numbers_of_rows() {
  Frame frame{.rows = kRows};
  Column x(Type::real), y(Type::real), k(Type::integer);
  for (int64_t r = 0; r < kRows; ++r) {
    if (r % 7 == 3) x.add_missing();
    else x.add_real(static_cast<double>(r) / 8 - 50);
    y.add_real(static_cast<double>(r * r % 101) + 1);
    if (r % 11 == 5) k.add_missing();
    else k.add_whole(r % 13 - 6);
  }
  frame.add({.name = "x", .type = Type::real}, std::move(x));
  frame.add({.name = "y", .type = Type::real}, std::move(y));
  frame.add({.name = "k", .type = Type::integer}, std::move(k));
  return frame;
}

TEST(Arithmetic, IsThatOfEachRow) {
  const Frame frame = numbers_of_rows();
  using Formula = double (*)(double x, double y, double k);
  const std::pair<const char*, Formula> formulas[] = {
      {"x * 2 + y", [](double x, double y, double) { return x * 2 + y; }},
      {"y - 1", [](double, double y, double) { return y - 1; }},
      {"7 / y", [](double, double y, double) { return 7 / y; }},
      {"(x + 1) * (k - y) / (2 - 3 * (x % y))", [](double x, double y, double k) { return (x + 1) * (k - y) / (2 - 3 * std::fmod(x, y)); }},
      {"x - (y - (x - (y - (x - k * k))))", [](double x, double y, double k) { return x - (y - (x - (y - (x - k * k)))); }},
      {"(k + 1) / 2", [](double, double, double k) { return (k + 1) / 2; }},
      {"y * (3 / 2 - 1)", [](double, double y, double) { return y * .5; }},
      {"max(x, y) * 2 - y", [](double x, double y, double) { return std::max(x, y) * 2 - y; }}};
  for (const auto& [text, formula] : formulas) {
    const Column column = Expression(text, "test").of(frame);
    ASSERT_EQ(column.type, Type::real) << text;
    ASSERT_EQ(column.size(), kRows) << text;
    const std::string names = text;
    for (int64_t r = 0; r < kRows; ++r) {
      bool missing = false;
      for (size_t c = 0; c < 3; ++c)
        missing |=
            names.find(frame.schema.columns[c].name) != names.npos && names.find("max") == names.npos && frame.columns[c].is_missing(r);
      missing |= names.find("max") != names.npos && frame.columns[0].is_missing(r);
      ASSERT_EQ(column.is_missing(r), missing) << text << " row " << r;
      if (!missing) {
        ASSERT_EQ(column.real[static_cast<size_t>(r)],
                  formula(frame.columns[0].number(r), frame.columns[1].number(r), frame.columns[2].number(r)))
            << text << " row " << r;
      }
    }
  }
  EXPECT_EQ(Expression("k * 2 - 1", "test").of(frame).type, Type::integer);
  EXPECT_TRUE(Expression("y + missing", "test").of(frame).is_missing(0));
  EXPECT_EQ(Expression("1 / 4 + 1", "test").of(frame).real[kRows - 1], 1.25);
  const Column less = Expression("k < y - 50", "test").of(frame);
  for (int64_t r = 0; r < kRows; ++r)
    if (!less.is_missing(r)) {
      ASSERT_EQ(less.whole[static_cast<size_t>(r)], frame.columns[2].number(r) < frame.columns[1].number(r) - 50) << r;
    }
  EXPECT_EQ(Expression("x * 2 + y", "test")
                .of(Frame{.schema = frame.schema, .columns = {Column(Type::real), Column(Type::real), Column(Type::integer)}})
                .size(),
            0);
}

// As pandas has it; but where a word of the first line comes again in its column, the line is a row.
TEST(TextsAlone, TheFirstLineNamesThem) {
  const TemporaryFolder folder;
  std::string warning;
  const WarningHandler before = set_warning_handler([&](const std::string& text) { warning += text; });
  const auto read = [&](const std::string& text, ReadOptions options = {}) {
    warning.clear();
    write_file(folder / "t.csv", as_bytes(text));
    const Frame frame = TableFile(folder / "t.csv", std::move(options)).all();
    return frame.schema.columns[0].name + " " + std::to_string(frame.rows);
  };
  EXPECT_EQ(read("name,city\nAda,Rome\nBob,Oslo\n"), "name 2");
  EXPECT_EQ(warning,
            folder / "t.csv" + ": all columns are texts: the first line is taken for their names; with header = false it is a row");
  EXPECT_EQ(read("Ada,Rome\nBob,Oslo\nAda,Bern\n"), "c0 3");
  EXPECT_EQ(warning, "");
  EXPECT_EQ(read("name,age\nAda,36\n"), "name 1");
  EXPECT_EQ(warning, "");
  ReadOptions given;
  given.dialect.header = false;
  EXPECT_EQ(read("name,city\nAda,Rome\n", given), "c0 2");
  EXPECT_EQ(warning, "");
  set_warning_handler(before);
}

}  // namespace
}  // namespace perigee::tables
