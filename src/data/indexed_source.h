// Some of another source's examples, in another order. An example keeps its index there, so that its random draws stay its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/data/sound/rated.h"

namespace perigee {

class IndexedSource : public DataSource, public RatedSource {
 public:
  // `inner_index` maps [0, size) into the inner source; a pure function that any thread may call.
  IndexedSource(std::string name, SourcePtr inner, int64_t size, std::function<int64_t(int64_t)> inner_index)
      : name_(std::move(name)), inner_(std::move(inner)), size_(size), inner_index_(std::move(inner_index)) {}

  int64_t size() const override { return size_; }
  double rate() const override { return rate_of(*inner_); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read({.index = inner_index_(key.index), .epoch = key.epoch, .seed = key.seed}, slots);
  }
  void expect(std::span<const ReadKey> keys) const override {
    if (keys.size() == 1) {  // before each read: no allocation
      ReadKey key = keys[0];
      key.index = inner_index_(key.index);
      return inner_->expect({&key, 1});
    }
    std::vector<ReadKey> inner(keys.begin(), keys.end());
    for (ReadKey& key : inner) key.index = inner_index_(key.index);
    inner_->expect(inner);
  }
  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.description = name_ + " (" + std::to_string(size_) + " examples) of " + traits.description;
    return traits;
  }

 private:
  std::string name_;
  SourcePtr inner_;
  int64_t size_;
  std::function<int64_t(int64_t)> inner_index_;
};

}  // namespace perigee
