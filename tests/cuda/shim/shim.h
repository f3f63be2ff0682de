// How a test runs kernels on the host: the order of the threads, the memory that they may touch, and barriers left out on purpose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace shim {

// Results must be the same in all: where they are not, a barrier is missing. `random` is another order at every step, by the seed.
enum class Order : uint8_t { forward, reverse, random };
constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::random};
const char* name_of(Order order);

void set_order(Order order, uint32_t seed = 1);
Order order();

// Every __syncthreads that was reached since the program began, as "file:line".
std::vector<std::string> barriers();
// Threads do not wait at that one any more; "" mends it.
void leave_out(const std::string& barrier);

// Device memory of exactly so many bytes, on a border of `alignment`, full of rubbish that differs from order to order. It ends where a page
// ends, but for what the border leaves; who touches the page behind ends the program with a message that names the buffer, the block and
// the thread. What lies between its borders and those of pages is compared when the buffer goes.
class Buffer {
 public:
  Buffer(const char* name, size_t bytes, size_t alignment);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  void allow(bool allowed);  // whether anybody may touch it; at first, yes
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  std::vector<T> read() const {
    return {as<T>(), as<T>() + bytes_ / sizeof(T)};
  }

 private:
  const char* name_;
  std::byte* pages_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_, mapped_;
  std::byte rubbish_;
};

// Else the address is memory of the host that CUDA does not know.
bool in_buffer(const void* at);

// Reported by the shim to the watcher of memory accesses (races.cpp), if there is one.
enum class Memory : uint8_t { shared, device, gone };
struct Watcher {
  void (*launch)(bool begins) = [](bool) {};
  void (*meet)() = [] {};                         // all threads of a block met, or another block begins
  void (*meet_warp)(unsigned) = [](unsigned) {};  // in __syncwarp
  void (*memory)(const std::byte* begin, size_t bytes, Memory) = [](const std::byte*, size_t, Memory) {};
};
extern Watcher watcher;
// Unordered accesses since the last call, by kernels that report their accesses.
std::vector<std::string> take_races();

template <class T>
class Array : public Buffer {
 public:
  Array(const char* name, size_t count, size_t alignment = alignof(T)) : Buffer(name, count * sizeof(T), alignment) {}
  Array(const char* name, std::span<const T> values, size_t alignment = alignof(T)) : Array(name, values.size(), alignment) {
    std::copy(values.begin(), values.end(), data());
  }
  T* data() const { return as<T>(); }
  std::vector<T> read() const { return Buffer::read<T>(); }
};

}  // namespace shim
