// A ledger store that tells what was appended: a standby's copy has the same bytes in the same order.
#pragma once

#include <functional>
#include <utility>

#include "cluster/ledger/ledger.h"

namespace perigee {

class LedgerMirror final : public LedgerStore {
 public:
  using OnAppend = std::function<void(std::span<const std::byte> record)>;
  LedgerMirror(LedgerStore& store, OnAppend on_append) : store_(store), on_append_(std::move(on_append)) {}

  bool append(std::span<const std::byte> record) override {
    if (!store_.append(record)) return false;
    on_append_(record);
    return true;
  }
  bool sync() override { return store_.sync(); }
  std::vector<std::byte> read() override { return store_.read(); }

 private:
  LedgerStore& store_;
  OnAppend on_append_;
};

}  // namespace perigee
