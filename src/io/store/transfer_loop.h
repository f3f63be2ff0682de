// The thread on which libcurl makes all transfers of a process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "src/io/store/transfer.h"

namespace perigee {

// One try of a transfer, whose defaults are set and whose answer is empty.
struct TransferTry {
  Transfer* transfer = nullptr;
  std::shared_ptr<Transfer> owner;              // of those that nothing waits for
  std::function<void()> done;                   // called on the loop's thread, as is the next
  std::function<void(uint64_t count)> arrived;  // may be empty
};
// It waits for its turn, begins, and ends: `done` is called in any case.
void begin_try(TransferTry attempt);

}  // namespace perigee
