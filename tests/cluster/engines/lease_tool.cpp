// Coordinates many runs by leases in etcd, and would commit for each a hundred times a second: lease_tool ADDRESS COUNT. Another process does the
// same, and the test stops one of them now and then. Prints for each time that it held a lease "run generation first last": when it first and
// last could have committed, in nanoseconds of a clock that all processes share; "tries N" counts the first looks after a stop. Ends with its
// standard input.
#include <poll.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/etcd_lease.h"

namespace perigee {
namespace {

constexpr uint64_t kStoppedNs = 4'500'000'000;  // longer than a lease lives

uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

class Run {
 public:
  Run(std::string url, int number) : url_(std::move(url)), number_(number) { begin(1); }
  ~Run() { tell(); }

  // True: it could commit.
  bool look() {
    const uint64_t now = now_ns();
    if (lease_->renew(generation_) == LeaseStore::Answer::granted) {
      if (first_ == 0) first_ = now;
      last_ = now;
      return true;
    }
    if (lease_->acquire({.generation = generation_, .address = "here:1"}) == LeaseStore::Answer::refused)
      begin(lease_->holder().generation + 1);
    return false;
  }

 private:
  void begin(uint64_t generation) {
    tell();
    first_ = 0, generation_ = generation;
    lease_.reset();
    lease_ = std::make_unique<EtcdLease>(url_, 7, "here:1", Json::object());
  }
  void tell() const {
    if (first_ != 0)
      std::printf("%d %llu %llu %llu\n", number_, static_cast<unsigned long long>(generation_), static_cast<unsigned long long>(first_),
                  static_cast<unsigned long long>(last_));
  }

  const std::string url_;
  const int number_;
  uint64_t generation_ = 0, first_ = 0, last_ = 0;
  std::unique_ptr<EtcdLease> lease_;
};

void coordinate(const std::string& url, int count) {
  std::vector<std::unique_ptr<Run>> runs;
  for (int number = 0; number < count; ++number) runs.push_back(std::make_unique<Run>(url + "/" + std::to_string(number), number));
  uint64_t looked = now_ns(), tries = 0;
  std::vector<bool> held(runs.size());
  for (pollfd input = {.fd = 0, .events = POLLIN, .revents = 0}; poll(&input, 1, 10) == 0;) {
    const bool stopped = now_ns() - looked > kStoppedNs;
    for (size_t i = 0; i < runs.size(); ++i) {
      tries += stopped && held[i];
      held[i] = runs[i]->look();
    }
    looked = now_ns();
  }
  runs.clear();
  std::printf("tries %llu\n", static_cast<unsigned long long>(tries));
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  perigee::coordinate(argv[1], std::atoi(argv[2]));
  return 0;
}
