// y = x * factor + offset with one pair for all elements, one per channel or one per element: what scale, normalize, standardize and
// minmax come down to. Input of any type, output f32.
#pragma once

#include <vector>

#include "src/data/transform.h"

namespace perigee {

class AffineTransform : public Transform {
 public:
  // Error when the field is a label, or when there are neither 1, nor as many pairs as the first dimension, nor as elements.
  AffineTransform(const Config& config, const Field& input, std::vector<float> factors, std::vector<float> offsets, Json fitted);
  Field output() const override { return output_; }
  bool draws() const override { return false; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override;
  Json fitted() const override { return fitted_; }

 private:
  Field output_;
  Dtype input_;
  int64_t elements_, group_;  // group_: neighbouring elements that share a pair
  std::vector<float> factors_, offsets_;
  Json fitted_;
};

// The values that a fitted transform takes as one group.
enum class Over { element, channel, all };
Over over_option(const Config& config, const Field& field);  // "over": by default channels of images, else elements
int64_t groups_of(const Field& field, Over over);

// An example's last axis are its steps: as many count as a field says, or those that a mask has. The rest is padding.
inline constexpr Option kLengthsOption = {"lengths", "string", "",
                                          "field that says how many steps of the last axis count; by default the job's"};
inline constexpr Option kMasksOption = {"masks", "string", "", "field that says which steps of the last axis count; by default the job's"};

// Least, greatest, mean and standard deviation (of the population) of each group, over all examples of `source` and what counts of them by
// "lengths" or "masks"; 0 where nothing counts.
struct Statistics {
  std::vector<double> low, high, mean, deviation;
};
Statistics measure(const Config& config, const DataSource& source, size_t field, int64_t groups);

std::vector<float> floats_of(const Config& config, std::string_view key);  // a number or a list of them; empty when absent
Json json_of(const std::vector<double>& values);

}  // namespace perigee
