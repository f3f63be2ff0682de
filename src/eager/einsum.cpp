#include "src/eager/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "src/core/error.h"
#include "src/eager/eager.h"

namespace perigee {
namespace {

// A letter; or one of the dimensions of "...", numbered from the last: -1, -2, ..., as broadcasting pairs them.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kDots = 0;  // "..." in a formula, before it is spread

// The values that a formula is computed on, by number.
class Values {
 public:
  virtual ~Values() = default;
  virtual Type type(int value) const = 0;
  virtual int apply(const char* op, std::initializer_list<int> operands, Json attrs) = 0;

  int apply(const char* op, int x, const char* key, const std::vector<int64_t>& list) {
    Json attrs = Json::object();
    attrs.set(key, ints_json(list));
    return apply(op, {x}, std::move(attrs));
  }
  int reshape(int x, const std::vector<int64_t>& shape) { return apply("reshape", x, "shape", shape); }
  int transpose(int x, const std::vector<int64_t>& order) { return order.empty() ? x : apply("transpose", x, "order", order); }
  int sum(int x, const std::vector<int64_t>& axes) { return axes.empty() ? x : apply("reduce_sum", x, "axes", axes); }
};

class Arrays : public Values {
 public:
  explicit Arrays(std::span<const Array> operands) : all_(operands.begin(), operands.end()) {}
  const Array& at(int value) const { return all_[static_cast<size_t>(value)]; }
  Type type(int value) const override { return at(value).type(); }

  int apply(const char* op, std::initializer_list<int> operands, Json attrs) override {
    Elementwise element;
    if (find_elementwise(op, &element)) {
      std::vector<EagerOperand> given;
      for (const int value : operands) given.push_back({&at(value), 0});
      return add(eager_elementwise(element, given));
    }
    std::vector<Dtype> dtypes;
    for (const int value : operands) dtypes.push_back(at(value).view.dtype);
    const std::vector<Dtype> wanted = operand_dtypes(op_named(op), dtypes);
    std::vector<Array> converted;
    for (const int value : operands) converted.push_back(cast(at(value), wanted[converted.size()]));
    std::vector<const Array*> given;
    for (const Array& x : converted) given.push_back(&x);
    return add(eager_apply(op_named(op), given, attrs)[0]);
  }

 private:
  int add(Array x) {
    all_.push_back(std::move(x));
    return static_cast<int>(all_.size()) - 1;
  }

  std::vector<Array> all_;
};

class Recorded : public Values {
 public:
  explicit Recorded(Recorder& recorder) : recorder_(recorder) {}
  Type type(int value) const override { return recorder_.type(value); }
  int apply(const char* op, std::initializer_list<int> operands, Json attrs) override {
    std::vector<Recorder::Operand> given;
    for (const int value : operands) given.push_back({.value = value, .number = {}});
    return recorder_.apply(op, given, attrs).at(0);
  }

 private:
  Recorder& recorder_;
};

class GraphValues : public Values {
 public:
  explicit GraphValues(std::span<const Value> operands) : all_(operands.begin(), operands.end()) {}
  Value at(int value) const { return all_[static_cast<size_t>(value)]; }
  Type type(int value) const override { return at(value).type(); }
  int apply(const char* op, std::initializer_list<int> operands, Json attrs) override {
    std::vector<Value> given;
    for (const int value : operands) given.push_back(at(value));
    all_.push_back(all_[0].graph().apply(op, given, std::move(attrs)));
    return static_cast<int>(all_.size()) - 1;
  }

 private:
  std::vector<Value> all_;
};

std::vector<int> first_numbers(size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

struct Operand {
  int x = 0;
  Labels labels;

  bool has(Label label) const { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
  int64_t axis(Label label) const { return std::find(labels.begin(), labels.end(), label) - labels.begin(); }
};

std::string text_of(Label label) { return label <= kDots ? "..." : std::string(1, static_cast<char>(label)); }

class Formula {
 public:
  Formula(Values& values, const std::string& formula, std::span<const int> operands) : values_(values), formula_(formula) {
    parse(operands);
    parsed_ = operands_;
    for (size_t i = 0; i < operands_.size(); ++i) spread(operands_[i], parts_[i]);
    check_sizes();
    find_result();
    for (Operand& operand : operands_) take_diagonals(operand);
  }

  int compute() {
    Operand joined = sum_out(operands_[0], wanted_from(1));
    for (size_t i = 1; i < operands_.size(); ++i) {
      const std::set<Label> wanted = wanted_from(i + 1);
      std::set<Label> needed = wanted;
      needed.insert(joined.labels.begin(), joined.labels.end());
      joined = sum_out(join(joined, sum_out(operands_[i], needed), wanted), wanted);
    }
    std::vector<int64_t> order;
    for (const Label label : result_) order.push_back(joined.axis(label));
    return values_.transpose(joined.x, order);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::usage, {.where = "einsum '" + formula_.substr(0, 100) + "'", .what = what});
  }

  // "a...b" as labels.
  Labels labels_of(const std::string& part) const {
    Labels labels;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part.compare(i, 3, "...") == 0) {
        if (std::find(labels.begin(), labels.end(), kDots) != labels.end()) fail("'" + part + "' has '...' twice");
        labels.push_back(kDots);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(part[i]))) {
        labels.push_back(part[i]);
      } else {
        fail("'" + part.substr(i, 1) + "' is no label; labels are letters and '...'");
      }
    }
    return labels;
  }

  void parse(std::span<const int> operands) {
    std::string text = formula_;
    std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)); });
    const size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow) + ",";
    for (size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
      parts_.push_back(left.substr(0, comma));
      left.erase(0, comma + 1);
    }
    std::vector<Labels> labels;
    for (const std::string& part : parts_) labels.push_back(labels_of(part));
    if (parts_.size() != operands.size())
      fail("names " + std::to_string(parts_.size()) + " operands and has " + std::to_string(operands.size()) + "; the form is 'ij,jk->ik'");
    for (size_t i = 0; i < operands.size(); ++i) operands_.push_back({operands[i], labels[i]});
    if (arrow != std::string::npos) right_ = labels_of(text.substr(arrow + 2));
  }

  // A label for each dimension.
  void spread(Operand& operand, const std::string& part) const {
    const Type type = values_.type(operand.x);
    const bool dots = operand.has(kDots);
    const int named = static_cast<int>(operand.labels.size()) - dots;
    if (type.shape.rank() != named && !(dots && type.shape.rank() > named))
      fail("'" + part + "' has " + std::to_string(named) + " labels for " + type.text());
    Labels all;
    for (const Label label : operand.labels) {
      if (label != kDots) all.push_back(label);
      else
        for (int place = type.shape.rank() - named; place >= 1; --place) all.push_back(-place);
    }
    operand.labels = std::move(all);
  }

  // The size of each label. A dimension of "..." that is 1 where another operand has more is dropped: it broadcasts.
  void check_sizes() {
    std::map<Label, Type> from;
    for (const Operand& operand : operands_) {
      const Type type = values_.type(operand.x);
      for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
        const Label label = operand.labels[axis];
        const int64_t size = type.shape[static_cast<int>(axis)];
        const auto [known, fresh] = sizes_.try_emplace(label, size);
        const bool broadcasts = label < 0 && (size == 1 || known->second == 1);
        if (!fresh && known->second != size && !broadcasts)
          fail("'" + text_of(label) + "' is " + std::to_string(known->second) + " and " + std::to_string(size) + ", in " +
               from.at(label).text() + " and " + type.text());
        if (fresh || known->second == 1) known->second = size, from[label] = type;
      }
    }
    for (Operand& operand : operands_)
      for (size_t axis = operand.labels.size(); axis-- > 0;) {
        std::vector<int64_t> dims = values_.type(operand.x).shape.vector();
        if (operand.labels[axis] > 0 || dims[axis] == sizes_.at(operand.labels[axis])) continue;
        dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
        operand.x = values_.reshape(operand.x, dims);
        operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(axis));
      }
  }

  void find_result() {
    if (!right_) {
      std::map<Label, int> times;
      for (const Operand& operand : parsed_)
        for (const Label label : operand.labels) ++times[label];
      right_ = Labels{kDots};
      for (const auto& [label, number] : times)
        if (number == 1 && label != kDots) right_->push_back(label);
    }
    for (const Label label : *right_) {
      if (label == kDots) {
        for (const auto& [each, size] : sizes_)
          if (each < 0) result_.push_back(each);
        continue;
      }
      if (!sizes_.contains(label)) fail("no operand has '" + text_of(label) + "'");
      if (std::find(result_.begin(), result_.end(), label) != result_.end()) fail("the result has '" + text_of(label) + "' twice");
      result_.push_back(label);
    }
  }

  // Two axes of one label, of size n, become the last: every (n + 1)th element of both together.
  void take_diagonals(Operand& operand) {
    for (size_t a = 0; a < operand.labels.size(); ++a)
      for (size_t b = a + 1; b < operand.labels.size(); ++b) {
        if (operand.labels[a] != operand.labels[b]) continue;
        const Label label = operand.labels[a];
        operand.x = diagonal(operand.x, static_cast<int>(a), static_cast<int>(b));
        operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(b));
        operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(a));
        operand.labels.push_back(label);
        return take_diagonals(operand);
      }
  }

  int diagonal(int x, int a, int b) {
    const Shape shape = values_.type(x).shape;
    std::vector<int64_t> order, flat;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (axis == a || axis == b) continue;
      order.push_back(axis);
      flat.push_back(shape[axis]);
    }
    const int64_t n = shape[a];
    order.push_back(a), order.push_back(b);
    flat.push_back(n * n);
    const int lines = values_.reshape(values_.transpose(x, order), flat);
    std::vector<int64_t> start(flat.size(), 0), step(flat.size(), 1);
    step.back() = n + 1;
    Json attrs = Json::object();
    attrs.set("start", ints_json(start));
    attrs.set("stop", ints_json(flat));
    attrs.set("step", ints_json(step));
    return values_.apply("slice", {lines}, std::move(attrs));
  }

  // The labels that the operands from `index` on, or the result, have.
  std::set<Label> wanted_from(size_t index) const {
    std::set<Label> wanted(result_.begin(), result_.end());
    for (; index < operands_.size(); ++index) wanted.insert(operands_[index].labels.begin(), operands_[index].labels.end());
    return wanted;
  }

  Operand sum_out(const Operand& operand, const std::set<Label>& wanted) {
    std::vector<int64_t> axes;
    Labels kept;
    for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
      if (wanted.contains(operand.labels[axis])) kept.push_back(operand.labels[axis]);
      else axes.push_back(static_cast<int64_t>(axis));
    }
    return {values_.sum(operand.x, axes), kept};
  }

  // One dimension for each group of labels; an empty group has size 1.
  int grouped(const Operand& operand, std::initializer_list<const Labels*> groups) {
    std::vector<int64_t> order, shape;
    for (const Labels* group : groups) {
      int64_t product = 1;
      for (const Label label : *group) {
        order.push_back(operand.axis(label));
        product *= sizes_.at(label);
      }
      shape.push_back(product);
    }
    return values_.reshape(values_.transpose(operand.x, order), shape);
  }

  // The product over the labels that both have and nothing else wants.
  Operand join(const Operand& a, const Operand& b, const std::set<Label>& wanted) {
    Labels batch, left, inner, right;
    for (const Label label : a.labels) (!b.has(label) ? left : wanted.contains(label) ? batch : inner).push_back(label);
    for (const Label label : b.labels)
      if (!a.has(label)) right.push_back(label);
    const int from_left = grouped(a, {&batch, &left, &inner}), from_right = grouped(b, {&batch, &inner, &right});
    const int product = values_.apply(inner.empty() ? "mul" : "matmul", {from_left, from_right}, Json::object());
    Labels labels = batch;
    labels.insert(labels.end(), left.begin(), left.end());
    labels.insert(labels.end(), right.begin(), right.end());
    std::vector<int64_t> shape;
    for (const Label label : labels) shape.push_back(sizes_.at(label));
    return {values_.reshape(product, shape), labels};
  }

  Values& values_;
  const std::string formula_;
  std::vector<std::string> parts_;
  std::vector<Operand> operands_, parsed_;
  std::optional<Labels> right_;
  Labels result_;
  std::map<Label, int64_t> sizes_;
};

}  // namespace

Array einsum(const std::string& formula, std::span<const Array> operands) {
  Arrays values(operands);
  return values.at(Formula(values, formula, first_numbers(operands.size())).compute());
}

Value einsum(const std::string& formula, std::span<const Value> operands) {
  GraphValues values(operands);
  return values.at(Formula(values, formula, first_numbers(operands.size())).compute());
}

int einsum(Recorder& recorder, const std::string& formula, std::span<const int> operands) {
  Recorded values(recorder);
  return Formula(values, formula, operands).compute();
}

}  // namespace perigee
