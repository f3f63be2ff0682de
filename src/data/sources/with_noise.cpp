// {"type": "with_noise", "source": {...}, "field": "z", "size": [64]}: the examples of another source with one more field of random numbers.
#include <cmath>
#include <numbers>

#include "src/data/transform.h"

namespace perigee {
namespace {

constexpr uint64_t kWithNoiseSalt = 0x6e6f697365ull;
constexpr int64_t kMostWithNoiseElements = int64_t{1} << 24;

class WithNoise final : public DataSource {
 public:
  WithNoise(SourcePtr inner, const Config& config)
      : inner_(std::move(inner)),
        fields_(inner_->fields()),
        uniform_(config.string("distribution") == "uniform"),
        fresh_(config.boolean("fresh")) {
    std::vector<int64_t> dims;
    const Json& size = *config.raw("size");
    if (size.is_array()) dims = config.integer_list("size");
    else dims = {config.integer("size")};
    int64_t elements = 1;
    for (const int64_t dim : dims) {
      if (dim < 1 || dim > kMostWithNoiseElements || (elements *= dim) > kMostWithNoiseElements)
        config.fail("size", "is out of range", size.dump(), "sizes from 1, and at most 16,777,216 numbers");
    }
    if (dims.empty() || dims.size() > 4) config.fail("size", "has another number of dimensions", size.dump(), "1 to 4");
    const std::string name = config.string("field");
    for (const Field& field : fields_)
      if (field.name == name) config.fail("field", "is there already", "'" + name + "'", "the name of a new field");
    for (const char c : name) salt_ = (salt_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    fields_.push_back({.name = name, .dtype = Dtype::f32, .shape = Shape(dims)});
  }

  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read(key, slots.first(slots.size() - 1));
    Draw draw({.index = key.index, .epoch = fresh_ ? key.epoch : 0, .seed = key.seed}, salt_);
    auto* const to = reinterpret_cast<float*>(slots.back());
    const int64_t elements = fields_.back().shape.elements();
    for (int64_t i = 0; i < elements; i += uniform_ ? 1 : 2) {
      if (uniform_) {
        to[i] = draw.between(-1, 1);
        continue;
      }
      // Box and Muller's pair
      const float radius = std::sqrt(-2 * std::log(1 - draw.uniform())), angle = 2 * std::numbers::pi_v<float> * draw.uniform();
      to[i] = radius * std::cos(angle);
      if (i + 1 < elements) to[i + 1] = radius * std::sin(angle);
    }
  }

  void expect(std::span<const ReadKey> keys) const override { inner_->expect(keys); }
  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.description += " with noise";
    traits.fixed = traits.fixed && !fresh_;
    return traits;
  }

 private:
  SourcePtr inner_;
  std::vector<Field> fields_;
  bool uniform_, fresh_;
  uint64_t salt_ = kWithNoiseSalt;
};

SourcePtr open_with_noise(const Config& config, const std::string& folder) {
  return std::make_shared<WithNoise>(open_source(config.object("source"), folder), config);
}

constexpr const char* kWithNoisePositional[] = {"field"};
constexpr Option kWithNoiseOptions[] = {
    {"source", "source", nullptr, "where the examples come from"},
    {"field", "string", "z", "the new field"},
    {"size", "integer or list of integers", nullptr, "its size, without the batch"},
    {"distribution", "name", "normal", "normal: mean 0, deviation 1; uniform: from -1 to 1", {}, {"normal", "uniform"}},
    {"fresh", "boolean", "true", "other numbers in every epoch"}};

}  // namespace

extern const SourceDef source_with_noise;
const SourceDef source_with_noise{
    .type = "with_noise",
    .doc =
        "The examples of 'source' with one more field of random numbers, as a generator takes them. Options: field "
        "(z), size, distribution (normal or uniform), fresh (other numbers in every epoch)",
    .schema = {.options = kWithNoiseOptions, .positional = kWithNoisePositional},
    .open = open_with_noise,
    .wraps = true};

}  // namespace perigee
