#include "src/data/transforms/affine.h"

#include <algorithm>
#include <cmath>

#include "kernels/convert.h"

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
    throw Error(ErrorKind::data, {.where = config.where(), .what = "field '" + input.name + "' is a class label: it has no scale"});
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

Statistics measure(const DataSource& source, size_t field, int64_t groups, const std::string& where) {
  const Field& of = source.fields()[field];
  const int64_t elements = of.shape.elements();
  if (elements == 0)
    throw Error(ErrorKind::data, {.where = where, .what = "field '" + of.name + "' is empty: nothing can be fitted to it"});
  const int64_t group = elements / groups;
  const auto n = static_cast<size_t>(groups);
  Statistics s{std::vector<double>(n, INFINITY), std::vector<double>(n, -INFINITY), std::vector<double>(n), std::vector<double>(n)};
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> slots;
  for (const auto& each : source.fields()) {
    memory.emplace_back(std::max<size_t>(1, static_cast<size_t>(each.shape.elements()) * dtype_bytes(each.dtype)));
    slots.push_back(memory.back().data());
  }
  std::vector<double> values(static_cast<size_t>(elements)), shift(n), squares(n);
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read({.index = i}, slots);
    convert(of.dtype, slots[field], Dtype::f64, values.data(), elements);
    for (size_t g = 0; g < n; ++g) {
      const double* v = values.data() + static_cast<int64_t>(g) * group;
      if (i == 0) shift[g] = v[0];  // sums of differences: a large mean costs no digits of the deviation
      double sum = 0, square = 0, low = s.low[g], high = s.high[g];
      for (int64_t k = 0; k < group; ++k) {
        const double d = v[k] - shift[g];
        sum += d, square += d * d, low = std::min(low, v[k]), high = std::max(high, v[k]);
      }
      s.mean[g] += sum, squares[g] += square, s.low[g] = low, s.high[g] = high;
    }
  }
  const double count = static_cast<double>(source.size()) * static_cast<double>(group);
  for (size_t g = 0; g < n; ++g) {
    const double mean = s.mean[g] / count;
    s.deviation[g] = std::sqrt(std::max(0.0, squares[g] / count - mean * mean));
    s.mean[g] = shift[g] + mean;
    if (!std::isfinite(s.mean[g]) || !std::isfinite(s.deviation[g]))
      throw Error(ErrorKind::data,
                  {.where = where, .what = "field '" + of.name + "' holds NaN or infinite values: nothing can be fitted to it"});
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
