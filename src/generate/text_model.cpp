#include "src/generate/text_model.h"

#include "src/model/record_reader.h"

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
  if (type == nullptr || type->as_string() != "text" || learned == nullptr || !learned->is_object())
    refuse("this is no model of text", type ? "data of type '" + type->as_string() + "'" : "a model without a job's data",
           "a model trained on a source of type 'text'");
  vocabulary_ = std::make_unique<TextNumbers>(Config(*learned, "vocabulary"));
  const Json* targets = text_value(*learned, "targets");
  every_ = targets != nullptr && targets->as_string() == "every";
  const NetworkInput& input = model.spec().inputs.at(0);
  const Type& output = model.output_types().at(0);
  const bool reads = model.spec().inputs.size() == 1 && input.type.dtype == Dtype::i64 && input.type.shape.rank() == 1;
  if (reads) context_ = input.type.shape[0];
  const Shape wanted = every_ ? Shape{vocabulary_->size(), context_} : Shape{vocabulary_->size()};
  const bool fits = output.shape.rank() == wanted.rank() && output.shape[0] >= wanted[0] && (!every_ || output.shape[1] == wanted[1]);
  if (!reads || !fits || model.link() != "softmax")
    refuse("the network does not foretell the text's units", input.type.text() + " to " + output.text(),
           "numbers of units to their scores " + wanted.text() + ", under a loss such as cross_entropy");
  filler_ = vocabulary_->filler();
}

std::vector<int64_t> TextModel::numbers(std::string_view prompt, const std::string& where) const {
  std::vector<int64_t> numbers;
  vocabulary_->read(prompt, where, 0, true, [&](int64_t number) { numbers.push_back(number); });
  if (numbers.empty())
    throw Error(ErrorKind::usage,
                {.where = where, .what = "there is nothing to go on from", .expected = std::string("a ") + vocabulary_->unit()});
  return numbers;
}

std::string TextModel::piece(int64_t unit, std::string_view before) const { return vocabulary_->piece(unit, before); }

}  // namespace perigee
