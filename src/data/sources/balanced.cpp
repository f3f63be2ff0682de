// {"type": "balanced", "source": {...}, "field": "y"}: as many examples of each class as of any other. Example number i of an epoch is of class
// i mod classes; within a class, all examples come once in a shuffled order before any comes again. A pure function of seed, epoch and number,
// so that it is the same on any number of workers and after any resume.
#include <algorithm>

#include "src/data/labels.h"
#include "src/data/loader.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

class BalancedSource : public DataSource {
 public:
  BalancedSource(SourcePtr inner, std::vector<std::vector<int64_t>> classes, int64_t size)
      : inner_(std::move(inner)), classes_(std::move(classes)), size_(size) {}

  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override { inner_->read(inner_key(key), slots); }
  void expect(std::span<const ReadKey> keys) const override {
    for (ReadKey key : keys) {
      key = inner_key(key);
      inner_->expect({&key, 1});
    }
  }
  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.description = "balanced (" + std::to_string(size_) + " examples) of " + traits.description;
    traits.fixed = false;  // a number is another example in the next epoch
    return traits;
  }

 private:
  ReadKey inner_key(const ReadKey& key) const {
    const auto count = static_cast<int64_t>(classes_.size());
    const std::vector<int64_t>& members = classes_[static_cast<size_t>(key.index % count)];
    const auto n = static_cast<int64_t>(members.size());
    // Draws of a class go on over epochs, so that what one epoch has no room for comes in the next.
    const uint64_t of_epoch = static_cast<uint64_t>((size_ + count - 1) / count);
    const uint64_t draw = key.epoch * of_epoch + static_cast<uint64_t>(key.index / count);
    const auto place = shuffled_index(key.seed, draw / static_cast<uint64_t>(n), static_cast<int64_t>(draw % static_cast<uint64_t>(n)), n);
    return {.index = members[static_cast<size_t>(place)], .epoch = key.epoch, .seed = key.seed};
  }

  SourcePtr inner_;
  std::vector<std::vector<int64_t>> classes_;  // the examples of each that there is
  int64_t size_;
};

SourcePtr open_balanced(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  const size_t field = label_field(*inner, config, config.string("field"));
  const std::vector<int64_t> labels = labels_of(*inner, field);
  std::vector<std::vector<int64_t>> classes(static_cast<size_t>(inner->fields()[field].classes));
  for (size_t i = 0; i < labels.size(); ++i) {
    check_label(labels[i], static_cast<int64_t>(classes.size()), "balanced");
    classes[static_cast<size_t>(labels[i])].push_back(static_cast<int64_t>(i));
  }
  std::erase_if(classes, [](const std::vector<int64_t>& members) { return members.empty(); });
  return std::make_shared<BalancedSource>(inner, std::move(classes), config.integer_in("size", 1, int64_t{1} << 40, inner->size()));
}

constexpr const char* kBalancedPositional[] = {"source"};
constexpr Option kBalancedOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                                       {"field", "string", "y", "the label"},
                                       {"size", "integer", "as the source has", "examples of an epoch", {1}}};

}  // namespace

extern const SourceDef source_balanced;
// It reads data itself, as by_label does.
const SourceDef source_balanced{
    .type = "balanced",
    .doc =
        "The examples of 'source', as many of each class as of any other: those of rare classes come more often. "
        "Options: field (y), size (of an epoch)",
    .schema = {.options = kBalancedOptions, .positional = kBalancedPositional},
    .open = open_balanced,
    .wraps = false};

}  // namespace perigee
