#include "repl/commands/predict/results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "src/core/error.h"
#include "src/core/utf8.h"
#include "src/io/file.h"
#include "src/io/npy.h"

namespace perigee {
namespace {

constexpr size_t kShown = 16;  // values of a line

const Json::Array& list_in(const Json& json, const char* key) {
  static const Json::Array kNone;
  const Json* list = json.find(key);
  return list != nullptr && list->is_array() ? list->as_array() : kNone;
}

std::string results_text_in(const Json& json, const char* key) {
  const Json* text = json.find(key);
  return text == nullptr ? "" : text->is_string() ? text->as_string() : text->dump();
}

// The part of `result` for one output: itself where there is one alone.
const Json& part_of(const Json& result, const PredictedOutput& output) {
  const Json* outputs = result.find("outputs");
  const Json* own = outputs != nullptr ? outputs->find(output.name) : nullptr;
  return own != nullptr ? *own : result;
}

std::string numbers_text(const Json::Array& numbers) {
  std::string text;
  char number[32];
  for (size_t i = 0; i < numbers.size() && i < kShown; ++i) {
    std::snprintf(number, sizeof number, i == 0 ? "%.6g" : " %.6g", numbers[i].is_number() ? numbers[i].as_number() : 0.0 / 0.0);
    text += number;
  }
  return numbers.size() > kShown ? text + " ... (" + std::to_string(numbers.size()) + " values; --json prints all)" : text;
}

// The labels of a sequence: their text, or their numbers.
std::string labels_text(const Json& part) {
  if (part.find("text") != nullptr) return results_text_in(part, "text");
  std::string text;
  for (const Json& label : list_in(part, "labels")) text += (text.empty() ? "" : " ") + label.dump();
  return text;
}

class TextResults : public Results {
 public:
  TextResults(const std::vector<PredictedOutput>& outputs, int64_t top) : outputs_(outputs), top_(static_cast<size_t>(top)) {}

  void add(const Json& result, bool single) override {
    if (result.find("error")) return;  // it was told
    std::string line = results_text_in(result, "file");
    if (!single) line += "[" + results_text_in(result, "index") + "]";
    const bool named = outputs_.size() > 1;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      line += i == 0 ? ": " : "; ";
      if (named) line += printable(outputs_[i].name) + " ";
      const Json* layers = result.find("layers");
      if (outputs_[i].layer) line += layers != nullptr ? numbers_text(list_in(*layers, outputs_[i].name.c_str())) : "";
      else line += text_of(part_of(result, outputs_[i]), outputs_[i]);
    }
    std::printf("%s\n", line.c_str());
  }

 private:
  std::string text_of(const Json& part, const PredictedOutput& output) const {
    if (output.blank) return sequences_text(part);
    const Json::Array& p = list_in(part, "probabilities");
    if (p.empty()) return numbers_text(list_in(part, "values"));
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto value = [&](size_t c) { return p[c].is_number() ? p[c].as_number() : -1; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return value(a) > value(b); });
    std::string text;
    char percent[32];
    for (size_t i = 0; i < order.size() && i < top_; ++i) {
      std::snprintf(percent, sizeof percent, " %.2f %%", 100 * value(order[i]));
      text += (i ? ", " : "") + printable(output.class_name(static_cast<int64_t>(order[i]))) + percent;
    }
    return text;
  }

  std::string sequences_text(const Json& part) const {
    std::string text;
    char number[48];
    const auto add = [&](const Json& each) {
      const Json* score = each.find("log_probability");
      std::snprintf(number, sizeof number, " (log p %.4g)", score != nullptr && score->is_number() ? score->as_number() : -INFINITY);
      text += (text.empty() ? "" : ", ") + printable(labels_text(each)) + number;
    };
    add(part);
    const Json::Array& others = list_in(part, "alternatives");
    for (size_t i = 0; i < others.size() && i + 1 < top_; ++i) add(others[i]);
    return text;
  }

  const std::vector<PredictedOutput>& outputs_;
  size_t top_;
};

class JsonResults : public Results {
 public:
  void add(const Json& result, bool) override { std::printf("%s\n", result.dump().c_str()); }
};

class JsonFile : public Results {
 public:
  explicit JsonFile(std::string path) : path_(std::move(path)) {}
  void add(const Json& result, bool) override { text_ += result.dump() + "\n"; }
  void finish() override { write_file(path_, as_bytes(text_)); }

 private:
  std::string path_, text_;
};

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos && !text.starts_with(' ') && !text.ends_with(' ')) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// A row per example. A classifier has its label and a column of probabilities per class, a decoder of ctc the labels and their log
// probability, other outputs a column per value; with several outputs their names come in front.
class CsvFile : public Results {
 public:
  CsvFile(std::string path, const std::vector<PredictedOutput>& outputs, const std::string& target)
      : path_(std::move(path)), outputs_(outputs) {
    const bool several = std::count_if(outputs.begin(), outputs.end(), [](const auto& output) { return !output.layer; }) > 1;
    text_ = "file,index";
    for (const PredictedOutput& output : outputs) {
      const bool named = several || output.layer;
      const std::string front = named ? output.name + "." : "";
      if (output.blank) {
        text_ += "," + csv_cell(front + "labels") + "," + csv_cell(front + "log_probability");
        cells_ += 2;
        continue;
      }
      const int64_t values = output.classes > 0 ? output.classes : output.type.shape.elements();
      cells_ += static_cast<size_t>(values + (output.classes > 0));
      if (output.classes > 0) text_ += "," + csv_cell(front + "label");
      for (int64_t i = 0; i < values; ++i) {
        const std::string alone = named ? output.name : !target.empty() && target != "file" && target != "index" ? target : "value";
        text_ += "," + csv_cell(output.classes > 0 ? front + "p_" + output.class_name(i)
                                : values == 1      ? alone
                                                   : alone + "_" + std::to_string(i));
      }
    }
    text_ += "\n";
  }

  void add(const Json& result, bool) override {
    text_ += csv_cell(results_text_in(result, "file")) + "," + results_text_in(result, "index");
    if (result.find("error")) return void(text_.append(cells_, ',').append("\n"));
    for (const PredictedOutput& output : outputs_) {
      if (output.layer) {
        if (const Json* layers = result.find("layers")) add_numbers(list_in(*layers, output.name.c_str()));
        continue;
      }
      const Json& part = part_of(result, output);
      if (output.blank) {
        text_ += "," + csv_cell(labels_text(part)) + "," + results_text_in(part, "log_probability");
        continue;
      }
      if (output.classes > 0) text_ += "," + csv_cell(results_text_in(part, "label"));
      add_numbers(list_in(part, output.classes > 0 ? "probabilities" : "values"));
    }
    text_ += "\n";
  }

  void finish() override { write_file(path_, as_bytes(text_)); }

 private:
  void add_numbers(const Json::Array& numbers) {
    for (const Json& number : numbers) text_ += "," + (number.is_null() ? std::string("nan") : number.dump());
  }

  std::string path_;
  const std::vector<PredictedOutput>& outputs_;
  std::string text_;
  size_t cells_ = 0;  // of a row behind file and index
};

// One array [examples, ...]: the network's only output, or the only layer that was asked for.
class NpyFile : public Results {
 public:
  NpyFile(std::string path, const std::vector<PredictedOutput>& outputs) : path_(std::move(path)), output_(chosen(path_, outputs)) {}

  void add(const Json& result, bool) override {
    const Json* layers = result.find("layers");
    const Json& from = output_.layer && layers != nullptr ? *layers : result;
    const char* key = output_.layer ? output_.name.c_str() : output_.classes > 0 ? "probabilities" : "values";
    if (result.find("error")) numbers_.resize(numbers_.size() + static_cast<size_t>(values()), 0.0f / 0.0f);
    for (const Json& number : list_in(from, key))
      numbers_.push_back(number.is_number() ? static_cast<float>(number.as_number()) : 0.0f / 0.0f);
    ++examples_;
  }

  void finish() override {
    std::vector<int64_t> dims = output_.classes > 0 ? std::vector<int64_t>{output_.classes} : output_.type.shape.vector();
    dims.insert(dims.begin(), examples_);
    write_file(path_, npy_bytes(Tensor::from<float>(Shape(dims), numbers_)));
  }

 private:
  int64_t values() const { return output_.classes > 0 ? output_.classes : output_.type.shape.elements(); }
  static const PredictedOutput& chosen(const std::string& path, const std::vector<PredictedOutput>& outputs) {
    const auto layers = std::count_if(outputs.begin(), outputs.end(), [](const auto& output) { return output.layer; });
    if (layers == 1) return outputs.back();
    if (outputs.size() == 1) return outputs.front();
    throw Error(ErrorKind::usage, {.where = "--out " + path,
                                   .what = "an .npy file holds one array",
                                   .got = std::to_string(outputs.size()) + " outputs",
                                   .hint = "name one with --layer, or write .jsonl or .csv"});
  }

  std::string path_;
  const PredictedOutput& output_;
  std::vector<float> numbers_;
  int64_t examples_ = 0;
};

}  // namespace

Json with_file(const std::string& file, const Json& result) {
  Json all = Json(Json::Object{{"file", file}});
  for (const auto& [key, value] : result.as_object()) all.set(key, value);
  return all;
}

std::unique_ptr<Results> results_as_text(const std::vector<PredictedOutput>& outputs, int64_t top) {
  return std::make_unique<TextResults>(outputs, top);
}

std::unique_ptr<Results> results_as_json() { return std::make_unique<JsonResults>(); }

std::unique_ptr<Results> results_in_file(const std::string& path, const std::vector<PredictedOutput>& outputs, const std::string& target) {
  if (folder_exists(path))
    throw Error(ErrorKind::usage, {.where = "--out", .what = "is a folder", .got = path, .expected = "a file's name"});
  if (path.ends_with(".jsonl")) return std::make_unique<JsonFile>(path);
  if (path.ends_with(".csv")) return std::make_unique<CsvFile>(path, outputs, target);
  if (path.ends_with(".npy")) return std::make_unique<NpyFile>(path, outputs);
  throw Error(ErrorKind::usage, {.where = "--out",
                                 .what = "results cannot be written to a file of this name",
                                 .got = path,
                                 .expected = ".csv, .jsonl or .npy",
                                 .hint = path.ends_with(".json") ? "did you mean '" + path + "l'?" : ""});
}

}  // namespace perigee
