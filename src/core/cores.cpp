#include "src/core/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

namespace perigee {
namespace {

// The folder of this process's group below the mount, as "/a/b"; empty: not known, or the mount's own, as in a container.
std::string group_of(const std::string& root, const std::string& prefix) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (const size_t at = line.find(prefix); at != std::string::npos) {
      const std::string group = line.substr(at + prefix.size());
      return group == "/" || group.find("..") != std::string::npos ? "" : group;
    }
  return "";
}

// Calls `limit` with the folders from the group up to the mount; the smallest result that is not 0.
template <typename Limit>
double smallest(const std::string& mount, std::string group, const Limit& limit) {
  double least = 0;
  for (;;) {
    const double found = limit(mount + group + "/");
    if (found > 0 && (least == 0 || found < least)) least = found;
    if (group.empty()) return least;
    group.erase(group.rfind('/'));
  }
}

double number_in(const std::string& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? value : 0;
}

}  // namespace

int quota_cores(const std::string& root) {
  double cores = smallest(root + "/sys/fs/cgroup", group_of(root, "0::"), [](const std::string& folder) {
    std::ifstream in(folder + "cpu.max");
    double quota = 0, period = 0;
    return in >> quota >> period && period > 0 ? quota / period : 0.0;  // "max 100000" has no quota
  });
  if (cores == 0)  // version 1
    cores = smallest(root + "/sys/fs/cgroup/cpu", group_of(root, "cpu,cpuacct:"), [](const std::string& folder) {
      const double quota = number_in(folder + "cpu.cfs_quota_us"), period = number_in(folder + "cpu.cfs_period_us");
      return quota > 0 && period > 0 ? quota / period : 0.0;
    });
  return static_cast<int>(std::min(std::ceil(cores), 65536.0));
}

int64_t quota_memory(const std::string& root) {
  double bytes =
      smallest(root + "/sys/fs/cgroup", group_of(root, "0::"), [](const std::string& folder) { return number_in(folder + "memory.max"); });
  if (bytes == 0)
    bytes = smallest(root + "/sys/fs/cgroup/memory", group_of(root, "memory:"),
                     [](const std::string& folder) { return number_in(folder + "memory.limit_in_bytes"); });
  return bytes < 1e15 ? static_cast<int64_t>(bytes) : 0;  // version 1 writes a huge number where there is no limit
}

int machine_cores() {
  static const int cores = [] {
    const int machine = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), quota = quota_cores("");
    return quota > 0 ? std::min(machine, quota) : machine;
  }();
  return cores;
}

int available_cores() {
  cpu_set_t bound;  // of at most 1024 processors; where there are more the call fails, and the machine's number counts
  const int mine = sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : 0;
  return mine > 0 ? std::min(machine_cores(), mine) : machine_cores();
}

int64_t memory_limit() {
  static const int64_t limit = quota_memory("");
  return limit;
}

}  // namespace perigee
