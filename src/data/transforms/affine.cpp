#include "src/data/transforms/affine.h"

#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "src/data/records/partition.h"

namespace perigee {

AffineTransform::AffineTransform(const Config& config, const Field& input, std::vector<float> factors, std::vector<float> offsets,
                                 Json fitted)
    : output_(input),
      input_(input.dtype),
      elements_(input.shape.elements()),
      factors_(std::move(factors)),
      offsets_(std::move(offsets)),
      fitted_(std::move(fitted)) {
  if (input.classes > 0)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "field '" + input.name + "' is a class label: it has no scale",
                                  .hint = "leave the transform of it out; a column of numbers is read as numbers with task = \"regress\""});
  const auto count = static_cast<int64_t>(factors_.size());
  const int64_t channels = input.shape.rank() > 0 ? input.shape[0] : 1;
  if (factors_.size() != offsets_.size() || (count != 1 && count != channels && count != elements_))
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "the values do not fit field '" + input.name + "' of shape " + input.shape.text(),
                                  .got = std::to_string(count) + " of them",
                                  .expected = "1, " + std::to_string(channels) + " or " + std::to_string(elements_)});
  group_ = elements_ / std::max<int64_t>(count, 1);
  output_.dtype = Dtype::f32;
}

void AffineTransform::apply(const std::byte* in, std::byte* out, Draw&) const {
  auto* to = reinterpret_cast<float*>(out);
  convert(input_, in, Dtype::f32, to, elements_);
  for (size_t g = 0; g < factors_.size(); ++g) {
    const float factor = factors_[g], offset = offsets_[g];
    float* group = to + static_cast<int64_t>(g) * group_;
    for (int64_t i = 0; i < group_; ++i) group[i] = group[i] * factor + offset;
  }
}

Over over_option(const Config& config, const Field& field) {
  const std::string over = config.choice("over", field.shape.rank() >= 2 ? "channel" : "element", {"element", "channel", "all"});
  return over == "element" ? Over::element : over == "channel" ? Over::channel : Over::all;
}

int64_t groups_of(const Field& field, Over over) {
  if (over == Over::all || field.shape.rank() == 0) return 1;
  return over == Over::channel ? field.shape[0] : field.shape.elements();
}

namespace {

// The steps that count of the example whose fields are in `slots`.
class CountedSteps {
 public:
  CountedSteps(const Config& config, const DataSource& source, const Field& of) : counts_(steps_of(of), 1) {
    const std::string length = config.string("lengths", ""), mask = config.string("masks", "");
    if (length.empty() && mask.empty()) return;
    mask_ = length.empty();
    field_ = static_cast<int>(field_index(source, mask_ ? mask : length, config.where()));
    const Field& told = source.fields()[static_cast<size_t>(field_)];
    dtype_ = told.dtype;
    const int64_t elements = told.shape.elements(), wanted = mask_ ? static_cast<int64_t>(counts_.size()) : 1;
    if (of.shape.rank() == 0 || elements != wanted)
      config.fail(mask_ ? "masks" : "lengths", "does not fit the steps of field '" + of.name + "' of shape " + of.shape.text(),
                  "'" + told.name + "' of shape " + told.shape.text(), mask_ ? "a number for each step" : "one number for each example");
    values_.resize(static_cast<size_t>(elements));
  }

  bool all() const { return field_ < 0; }
  const std::vector<char>& read(const std::vector<std::byte*>& slots) {
    if (all()) return counts_;
    convert(dtype_, slots[static_cast<size_t>(field_)], Dtype::f64, values_.data(), static_cast<int64_t>(values_.size()));
    for (size_t t = 0; t < counts_.size(); ++t) counts_[t] = mask_ ? values_[t] > 0 : static_cast<double>(t) < values_[0];
    return counts_;
  }

 private:
  static size_t steps_of(const Field& of) { return of.shape.rank() > 0 ? static_cast<size_t>(of.shape[of.shape.rank() - 1]) : 1; }

  std::vector<char> counts_;
  int field_ = -1;  // all steps count
  bool mask_ = false;
  Dtype dtype_ = Dtype::f32;
  std::vector<double> values_;
};

// Examples that come from far are asked for many at a time.
class ReadAhead {
 public:
  explicit ReadAhead(const DataSource& source) : source_(source), many_(std::min<int64_t>(source.traits().read_ahead, kMostAhead)) {}

  // Example i is read next, after all before it.
  void before(int64_t i) {
    if (many_ < 2 || i < told_) return;
    keys_.clear();
    for (; told_ < std::min(i + many_, source_.size()); ++told_) keys_.push_back({.index = told_});
    source_.expect(keys_);
  }

 private:
  static constexpr int64_t kMostAhead = 4096;

  const DataSource& source_;
  const int64_t many_;
  int64_t told_ = 0;
  std::vector<ReadKey> keys_;
};

}  // namespace

Statistics measure(const Config& config, const DataSource& source, size_t field, int64_t groups) {
  const Field& of = source.fields()[field];
  const int64_t elements = of.shape.elements();
  if (elements == 0)
    throw Error(ErrorKind::data, {.where = config.where(), .what = "field '" + of.name + "' is empty: nothing can be fitted to it"});
  const auto group = static_cast<size_t>(elements / groups), n = static_cast<size_t>(groups);
  CountedSteps counted(config, source, of);
  Statistics s{std::vector<double>(n, INFINITY), std::vector<double>(n, -INFINITY), std::vector<double>(n), std::vector<double>(n)};
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> slots;
  for (const auto& each : source.fields()) {
    memory.emplace_back(std::max<size_t>(1, static_cast<size_t>(each.shape.elements()) * dtype_bytes(each.dtype)));
    slots.push_back(memory.back().data());
  }
  std::vector<double> values(static_cast<size_t>(elements)), shift(n), squares(n), count(n);
  ReadAhead ahead(source);
  for (int64_t i = 0; i < source.size(); ++i) {
    ahead.before(i);
    try {
      source.read({.index = i}, slots);
    } catch (const AbsentRows&) {
      if (FitsLater::postpone()) return {std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
      throw;
    }
    convert(of.dtype, slots[field], Dtype::f64, values.data(), elements);
    const std::vector<char>& counts = counted.read(slots);
    for (size_t g = 0; g < n; ++g) {
      const double* v = values.data() + g * group;
      double sum = 0, square = 0, low = s.low[g], high = s.high[g];
      for (size_t k = 0; k < group; ++k) {
        if (!counted.all() && !counts[(g * group + k) % counts.size()]) continue;
        if (count[g]++ == 0) shift[g] = v[k];  // sums of differences: a large mean costs no digits of the deviation
        const double d = v[k] - shift[g];
        sum += d, square += d * d, low = std::min(low, v[k]), high = std::max(high, v[k]);
      }
      s.mean[g] += sum, squares[g] += square, s.low[g] = low, s.high[g] = high;
    }
  }
  for (size_t g = 0; g < n; ++g) {
    if (count[g] == 0) s.low[g] = s.high[g] = 0, count[g] = 1;
    const double mean = s.mean[g] / count[g];
    s.deviation[g] = std::sqrt(std::max(0.0, squares[g] / count[g] - mean * mean));
    s.mean[g] = shift[g] + mean;
    if (!std::isfinite(s.mean[g]) || !std::isfinite(s.deviation[g]))
      throw Error(ErrorKind::data,
                  {.where = config.where(), .what = "field '" + of.name + "' holds NaN or infinite values: nothing can be fitted to it"});
  }
  return s;
}

std::vector<float> floats_of(const Config& config, std::string_view key) {
  const Json* found = config.raw(key);
  if (found == nullptr || found->is_null()) return {};
  if (found->is_number()) return {static_cast<float>(found->as_number())};
  if (!found->is_array() || found->as_array().empty())
    config.fail(key, "has the wrong type", found->type_name(), "a number or a list of numbers");
  std::vector<float> values;
  for (const Json& item : found->as_array()) {
    if (!item.is_number()) config.fail(key, "has an element of the wrong type", item.dump(), "a number");
    values.push_back(static_cast<float>(item.as_number()));
  }
  return values;
}

Json json_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push(value);
  return list;
}

}  // namespace perigee
