#include "src/data/table/columnar/arrow/handed_source.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "src/core/error.h"
#include "src/data/arrays.h"
#include "src/tensor/tensor.h"

namespace perigee {
namespace {

using tables::arrow::CColumn;
using tables::arrow::Kind;

// The same fields in each batch, one after the other.
class BatchesSource : public DataSource {
 public:
  BatchesSource(TablePtr table, std::vector<SourcePtr> batches)
      : table_(std::move(table)), batches_(std::move(batches)), fields_(batches_[0]->fields()) {
    for (const SourcePtr& batch : batches_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + batch->size());
      // Labels without names are counted by their greatest, which a batch may lack.
      for (size_t i = 0; i < fields_.size(); ++i) fields_[i].classes = std::max(fields_[i].classes, batch->fields()[i].classes);
    }
  }
  int64_t size() const override { return ends_.back(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const auto batch = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), key.index) - ends_.begin());
    ReadKey inner = key;
    if (batch > 0) inner.index -= ends_[batch - 1];
    batches_[batch]->read(inner, slots);
  }
  SourceTraits traits() const override {
    return {.description = "table " + table_->name() + " (" + std::to_string(size()) + " examples)", .cheap = true, .fixed = true};
  }

 private:
  TablePtr table_;  // whose memory the batches read
  std::vector<SourcePtr> batches_;
  std::vector<Field> fields_;
  std::vector<int64_t> ends_;
};

// A column of the table as a field, batch by batch.
class ColumnInPlace {
 public:
  ColumnInPlace(const TablePtr& table, size_t leaf) : table_(table), leaf_(leaf), own_(table->leaves()[leaf].field) {
    names_ = own_.dictionary >= 0 && own_.type == tables::Type::text;
    const bool fits = names_ || (own_.dictionary < 0 && (own_.kind == Kind::integer || own_.kind == Kind::real ||
                                                         own_.kind == Kind::boolean || own_.kind == Kind::fixed_list));
    if (!own_.refusal.empty()) no_field("the column is not read: " + own_.refusal, "leave it out of the table");
    if (!fits)
      no_field("the column has no numbers of a field as it lies there",
               R"({"type": "table", "host": ...} makes features of columns of all types; or leave it out)");
    if (names_) number_names();
  }

  NamedArray of_batch(int64_t batch) const {
    const CColumn column = table_->column(batch, leaf_);
    if (column.any_missing())
      no_field("rows without a value are no examples", R"({"type": "table", "host": ...} with a step 'impute' fills them in)");
    NamedArray array{.name = own_.name, .where = where()};
    array.values = values_of(column, batch);
    const bool whole = own_.kind == Kind::integer || own_.kind == Kind::boolean;
    array.label = names_ || (own_.name == "y" && whole);
    if (names_) array.class_names = class_names_;
    return array;
  }

 private:
  std::string where() const { return table_->name() + ": column '" + own_.name.substr(0, 60) + "'"; }
  [[noreturn]] void no_field(const std::string& what, const std::string& hint) const {
    throw Error(ErrorKind::data, {.where = where(), .what = what, .hint = hint});
  }

  static std::optional<Dtype> dtype_in_place(const tables::arrow::ArrowField& number) {
    if (number.kind == Kind::real) return number.width == 16 ? Dtype::f16 : number.width == 32 ? Dtype::f32 : Dtype::f64;
    if (number.kind != Kind::integer) return std::nullopt;
    if (number.width == 8 && !number.is_signed) return Dtype::u8;
    if (!number.is_signed || number.width < 32) return std::nullopt;
    return number.width == 32 ? Dtype::i32 : Dtype::i64;
  }

  Tensor values_of(const CColumn& column, int64_t batch) const {
    const auto number = column.number_field();
    const bool list = own_.kind == Kind::fixed_list && !names_;
    const Shape shape = list ? Shape({column.rows(), own_.width}) : Shape({column.rows()});
    const auto dtype = dtype_in_place(number);
    if (names_) column.places();  // checks them
    const std::byte* found = dtype && (!names_ || numbered_alike(batch)) ? column.numbers() : nullptr;
    if (found == nullptr || reinterpret_cast<uintptr_t>(found) % dtype_bytes(*dtype) != 0) return copied(column, shape, batch);
    const auto bytes = static_cast<size_t>(shape.elements()) * dtype_bytes(*dtype);
    // The arrays of a source are only read.
    return Tensor(std::make_shared<Storage>(Storage::borrow(const_cast<std::byte*>(found), bytes)), 0, *dtype, shape);
  }

  Tensor copied(const CColumn& column, const Shape& shape, int64_t batch) const {
    if (names_) {
      std::vector<int64_t> numbers = column.places();
      for (int64_t& number : numbers) number = name_numbers_[static_cast<size_t>(batch)][static_cast<size_t>(number)];
      return Tensor::from<int64_t>(shape, numbers);
    }
    const tables::Column values = column.values();
    if (values.type == tables::Type::real) return Tensor::from<double>(shape, values.real);
    if (values.type != tables::Type::list) {
      const Tensor whole = Tensor::from<int64_t>(shape, values.whole);
      return values.type == tables::Type::boolean ? whole.to(Dtype::boolean) : whole;
    }
    if (std::any_of(values.items.begin(), values.items.end(), [](double item) { return std::isnan(item); }) &&
        own_.children[0].kind == Kind::integer)
      no_field("a list has an element without a value", "fill it in before the table is handed over");
    return Tensor::from<double>(shape, values.items).to(own_.children[0].kind == Kind::integer ? Dtype::i64 : Dtype::f32);
  }

  // Every batch brings a dictionary of its own: the names in all of them are numbered as they come.
  void number_names() {
    for (int64_t b = 0; b < table_->chunks(); ++b) {
      const tables::Column entries = table_->column(b, leaf_).dictionary();
      std::vector<int64_t>& own = name_numbers_.emplace_back();
      for (int64_t r = 0; r < entries.size(); ++r) {
        const auto [found, fresh] = numbered_.emplace(entries.text(r), static_cast<int64_t>(class_names_.size()));
        if (fresh) class_names_.push_back(found->first);
        own.push_back(found->second);
      }
    }
  }
  // Whether the places in the batch's dictionary are the numbers of the names.
  bool numbered_alike(int64_t batch) const {
    const std::vector<int64_t>& own = name_numbers_[static_cast<size_t>(batch)];
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] != static_cast<int64_t>(i)) return false;
    return true;
  }

  TablePtr table_;
  size_t leaf_;
  const tables::arrow::ArrowField& own_;
  bool names_ = false;  // the field is the place in a dictionary of texts
  std::vector<std::string> class_names_;
  std::map<std::string, int64_t, std::less<>> numbered_;
  std::vector<std::vector<int64_t>> name_numbers_;  // of each batch's dictionary
};

}  // namespace

SourcePtr fields_in_place(const TablePtr& table) {
  std::vector<ColumnInPlace> columns;
  for (size_t leaf = 0; leaf < table->leaves().size(); ++leaf) columns.emplace_back(table, leaf);
  std::vector<SourcePtr> batches;
  for (int64_t b = 0; b < table->chunks(); ++b) {
    if (table->column(b, 0).rows() == 0) continue;
    std::vector<NamedArray> arrays;
    for (const ColumnInPlace& column : columns) arrays.push_back(column.of_batch(b));
    batches.push_back(arrays_source(table->name(), std::move(arrays)));
  }
  if (batches.empty())
    throw Error(ErrorKind::data, {.where = table->name(), .what = "the table has no rows", .expected = "at least one row"});
  return std::make_shared<BatchesSource>(table, std::move(batches));
}

}  // namespace perigee
