// Cells of a table that do not meet its schema, and both reports as texts.
#include <algorithm>
#include <cstdio>
#include <map>

#include "src/data/table/analysis/analysis.h"
#include "src/data/table/expression/regex.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {
namespace {

struct Example {
  int64_t row = 0;  // from 1
  size_t column = 0;
  std::string value;
  const char* why = "";
};

struct Checked {
  std::vector<int64_t> missing, invalid;
  std::vector<std::map<std::string, int64_t>> why;
  std::vector<Example> examples;
  explicit Checked(size_t columns = 0) : missing(columns), invalid(columns), why(columns) {}
};

// Why a value that is there does not meet its column; null: it does.
const char* objection(const Column& column, const ColumnSpec& spec, int64_t row, const Regex* pattern) {
  const bool text = column.type == Type::text;
  if (spec.least || spec.most) {
    const double x = text ? static_cast<double>(column.text(row).size()) : column.number(row);
    if (spec.least && x < *spec.least) return text ? "too short" : "below min";
    if (spec.most && x > *spec.most) return text ? "too long" : "above max";
  }
  return text && pattern != nullptr && !pattern->is_all_of(column.text(row)) ? "pattern" : nullptr;
}

void check_quality_table(const CsvBlock& block, const std::vector<std::unique_ptr<Regex>>& patterns, size_t most, Checked* out) {
  const Frame& frame = block.frame;
  *out = Checked(frame.columns.size());
  const auto note = [&](int64_t row, size_t c, std::string value, const char* why) {
    ++out->invalid[c];
    ++out->why[c][why];
    if (out->examples.size() < most) out->examples.push_back({row + 1, c, std::move(value), why});
  };
  for (const Misfit& misfit : block.misfit_cells)
    if (out->examples.size() < most)
      out->examples.push_back(
          {misfit.row + 1, misfit.column, misfit.text, frame.schema.columns[misfit.column].type == Type::category ? "category" : "type"});
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    const Column& column = frame.columns[c];
    const ColumnSpec& spec = frame.schema.columns[c];
    const int64_t misfits = block.misfits.empty() ? 0 : block.misfits[c];
    out->invalid[c] = misfits;
    if (misfits > 0) out->why[c][spec.type == Type::category ? "category" : "type"] = misfits;
    out->missing[c] = std::count(column.missing.begin(), column.missing.end(), 1) - misfits;
    const bool checked = spec.least || spec.most || patterns[c] != nullptr;
    for (int64_t r = 0; (checked || spec.required) && r < frame.rows; ++r) {
      if (column.is_missing(r)) {
        const auto same = [&](const Misfit& misfit) { return misfit.row == r && misfit.column == c; };
        if (spec.required && misfits == 0) note(r, c, "", "required");
        else if (spec.required && block.misfit_cells.size() < kMostMisfits &&
                 std::none_of(block.misfit_cells.begin(), block.misfit_cells.end(), same))
          note(r, c, "", "required");
      } else if (const char* why = objection(column, spec, r, patterns[c].get())) {
        note(r, c, cell_text(column, spec, r), why);
      }
    }
  }
  std::stable_sort(out->examples.begin(), out->examples.end(), [](const Example& a, const Example& b) { return a.row < b.row; });
}

std::string quality_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

double number_of(const Json* json) { return json != nullptr && json->is_number() ? json->as_number() : 0; }

std::string whole_text(const Json* json) { return std::to_string(static_cast<int64_t>(number_of(json))); }

// Columns side by side; the first to the left, others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - row[c].size(), ' ');
      line += (c > 0 ? "  " : "") + (c < 2 ? row[c] + gap : gap + row[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string short_name(const std::string& name) { return name.size() > 32 ? name.substr(0, 29) + "..." : name; }

}  // namespace

Json check_quality(TableFile& file, const std::string& name, size_t examples) {
  const std::vector<ColumnSpec> specs = file.schema().columns;
  Checked whole(specs.size());
  int64_t rows = 0;
  std::vector<Checked> parts(64);
  std::vector<std::vector<std::unique_ptr<Regex>>> patterns(64);  // a pattern is for one thread at a time
  file.each(
      [&](TableFile::Chunk& chunk) {
        auto& mine = patterns[static_cast<size_t>(chunk.rank)];
        if (mine.empty())
          for (const ColumnSpec& spec : specs)
            mine.push_back(spec.pattern.empty() ? nullptr : std::make_unique<Regex>(spec.pattern, name + ": column '" + spec.name + "'"));
        check_quality_table(chunk.block, mine, examples, &parts[static_cast<size_t>(chunk.rank)]);
      },
      [&](TableFile::Chunk& chunk) {
        Checked& part = parts[static_cast<size_t>(chunk.rank)];
        rows += chunk.block.frame.rows;
        for (size_t c = 0; c < specs.size(); ++c) {
          whole.missing[c] += part.missing[c];
          whole.invalid[c] += part.invalid[c];
          for (const auto& [why, count] : part.why[c]) whole.why[c][why] += count;
        }
        for (Example& example : part.examples) {
          if (whole.examples.size() >= examples) break;
          example.row += chunk.first_row;
          whole.examples.push_back(std::move(example));
        }
      });
  Json columns = Json::array(), list = Json::array();
  int64_t invalid = 0;
  for (size_t c = 0; c < specs.size(); ++c) {
    Json why = Json::object();
    for (const auto& [reason, count] : whole.why[c]) why.set(reason, count);
    // A value that is required and missing is counted once.
    const auto required = whole.why[c].find("required");
    const int64_t lacking = required == whole.why[c].end() ? 0 : required->second;
    columns.push(Json(Json::Object{{"name", specs[c].name},
                                   {"type", type_text(specs[c].type)},
                                   {"valid", rows - whole.missing[c] - whole.invalid[c] + lacking},
                                   {"missing", whole.missing[c]},
                                   {"invalid", whole.invalid[c]},
                                   {"why", std::move(why)}}));
    invalid += whole.invalid[c];
  }
  for (const Example& example : whole.examples)
    list.push(
        Json(Json::Object{{"row", example.row}, {"column", specs[example.column].name}, {"value", example.value}, {"why", example.why}}));
  return Json(
      Json::Object{{"file", name}, {"rows", rows}, {"invalid", invalid}, {"columns", std::move(columns)}, {"examples", std::move(list)}});
}

std::string analysis_text(const Json& analysis) {
  std::vector<std::vector<std::string>> rows = {{"column", "type", "missing", "distinct", "min", "mean", "median", "max", "stdev"}};
  std::vector<std::string> frequent;
  for (const Json& column : analysis.find("columns")->as_array()) {
    const std::string type = column.find("type")->as_string();
    std::vector<std::string> row = {short_name(column.find("name")->as_string()), type, whole_text(column.find("missing")),
                                    whole_text(column.find("distinct"))};
    const auto value = [&](const Json* json) {
      std::string text;
      if (json == nullptr || !json->is_number()) return text;
      if (type != "time") return quality_number(json->as_number());
      append_time(static_cast<int64_t>(json->as_number()), "", text);
      return text.substr(0, 19);
    };
    if (column.find("mean") != nullptr) {
      for (const char* key : {"min", "mean"}) row.push_back(value(column.find(key)));
      row.push_back(value(column.find("quantiles")->find("0.5")));
      row.push_back(value(column.find("max")));
      row.push_back(type == "time" ? quality_number(number_of(column.find("stdev")) / 86'400'000) + " d" : value(column.find("stdev")));
    }
    rows.push_back(std::move(row));
    if (const Json* top = column.find("top"); top != nullptr && type != "boolean") {
      std::string line = short_name(column.find("name")->as_string()) + ":";
      for (size_t i = 0; i < top->as_array().size() && i < 5; ++i) {
        const Json::Array& each = top->as_array()[i].as_array();
        line += (i ? ", '" : " '") + each[0].as_string().substr(0, 30) + "' " + whole_text(&each[1]);
      }
      frequent.push_back(line);
    }
  }
  std::string text = analysis.find("file")->as_string() + ": " + whole_text(analysis.find("rows")) + " rows, " +
                     std::to_string(rows.size() - 1) + " columns\n\n" + aligned(rows);
  if (!frequent.empty()) text += "\nfrequent values\n";
  for (const std::string& line : frequent) text += line + "\n";
  const Json* correlations = analysis.find("correlations");
  if (correlations == nullptr) return text;
  std::vector<std::pair<double, std::string>> strong;
  const Json::Array& names = correlations->find("columns")->as_array();
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (const Json& r = correlations->find("values")->as_array()[i].as_array()[j]; r.is_number() && std::abs(r.as_number()) >= 0.3)
        strong.emplace_back(r.as_number(), short_name(names[j].as_string()) + ", " + short_name(names[i].as_string()));
  std::stable_sort(strong.begin(), strong.end(), [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  if (!strong.empty()) text += "\ncorrelations\n";
  for (size_t i = 0; i < strong.size() && i < 10; ++i) text += quality_number(strong[i].first) + "  " + strong[i].second + "\n";
  return text;
}

std::string quality_text(const Json& quality) {
  std::vector<std::vector<std::string>> rows = {{"column", "type", "valid", "missing", "invalid", "why"}};
  for (const Json& column : quality.find("columns")->as_array()) {
    std::string why;
    for (const auto& [reason, count] : column.find("why")->as_object())
      why += (why.empty() ? "" : ", ") + reason + " " + whole_text(&count);
    rows.push_back({short_name(column.find("name")->as_string()), column.find("type")->as_string(), whole_text(column.find("valid")),
                    whole_text(column.find("missing")), whole_text(column.find("invalid")), why});
  }
  std::string text = quality.find("file")->as_string() + ": " + whole_text(quality.find("rows")) + " rows, " +
                     whole_text(quality.find("invalid")) + " values that do not meet the schema\n\n" + aligned(rows);
  for (const Json& example : quality.find("examples")->as_array())
    text += (text.ends_with("\n\n")                                 ? ""
             : &example == &quality.find("examples")->as_array()[0] ? "\n"
                                                                    : "") +
            std::string("row ") + whole_text(example.find("row")) + ", " + example.find("column")->as_string() + ": '" +
            example.find("value")->as_string() + "' (" + example.find("why")->as_string() + ")\n";
  return text;
}

}  // namespace perigee::tables
