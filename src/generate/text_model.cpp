#include "src/generate/text_model.h"

#include <algorithm>

#include "src/model/records/record_reader.h"

namespace perigee {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& got, const std::string& expected, const std::string& hint = "") {
  throw Error(ErrorKind::usage, {.where = "generate", .what = what, .got = got, .expected = expected, .hint = hint});
}

const Json* text_value(const Json& value, const char* key) {
  const Json* found = value.is_object() ? value.find(key) : nullptr;
  return found != nullptr && found->is_string() ? found : nullptr;
}

}  // namespace

TextModel::TextModel(const Model& model, const Json& job, const Json& fitted) {
  const RecordReader reader(model.spec(), job, fitted);
  const Json& leaf = reader.leaf();
  const Json* type = text_value(leaf, "type");
  const Json* learned = leaf.is_object() ? leaf.find("fitted") : nullptr;
  const bool pairs = type != nullptr && type->as_string() == "text_pairs";
  // Documents have one label each; in rows of several the target may be what comes next.
  const Json* row = reader.packed();
  const Json* next = row != nullptr ? text_value(*row, "next") : nullptr;
  const bool packed =
      type != nullptr && type->as_string() == "documents" && next != nullptr && next->as_string() == model.spec().target.name;
  if (type == nullptr || (type->as_string() != "text" && !pairs && !packed) || learned == nullptr || !learned->is_object())
    refuse("this is no model of text", type ? "data of type '" + type->as_string() + "'" : "a model without a job's data",
           "a model trained on a source of type 'text' or 'text_pairs', or on 'packed' documents with 'next' as the target");
  if (pairs) read_pairs(model, Config(*learned, "vocabulary"));
  else if (packed) read_packed(model, Config(*learned, "vocabulary"));
  else read_text(model, Config(*learned, "vocabulary"));
  if (window_ == 0) window_ = context_;
  filler_ = vocabulary_->filler();
}

void TextModel::read_text(const Model& model, const Config& learned) {
  vocabulary_ = std::make_unique<TextNumbers>(learned);
  every_ = learned.string("targets", "") == "every";
  const NetworkInput& input = model.spec().inputs.at(0);
  const Type& output = model.output_types().at(0);
  const bool reads = model.spec().inputs.size() == 1 && input.type.dtype == Dtype::i64 && input.type.shape.rank() == 1;
  if (reads) context_ = input.type.shape[0];
  const Shape wanted = every_ ? Shape{vocabulary_->size(), context_} : Shape{vocabulary_->size()};
  const bool fits = output.shape.rank() == wanted.rank() && output.shape[0] >= wanted[0] && (!every_ || output.shape[1] == wanted[1]);
  if (!reads || !fits || model.link() != "softmax")
    refuse("the network does not foretell the text's units", input.type.text() + " to " + output.text(),
           "numbers of units to their scores " + wanted.text() + ", under a loss such as cross_entropy");
  stepped_ = input.name;
}

// A sequence of a row is no longer than its document was, whatever room the row has: that many steps the model has learned.
void TextModel::read_packed(const Model& model, const Config& learned) {
  vocabulary_ = std::make_unique<TextNumbers>(learned);
  every_ = true;
  std::string got;
  bool fits = model.link() == "softmax";
  for (const NetworkInput& input : model.spec().inputs) {
    got += (got.empty() ? "" : ", ") + input.name + " " + input.type.text();
    const bool row = input.type.dtype == Dtype::i64 && input.type.shape.rank() == 1;
    if (input.role == FieldRole::none && row && stepped_.empty()) stepped_ = input.name, window_ = input.type.shape[0];
    else if (input.role == FieldRole::length && input.type.dtype == Dtype::i64) row_count_ = input.name;
    else if (input.role == FieldRole::segment && row) segments_ = input.name;
    else fits = false;
  }
  const Type& output = model.output_types().at(0);
  const Shape wanted{vocabulary_->size(), window_};
  if (!fits || stepped_.empty() || !packed() || output.shape.rank() != 2 || output.shape[0] < wanted[0] || output.shape[1] != window_)
    refuse("the network does not foretell the text's units", got + " to " + output.text(),
           "numbers of units to their scores " + wanted.text() + ", under a loss such as cross_entropy");
  context_ = std::clamp<int64_t>(learned.integer("length", window_), 1, window_);
}

// The source names its fields.
void TextModel::read_pairs(const Model& model, const Config& learned) {
  read_ = std::make_unique<TextNumbers>(learned.object("input"));
  vocabulary_ = std::make_unique<TextNumbers>(learned.object("output"));
  every_ = true;
  std::string got;
  bool fits = model.link() == "softmax";
  for (const NetworkInput& input : model.spec().inputs) {
    got += (got.empty() ? "" : ", ") + input.name + " " + input.type.text();
    const bool numbers = input.type.dtype == Dtype::i64;
    if (numbers && input.name == "d" && input.type.shape.rank() == 1) stepped_ = "d", context_ = input.type.shape[0];
    else if (numbers && input.name == "x" && input.type.shape.rank() == 1) whole_ = "x", length_ = input.type.shape[0];
    else if (numbers && input.name == "n" && input.type.shape.rank() == 0) count_ = "n";
    else fits = false;
  }
  const Type& output = model.output_types().at(0);
  const Shape wanted{vocabulary_size(), context_};
  if (!fits || stepped_.empty() || whole_.empty() || output.shape.rank() != 2 || output.shape[0] < wanted[0] ||
      output.shape[1] != wanted[1])
    refuse("the network does not foretell the units of an output", got + " to " + output.text(),
           "x, a text's numbers, and d, those of the output so far, to scores " + wanted.text() + ", under a loss such as cross_entropy");
}

TextMemory TextModel::memory(std::string_view input, const std::string& where) const {
  std::vector<int64_t> numbers;
  read_->read(input, where, 0, true, [&](int64_t number) { numbers.push_back(number); });
  const auto count = static_cast<int64_t>(numbers.size());
  if (numbers.empty())
    throw Error(ErrorKind::usage, {.where = where, .what = "there is nothing to read", .expected = std::string("a ") + read_->unit()});
  if (count > length_)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the text is longer than what the model reads",
                                  .got = std::to_string(count) + " " + read_->unit() + "s",
                                  .expected = "at most " + std::to_string(length_)});
  numbers.resize(static_cast<size_t>(length_));
  TextMemory memory{{whole_, std::move(numbers)}};
  if (!count_.empty()) memory[count_] = {count};
  return memory;
}

std::vector<int64_t> TextModel::numbers(std::string_view prompt, const std::string& where) const {
  std::vector<int64_t> numbers;
  if (encodes()) numbers.push_back(end());
  vocabulary_->read(prompt, where, 0, true, [&](int64_t number) { numbers.push_back(number); });
  if (static_cast<int64_t>(numbers.size()) > context_ && encodes())
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the model writes no texts as long as this beginning",
                                  .got = std::to_string(numbers.size() - 1) + " " + vocabulary_->unit() + "s",
                                  .expected = "at most " + std::to_string(context_ - 1)});
  if (numbers.empty())
    throw Error(ErrorKind::usage,
                {.where = where, .what = "there is nothing to go on from", .expected = std::string("a ") + vocabulary_->unit()});
  return numbers;
}

std::string TextModel::piece(int64_t unit, std::string_view before) const { return vocabulary_->piece(unit, before); }

}  // namespace perigee
