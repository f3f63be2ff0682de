// Another source's examples, each mixed with a partner: mixup (Zhang et al., "mixup: beyond empirical risk minimization", 2018) and CutMix (Yun et
// al., "CutMix: regularization strategy to train strong classifiers with localizable features", 2019). The target becomes a distribution over the
// classes, mixed by the same share. Partners are a permutation of the examples, another one in each epoch, and share and box are drawn for each
// example, so that all of it is a function of seed, epoch and number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/data/source.h"
#include "src/data/transform.h"

namespace perigee {

class MixedSource : public DataSource {
 public:
  enum class Kind : uint8_t { mixup, cutmix };
  // By the options "source", "field", "target", "alpha" and "probability". Error(data).
  static SourcePtr open(const Config& config, const std::string& folder, Kind kind);
  MixedSource(SourcePtr inner, const Config& config, Kind kind);

  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override;
  void expect(std::span<const ReadKey> keys) const override;
  SourceTraits traits() const override;

 private:
  void check(const Config& config) const;
  ReadKey partner_of(const ReadKey& key) const;
  double blend(double share, std::byte* own, const std::byte* other, Draw& draw) const;
  void write_target(const std::byte* label, double share, bool adds, float* to) const;

  SourcePtr inner_;
  std::vector<Field> fields_;
  Kind kind_;
  size_t field_ = 0, target_ = 0;
  double alpha_ = 1, probability_ = 1;
  size_t example_bytes_ = 0;  // of one as the inner source has it, each field on a border of 64 bytes
};

// The options of both kinds, which differ in the value that alpha has by default.
constexpr std::array<Option, 5> mixing_options(const char* alpha) {
  return {{{"source", "source", nullptr, "where the examples come from"},
           {"alpha", "number", alpha, "of the Beta distribution that shares are drawn from", {1e-3, 1e3}},
           {"probability", "number", "1", "share of the examples that are mixed", {0, 1}},
           {"field", "string", "x", "the numbers that are mixed"},
           {"target", "string", "y", "the label, or numbers that are mixed as well"}}};
}

// A draw of the Beta(alpha, alpha) distribution.
double symmetric_beta(double alpha, Draw& draw);

}  // namespace perigee
