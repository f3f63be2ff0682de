// Steps on tables against DataVec: each case of its unit tests, transcribed, by the step that does the same here. Its bugs are not in the
// file.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "src/core/error.h"
#include "src/data/table/steps.h"
#include "src/io/file.h"
#include "tests/data/tables/frame_of.h"

namespace perigee::tables {
namespace {

Type type_of(const std::string& name) {
  static const std::map<std::string, Type> types = {{"string", Type::text},         {"integer", Type::integer}, {"long", Type::integer},
                                                    {"double", Type::real},         {"time", Type::time},       {"boolean", Type::boolean},
                                                    {"categorical", Type::category}};
  return types.at(name);
}

TableSchema schema_of_case(const Json& json) {
  TableSchema schema;
  for (const auto& [name, type] : json.as_object()) {
    ColumnSpec spec{.name = name};
    if (type.is_string()) {
      spec.type = type_of(type.as_string());
    } else {
      const auto& [kind, list] = type.as_object()[0];
      spec.type = type_of(kind);
      if (spec.type == Type::category)
        for (const Json& each : list.as_array()) spec.categories.push_back(each.as_string());
      else spec.least = list.as_array()[0].as_number(), spec.most = list.as_array()[1].as_number();
    }
    schema.columns.push_back(spec);
  }
  return schema;
}

const std::map<std::string, std::string>& aggregates() {
  static const std::map<std::string, std::string> names = {{"Min", "min"},   {"Max", "max"},        {"Range", "range"}, {"Sum", "sum"},
                                                           {"Mean", "mean"}, {"Stdev", "stdev"},    {"Count", "count"}, {"count", "count"},
                                                           {"max", "max"},   {"takeFirst", "first"}};
  return names;
}

// "{}" stands for the arguments in turn: texts as they are.
std::string filled(std::string text, const std::vector<Json>& arguments) {
  for (const Json& each : arguments) text.replace(text.find("{}"), 2, each.is_string() ? each.as_string() : each.dump());
  return text;
}

std::string condition(const Json& json) {
  static const std::map<std::string, std::string> signs = {{"LessThan", "<"}, {"Equal", "="}};
  const Json& operand = json.find("condition")->as_array()[1];
  return json.find("column")->as_string() + " " + signs.at(json.find("condition")->as_array()[0].as_string()) + " " +
         (operand.is_string() ? "'" + operand.as_string() + "'" : operand.dump());
}

std::string joda(std::string format) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"YYYY", "%Y"}, {"MM", "%m"}, {"dd", "%d"}, {"HH", "%H"}, {"mm", "%M"}, {"ss", "%S"}})
    format.replace(format.find(from), from.size(), to);
  return format;
}

std::string calculated(const std::string& op, const std::string& a, const std::string& b) {
  return op == "Multiply" ? a + " * " + b : op == "Add" ? a + " + " + b : "unknown";
}

Json list_of(const std::vector<Json>& items) { return Json(Json::Array(items.begin(), items.end())); }

// The steps that do what the case's operation does. Null: none are written here.
Json steps_of(const std::string& op, const Json& args, const Json& schema) {
  static const Json none;
  const auto arg = [&](const char* name) -> const Json& { return args.find(name) != nullptr ? *args.find(name) : none; };
  const auto text = [&](const char* name) { return arg(name).as_string(); };
  const auto derive = [&](const std::string& name, const std::string& formula) {
    return list_of({Json(Json::Object{{"derive", Json(Json::Object{{name, formula}})}})});
  };
  const auto step = [](Json::Object members) { return list_of({Json(std::move(members))}); };
  const std::string column = args.find("column") != nullptr ? text("column") : "";
  if (op == "CategoricalToInteger") return step({{"index", column}});
  if (op == "CategoricalToOneHot") return step({{"one_hot", column}});
  if (op == "Pivot") return step({{"pivot", text("key")}, {"value", text("value")}});
  if (op == "IntegerToCategorical") return step({{"named", column}, {"categories", arg("states")}});
  if (op == "IntegerToOneHot") return step({{"one_hot", column}, {"min", arg("min")}, {"max", arg("max")}});
  if (op == "StringToCategorical") return step({{"category", column}, {"categories", arg("states")}, {"other", "error"}});
  if (op == "ConcatenateStringColumns") {
    std::string list = "'" + text("delimiter") + "'";
    for (const Json& each : arg("columns").as_array()) list += ", " + each.as_string();
    return derive(text("new"), "concat(" + list + ")");
  }
  if (op == "ChangeCase") return derive(column, (text("case") == "LOWER" ? "lower(" : "upper(") + column + ")");
  if (op == "RemoveColumns") return step({{"drop", arg("columns")}});
  if (op == "RemoveAllColumnsExceptFor") return step({{"select", arg("columns")}});
  if (op == "ReplaceEmptyIntegerWithValue" || op == "ReplaceInvalidWithInteger") return step({{"impute", column}, {"value", arg("value")}});
  if (op == "Normalize.Log2Mean")
    return step({{"normalize", column}, {"by", "log2"}, {"mean", arg("mean")}, {"min", arg("min")}, {"scale", arg("scale")}});
  if (op == "Normalize.MinMax") {
    Json::Object members = {{"normalize", column}, {"by", "range"}, {"min", arg("min")}, {"max", arg("max")}};
    if (!arg("newMin").is_null()) members.emplace_back("low", arg("newMin")), members.emplace_back("high", arg("newMax"));
    return step(std::move(members));
  }
  if (op == "Normalize.Standardize") return step({{"normalize", column}, {"mean", arg("mean")}, {"stdev", arg("stdev")}});
  if (op == "Normalize.SubtractMean") return step({{"normalize", column}, {"by", "mean"}, {"mean", arg("mean")}});
  if (op == "MapAllStringsExceptList") return step({{"map", column}, {"other", text("value")}, {"keep", arg("exceptions")}});
  if (op == "RemoveWhiteSpace") return derive(column, "without_blanks(" + column + ")");
  if (op == "ReplaceEmptyString") return derive(column, filled("if({} = '', '{}', {})", {column, arg("value"), column}));
  if (op == "AppendStringColumn") return derive(column, filled("concat('', {}, '{}')", {column, arg("append")}));
  if (op == "StringListToCategoricalSet") return step({{"list", column}, {"words", arg("categories")}, {"by", arg("delimiter")}});
  if (op == "StringMap") return step({{"map", column}, {"values", arg("map")}});
  if (op == "StringToTime") return derive(column, "time(" + column + ", '" + joda(text("format")) + "', '" + text("zone") + "')");
  if (op == "DeriveColumnsFromTime") {
    static const std::map<std::string, std::string> fields = {{"hourOfDay", "hour"}, {"dayOfMonth", "day"}, {"secondOfMinute", "second"}};
    Json list = Json::array();
    std::string after = text("insertAfter");
    for (const Json& each : arg("derive").as_array()) {
      const std::string name = each.as_array()[0].as_string(), what = each.as_array()[1].as_string();
      const std::string formula =
          fields.contains(what) ? fields.at(what) + "(" + column + ")" : "format_time(" + column + ", '" + joda(what) + "')";
      list.push(Json(Json::Object{{"derive", Json(Json::Object{{name, formula}})}, {"after", after}}));
      after = name;
    }
    return list;
  }
  if (op == "DuplicateColumns") {
    Json names = Json::object();
    for (size_t i = 0; i < arg("new").as_array().size(); ++i) names.set(arg("new").as_array()[i].as_string(), arg("columns").as_array()[i]);
    return step({{"copy", names}});
  }
  if (op == "IntegerMathOp" || op == "LongMathOp" || op == "DoubleMathOp")
    return derive(column, calculated(text("op"), column, arg("scalar").dump()));
  if (op == "IntegerColumnsMathOp" || op == "LongColumnsMathOp" || op == "DoubleColumnsMathOp")
    return derive(text("new"), calculated(text("op"), arg("columns").as_array()[0].as_string(), arg("columns").as_array()[1].as_string()));
  if (op == "TimeMathOp") return derive(column, calculated(text("op"), column, "span('" + arg("quantity").dump() + " hours')"));
  if (op == "DoubleMathFunction") return derive(column, text("function") == "SIN" ? "sin(" + column + ")" : "unknown");
  if (op == "RenameColumns") {
    Json names = Json::object();
    for (size_t i = 0; i < arg("old").as_array().size(); ++i) names.set(arg("old").as_array()[i].as_string(), arg("new").as_array()[i]);
    return step({{"rename", names}});
  }
  if (op == "ReorderColumns") return step({{"order", arg("order")}});
  if (op == "ConditionalReplaceValue") return derive(column, filled("if({}, {}, {})", {condition(arg("condition")), arg("value"), column}));
  if (op == "ConditionalReplaceValueWithDefault")
    return derive(column, filled("if({}, {}, {})", {condition(arg("condition")), arg("yes"), arg("no")}));
  if (op == "ConditionalCopyValue")
    return derive(text("replace"), filled("if({}, {}, {})", {condition(arg("condition")), arg("source"), arg("replace")}));
  if (op == "SequenceDifference") {
    Json::Object members = {{"difference", column}};
    if (arg("lookback").is_null()) members.emplace_back("first", 0);
    else members.emplace_back("lag", arg("lookback"));
    if (!arg("new").is_null()) members.emplace_back("new", arg("new"));
    return step(std::move(members));
  }
  if (op == "AddConstantColumn") return derive(text("new"), arg("value").dump());
  if (op == "ReplaceString") {
    std::string formula = column;
    for (const Json& each : arg("map").as_array())
      formula = "replace(" + formula + ", '" + each.as_array()[0].as_string() + "', '" + each.as_array()[1].as_string() + "')";
    return derive(column, formula);
  }
  if (op == "ReduceSequence" || op == "ReduceSequenceByWindow") {
    Json::Object members = {{"group", Json::array()}, {"other", aggregates().at(text("default"))}};
    for (const auto& [name, value] : args.as_object())
      if (aggregates().contains(name)) members.emplace_back(aggregates().at(name), value);
    Json list = Json::array();
    if (op == "ReduceSequenceByWindow") list = steps_of("TimeWindow", arg("window"), schema);
    list.push(Json(std::move(members)));
    return list;
  }
  if (op == "SequenceMovingWindowReduce") {
    Json::Object members = {{"moving", column}, {"rows", arg("lookback")}, {"op", aggregates().at(text("op"))}};
    if (!arg("new").is_null()) members.emplace_back("new", arg("new"));
    if (arg("edge") == Json("SpecifiedValue")) members.emplace_back("edge", "missing");
    return step(std::move(members));
  }
  if (op == "SequenceTrim") return step({{"trim", arg("steps")}, {"from", arg("fromStart").as_bool() ? "start" : "end"}});
  if (op == "SequenceTrimToLength")
    return text("mode") == "TRIM" ? step({{"length", arg("length")}}) : step({{"length", arg("length")}, {"pad", arg("pad")}});
  if (op == "SequenceOffset")
    return step({{"offset", arg("columns")},
                 {"by", arg("offset")},
                 {"new", text("operation") == "NewColumn"},
                 {"edge", text("edge") == "TrimSequence" ? "trim" : "missing"}});
  if (op == "StringListToCountsNDArray" || op == "StringListToIndicesNDArray")
    return step({{"list", column},
                 {"words", arg("vocabulary")},
                 {"by", arg("delimiter")},
                 {"as", op == "StringListToCountsNDArray" ? "counts" : "indices"},
                 {"new", arg("new")}});
  if (op == "TextToCharacterIndex") {
    std::vector<Json> words(arg("map").as_object().size());
    for (const auto& [letter, index] : arg("map").as_object()) words[static_cast<size_t>(index.as_int())] = letter;
    return step({{"expand", column}, {"words", list_of(words)}, {"by", ""}, {"new", arg("new")}});
  }
  if (op == "TextToTermIndexSequence")
    return step({{"expand", column}, {"words", arg("vocabulary")}, {"by", arg("delimiter")}, {"new", arg("new")}});
  if (op == "FirstDigit") {
    Json list = Json::array();
    for (const Json& each : arg("steps").as_array()) {
      const std::string from = each.as_array()[0].as_string(), to = each.as_array()[1].as_string();
      const bool other = each.as_array()[2].as_string() == "INCLUDE_OTHER_CATEGORY";
      const std::string formula = other ? "coalesce(first_digit(" + from + "), 'Other')" : "first_digit(" + from + ")";
      list.push(from == to ? Json(Json::Object{{"derive", Json(Json::Object{{to, formula}})}})
                           : Json(Json::Object{{"derive", Json(Json::Object{{to, formula}})}, {"after", from}}));
    }
    return list;
  }
  if (op == "TimeWindow" || op == "OverlappingTimeWindow") {
    Json::Object members = {{"windows", column}, {"size", arg("size").dump() + " seconds"}, {"empty", arg("excludeEmpty") != Json(true)}};
    if (!arg("separation").is_null()) members.emplace_back("every", arg("separation").dump() + " seconds");
    return step(std::move(members));
  }
  if (op == "SequenceSplitTimeSeparation") return step({{"split", column}, {"gap", arg("quantity").dump() + " minute"}});
  if (op == "Join") {
    static const std::map<std::string, std::string> how = {
        {"Inner", "inner"}, {"LeftOuter", "left"}, {"RightOuter", "right"}, {"FullOuter", "outer"}};
    Json right = schema_json(schema_of_case(arg("right_schema")));
    right.set("rows", arg("right"));
    return step({{"join", right}, {"on", arg("on")}, {"how", how.at(text("type"))}});
  }
  if (op == "Reduce") {
    const std::string other = schema.as_object()[1].first;
    return step({{"group", arg("key")}, {aggregates().at(text("op")), other}});
  }
  return {};
}

void expect_cell(const Column& column, const ColumnSpec& spec, int64_t row, const Json& expected, double tolerance) {
  if (expected.is_null()) {
    EXPECT_TRUE(column.is_missing(row)) << cell_text(column, spec, row);
  } else if (expected.is_number()) {
    ASSERT_FALSE(column.is_missing(row));
    const double value = column.number(row);
    if (column.type == Type::text) EXPECT_EQ(column.text(row), expected.dump());
    else
      EXPECT_LE(std::abs(value - expected.as_number()), tolerance * std::max(1.0, std::abs(expected.as_number())))
          << value << " for " << expected.dump();
  } else if (expected.is_array()) {
    std::string list;
    for (const Json& item : expected.as_array()) list += (list.empty() ? "" : " ") + item.dump();
    EXPECT_EQ(cell_text(column, spec, row), list);
  } else {
    EXPECT_EQ(cell_text(column, spec, row), expected.as_string());
  }
}

void expect_rows(const Frame& frame, int64_t begin, int64_t end, const Json::Array& rows, double tolerance) {
  ASSERT_EQ(end - begin, static_cast<int64_t>(rows.size()));
  for (int64_t r = begin; r < end; ++r) {
    const Json::Array& row = rows[static_cast<size_t>(r - begin)].as_array();
    ASSERT_EQ(row.size(), frame.columns.size());
    for (size_t c = 0; c < row.size(); ++c) expect_cell(frame.columns[c], frame.schema.columns[c], r, row[c], tolerance);
  }
}

TEST(TableSteps, DoWhatDataVecDoes) {
  const char* const data = std::getenv("PERIGEE_DATA");
  if (data == nullptr || !file_exists(std::string(data) + "/oracles/tables/datavec_cases.json"))
    GTEST_SKIP() << "PERIGEE_DATA has no oracles";
  const Bytes bytes = read_file(std::string(data) + "/oracles/tables/datavec_cases.json");
  const Json file = Json::parse(as_text(bytes), "datavec_cases.json");
  size_t passed = 0;
  for (const Json& one : file.find("cases")->as_array()) {
    const std::string op = one.find("op")->as_string();
    SCOPED_TRACE(op + " " + one.find("args")->dump());
    const Json steps = steps_of(op, *one.find("args"), *one.find("schema"));
    ASSERT_FALSE(steps.is_null());
    Frame frame = frame_of(schema_of_case(*one.find("schema")), *one.find("input"));
    if (one.find("sequence") != nullptr) frame.sequences = {0, frame.rows};
    try {
      Steps(steps, "steps", ".").run(frame);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    const double tolerance = one.find("tolerance") != nullptr ? one.find("tolerance")->as_number() : 1e-12;
    const Json::Array& expected = one.find("expected")->as_array();
    const bool nested =
        !expected.empty() && (expected[0].as_array().empty() || expected[0].as_array()[0].is_array()) && frame.sequences.size() > 1;
    if (nested) {
      ASSERT_EQ(frame.sequences.size(), expected.size() + 1);
      for (size_t s = 0; s < expected.size(); ++s)
        expect_rows(frame, frame.sequences[s], frame.sequences[s + 1], expected[s].as_array(), tolerance);
    } else {
      expect_rows(frame, 0, frame.rows, expected, tolerance);
    }
    if (const Json* schema_out = one.find("schema_out")) {
      const TableSchema wanted = schema_of_case(*schema_out);
      EXPECT_EQ(frame.schema.names(), wanted.names());
      for (size_t c = 0; c < wanted.columns.size(); ++c) {
        EXPECT_EQ(type_text(frame.schema.columns[c].type), type_text(wanted.columns[c].type));
        EXPECT_EQ(frame.schema.columns[c].least, wanted.columns[c].least);
        EXPECT_EQ(frame.schema.columns[c].most, wanted.columns[c].most);
      }
    }
    ++passed;
  }
  EXPECT_EQ(passed, 90u);
}

}  // namespace
}  // namespace perigee::tables
