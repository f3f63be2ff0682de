#include "src/vectors/jobs/touched_rows.h"

#include <algorithm>
#include <cmath>

#include "src/vectors/draws.h"

namespace perigee {
namespace {

// To come at all, if it comes `times` times on the mean.
double chance_of(double times) { return -std::expm1(-times); }

}  // namespace

double touched_share(const VectorCorpus& corpus, const VectorOptions& options, double rounds) {
  const ElementTable& elements = *corpus.elements();
  const std::vector<uint32_t> keep = keep_chances(elements, options.sample);
  const auto times_of = [&](int64_t i) {  // an element is kept in the part of the text
    const double chance = keep.empty() ? 1 : static_cast<double>(keep[static_cast<size_t>(i)]) / UINT32_MAX;
    return static_cast<double>(elements.count(i)) * chance / rounds;
  };
  const auto noise_of = [&](int64_t i) {
    return std::pow(static_cast<double>(std::max<int64_t>(1, elements.count(i))), options.noise_exponent);
  };
  double windows = 0, noise = 0;
  for (int64_t i = 0; i < elements.size(); ++i) windows += times_of(i), noise += noise_of(i);
  const bool documents_alone = options.model == VectorModel::dbow && !options.words_too;
  double inputs = 0, outputs = 0;
  for (int64_t i = 0; i < elements.size(); ++i) {
    if (!documents_alone) inputs += chance_of(times_of(i));
    if (options.negative > 0) outputs += chance_of(times_of(i) + windows * static_cast<double>(options.negative) * noise_of(i) / noise);
  }
  const int64_t labels = corpus.labels().size();
  const VectorRowCounts rows = vector_rows(elements.size(), labels, options);
  const double parts = static_cast<double>(corpus.sequences().parts());
  if (labels > 0) inputs += std::min(static_cast<double>(labels), std::max(parts, static_cast<double>(labels)) / rounds);
  inputs += static_cast<double>(rows.inputs - elements.size() - labels);
  outputs += static_cast<double>(rows.outputs - (options.negative > 0 ? elements.size() : 0));
  return (inputs + outputs) / static_cast<double>(rows.inputs + rows.outputs);
}

}  // namespace perigee
