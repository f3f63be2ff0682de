// Some of another source's examples, in another order. An example keeps its index there, so that its random draws stay its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/data/source.h"

namespace perigee {

class IndexedSource : public DataSource {
 public:
  // `inner_index` maps [0, size) into the inner source; a pure function that any thread may call.
  IndexedSource(std::string name, SourcePtr inner, int64_t size, std::function<int64_t(int64_t)> inner_index)
      : name_(std::move(name)), inner_(std::move(inner)), size_(size), inner_index_(std::move(inner_index)) {}

  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read({.index = inner_index_(key.index), .epoch = key.epoch, .seed = key.seed}, slots);
  }
  bool cheap() const override { return inner_->cheap(); }
  bool fixed() const override { return inner_->fixed(); }
  void prefetch(int64_t index) const override { inner_->prefetch(inner_index_(index)); }
  int64_t read_ahead() const override { return inner_->read_ahead(); }
  void expect(std::span<const ReadKey> keys) const override {
    std::vector<ReadKey> inner(keys.begin(), keys.end());
    for (ReadKey& key : inner) key.index = inner_index_(key.index);
    inner_->expect(inner);
  }
  bool live() const override { return inner_->live(); }
  Json fitted() const override { return inner_->fitted(); }
  std::string describe() const override { return name_ + " (" + std::to_string(size_) + " examples) of " + inner_->describe(); }

 private:
  std::string name_;
  SourcePtr inner_;
  int64_t size_;
  std::function<int64_t(int64_t)> inner_index_;
};

}  // namespace perigee
