// Slurm: `srun -N4 perigee train ...`. The first host coordinates; a job that is requeued finds its run folder again.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/engines/engine.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kMaxNodes = 65536;
constexpr size_t kMaxListBytes = size_t{1} << 20;
constexpr size_t kMaxNameBytes = 255;

[[noreturn]] void bad_list(const std::string& list, const std::string& what) {
  throw Error(ErrorKind::usage, {"Slurm's node list", what, "'" + list.substr(0, 200) + "'", "for example n[1-3,07],login"});
}

// The comma-separated parts outside of brackets.
std::vector<std::string> split(const std::string& list, const std::string& whole) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += (c == '[') - (c == ']');
    if (depth < 0 || depth > 1) bad_list(whole, "has a bracket too many");
    if (c == ',' && depth == 0) parts.emplace_back();
    else parts.back() += c;
  }
  if (depth != 0) bad_list(whole, "has a bracket too few");
  return parts;
}

uint64_t number(const std::string& text, const std::string& whole) {
  if (text.empty() || text.size() > 12) bad_list(whole, "has a range without numbers");
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') bad_list(whole, "has a range without numbers");
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

// "1-3,07": the texts of the numbers, as wide as the first of each range is written.
std::vector<std::string> expand_ranges(const std::string& inside, const std::string& whole) {
  std::vector<std::string> numbers;
  for (const std::string& part : split(inside, whole)) {
    const size_t dash = part.find('-');
    const std::string low = part.substr(0, dash), high = dash == std::string::npos ? low : part.substr(dash + 1);
    const uint64_t from = number(low, whole), to = number(high, whole);
    if (to < from || to - from >= kMaxNodes || numbers.size() + (to - from) >= kMaxNodes)
      bad_list(whole, "has a range that is too large or empty");
    for (uint64_t i = from; i <= to; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
  }
  return numbers;
}

std::optional<Engine> find_slurm(const Environment& environment) {
  const char* job = environment("SLURM_JOB_ID");
  const char* step = environment("SLURM_STEP_ID");
  if (!job || !*job || !step || !*step) return std::nullopt;  // a batch script is no step: there is one process, and srun starts the others
  const auto rank = environment_number(environment, "SLURM_PROCID", 0, 1 << 20);
  auto size = environment_number(environment, "SLURM_STEP_NUM_TASKS", 1, 1 << 20);
  if (!size) size = environment_number(environment, "SLURM_NTASKS", 1, 1 << 20);
  if (!rank || !size || *rank >= *size) return std::nullopt;
  const std::string id = std::to_string(number(job, job)) + "." + std::to_string(number(step, step));
  Engine engine{.name = "slurm", .job = job, .rank = *rank, .size = *size, .lasting = true, .stop_signal = SIGUSR1};
  engine.local_rank = environment_number(environment, "SLURM_LOCALID", 0, 1 << 20).value_or(0);
  engine.restarts = environment_number(environment, "SLURM_RESTART_COUNT", 0, 1 << 20).value_or(0);
  if (const char* tasks = environment("SLURM_STEP_TASKS_PER_NODE"); tasks && *tasks >= '0' && *tasks <= '9')
    engine.local_size = std::max(1, std::atoi(tasks));  // "2(x3),1": that of the first nodes is near enough
  engine.local_size = std::max(engine.local_size, engine.local_rank + 1);
  const char* folder = environment("SLURM_SUBMIT_DIR");
  engine.meeting_file = (folder && *folder ? std::string(folder) : ".") + "/.perigee-slurm-" + id + "-" + std::to_string(engine.restarts);
  if (const char* list = environment("SLURM_STEP_NODELIST"); list && *list) {
    const std::vector<std::string> hosts = expand_node_list(list);
    engine.coordinator = hosts[0] + ":" + std::to_string(shared_port(id));
  }
  return engine;
}

}  // namespace

std::vector<std::string> expand_node_list(const std::string& list) {
  if (list.empty() || list.size() > kMaxListBytes) bad_list(list, "is empty or too long");
  std::vector<std::string> hosts;
  for (const std::string& part : split(list, list)) {
    // A name may have several brackets: r[1-2]n[1-4].
    std::vector<std::string> names(1);
    for (size_t at = 0; at < part.size();) {
      if (part[at] != '[') {
        const size_t end = std::min(part.find('[', at), part.size());
        if (end - at > kMaxNameBytes || names.front().size() > kMaxNameBytes) bad_list(list, "has a name that is too long");
        for (std::string& name : names) name += part.substr(at, end - at);
        at = end;
        continue;
      }
      const size_t end = part.find(']', at);
      const std::vector<std::string> numbers = expand_ranges(part.substr(at + 1, end - at - 1), list);
      if (names.size() * numbers.size() + hosts.size() > kMaxNodes) bad_list(list, "has more than 65,536 nodes");
      std::vector<std::string> longer;
      for (const std::string& name : names)
        for (const std::string& digits : numbers) longer.push_back(name + digits);
      names = std::move(longer);
      at = end + 1;
    }
    for (std::string& name : names) {
      if (name.empty() || name.size() > kMaxNameBytes) bad_list(list, "has a node without a name");
      hosts.push_back(std::move(name));
    }
    if (hosts.size() > kMaxNodes) bad_list(list, "has more than 65,536 nodes");
  }
  return hosts;
}

extern const EngineDef engine_slurm;
const EngineDef engine_slurm{
    .name = "slurm", .doc = "srun of Slurm", .variables = "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID", .find = find_slurm};

}  // namespace perigee
