// perigee.h: tables that come and go by Arrow's C data and stream interfaces.
#include "src/api/handles.h"
#include "src/data/table/columnar/arrow/c_export.h"
#include "src/data/table/columnar/arrow/handed_source.h"

using namespace perigee;
using tables::arrow::ExportNode;
using tables::arrow::Owned;

namespace {

std::string table_name(const char* name) { return name != nullptr && *name != 0 ? name : "table"; }

void give_table(TablePtr table, perigee_source** out) {
  auto handle = std::make_unique<perigee_source>();
  handle->source = std::make_shared<HandedSource>(std::move(table));
  *out = handle.release();
}

// --- Predictions as columns -----------------------------------------------------------------------------------------------------

const char* format_of_values(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "f";
    case Dtype::f64: return "g";
    case Dtype::f16: return "e";
    case Dtype::i32: return "i";
    case Dtype::i64: return "l";
    case Dtype::u8: return "C";
    default: return "";
  }
}

// A name that no column has yet.
std::string own_name(const ExportNode& batch, std::string name) {
  for (const ExportNode& each : batch.children)
    if (each.name == name) return own_name(batch, name + "_");
  return name;
}

// [examples, 3, 4] is a list of 3 lists of 4 numbers for each example; one number stands for itself.
ExportNode values_column(const std::string& name, Tensor values, const Shape& shape) {
  if (values.dtype() == Dtype::bf16) values = values.to(Dtype::f32);
  if (values.dtype() == Dtype::boolean) values = values.to(Dtype::u8);
  ExportNode column{.name = shape.elements() == 1 ? name : "item", .format = format_of_values(values.dtype()), .length = values.elements()};
  column.buffers = {nullptr, values.data<std::byte>()};
  column.owners.push_back(values.storage());
  if (shape.elements() == 1) return column;
  for (int d = shape.rank(); d-- > 0;) {
    ExportNode list{.name = d == 0 ? name : "item", .format = "+w:" + std::to_string(shape[d]), .length = column.length / shape[d]};
    list.buffers = {nullptr};
    list.children.push_back(std::move(column));
    column = std::move(list);
  }
  return column;
}

template <class T>
ExportNode numbers_column(const std::string& name, const char* format, std::shared_ptr<const std::vector<T>> numbers) {
  ExportNode column{.name = name, .format = format, .length = static_cast<int64_t>(numbers->size())};
  column.buffers = {nullptr, numbers->data()};
  column.owners.push_back(std::move(numbers));
  return column;
}

std::unique_ptr<ExportNode> texts(const std::vector<std::string>& list) {
  auto ends = std::make_shared<std::vector<int64_t>>(1, 0);
  auto bytes = std::make_shared<std::string>();
  for (const std::string& text : list) *bytes += text, ends->push_back(static_cast<int64_t>(bytes->size()));
  auto node = std::make_unique<ExportNode>(ExportNode{.format = "U", .length = static_cast<int64_t>(list.size())});
  node->buffers = {nullptr, ends->data(), bytes->data()};
  node->owners = {std::move(ends), std::move(bytes)};
  return node;
}

// The most probable class of each example: its number, or by a dictionary its name.
ExportNode class_column(const std::string& name, const PredictedOutput& output, const Tensor& values, int64_t examples) {
  auto numbers = std::make_shared<std::vector<int64_t>>();
  for (int64_t i = 0; i < examples; ++i) {
    const std::vector<double> p = class_probabilities(output, values, i);
    numbers->push_back(std::max_element(p.begin(), p.end()) - p.begin());
  }
  ExportNode column = numbers_column<int64_t>(name, "l", std::move(numbers));
  if (output.class_names.empty()) return column;
  std::vector<std::string> names;
  for (int64_t c = 0; c < output.classes; ++c) names.push_back(output.class_name(c));
  column.dictionary = texts(names);
  return column;
}

std::shared_ptr<const ExportNode> batch_of_prediction(const std::shared_ptr<const Predictions>& results) {
  auto batch = std::make_shared<ExportNode>(ExportNode{.format = "+s", .length = results->examples()});
  batch->buffers = {nullptr};
  batch->children.push_back(numbers_column<int64_t>("row", "l", {results, &results->rows}));
  for (size_t i = 0; i < results->outputs.size(); ++i) {
    const PredictedOutput& output = results->outputs[i];
    const std::string name = own_name(*batch, output.name);
    batch->children.push_back(values_column(name, results->values[i], output.type.shape));
    const int64_t each = output.type.shape.elements();
    if (output.classes > 0 && (each == output.classes || each == 1))
      batch->children.push_back(class_column(own_name(*batch, name + "_class"), output, results->values[i], results->examples()));
  }
  return batch;
}

}  // namespace

extern "C" {

perigee_status perigee_source_from_arrow(perigee_context* context, const char* name, struct ArrowArrayStream* stream,
                                         perigee_source** out) noexcept {
  if (out) *out = nullptr;
  Owned<ArrowArrayStream> taken(stream);  // whatever goes wrong
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, "perigee_source_from_arrow", "out must not be null");
    give_table(std::make_shared<tables::arrow::HandedTable>(stream ? taken.get() : nullptr, table_name(name)), out);
  });
}

perigee_status perigee_source_from_arrow_array(perigee_context* context, const char* name, struct ArrowSchema* schema,
                                               struct ArrowArray* array, perigee_source** out) noexcept {
  if (out) *out = nullptr;
  Owned<ArrowSchema> taken_schema(schema);
  Owned<ArrowArray> taken(array);
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, "perigee_source_from_arrow_array", "out must not be null");
    give_table(std::make_shared<tables::arrow::HandedTable>(taken_schema.get(), taken.get(), table_name(name)), out);
  });
}

perigee_status perigee_prediction_arrow(perigee_prediction* prediction, struct ArrowArrayStream* out) noexcept {
  if (out) *out = {};
  if (!prediction) return PERIGEE_USAGE;
  return guard(*prediction->context, prediction->message, [&] {
    require(out != nullptr, "perigee_prediction_arrow", "out must not be null");
    tables::arrow::give_stream(batch_of_prediction(prediction->results), out);
  });
}
}
