#include "src/train/run_details.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include "src/core/cores.h"
#include "src/core/host_isa.h"
#include "src/nn/describe_network.h"
#include "src/train/device/device_memory.h"

namespace perigee {
namespace {

// The value of "key : value" or key=value; empty where the file has none.
std::string value_in(const char* file, const std::string& key, char between) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.starts_with(key) ? line.find(between) : std::string::npos;
    const size_t begin = at == std::string::npos ? at : line.find_first_not_of(" \t\"", at + 1);
    if (begin != std::string::npos) return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "";
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &local);
  return text;
}

Json environment_of(Trainer& trainer) {
  Json facts = Json::object();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.set(name, value);
  };
  utsname system = {};
  uname(&system);
  add("host", system.nodename);
  add("system", value_in("/etc/os-release", "PRETTY_NAME", '='));
  add("kernel", std::string(system.sysname) + " " + system.release + " " + system.machine);
  add("processor", value_in("/proc/cpuinfo", "model name", ':'));
  facts.set("cores", static_cast<int64_t>(available_cores()));
  const int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE)),
                limit = memory_limit();
  facts.set("memory_bytes", limit > 0 ? std::min(memory, limit) : memory);
  add("instructions", isa_name(host_isa()));
  facts.set("threads", static_cast<int64_t>(trainer.threads()));
  std::string devices;
  for (const DeviceTaken& gpu : trainer.device_taken()) devices += (devices.empty() ? "" : ", ") + gpu.device;
  add("device", devices);
  facts.set("seed", std::to_string(trainer.seed()));  // may be beyond int64
  add("version", PERIGEE_VERSION);
  add("started", now_text());
  return facts;
}

}  // namespace

Json run_details(Trainer& trainer) {
  Json details = Json::object();
  const ModelSpec& spec = trainer.shape().spec();
  details.set("layers", describe_network(Network(spec.network, spec.where), spec.inputs));
  details.set("environment", environment_of(trainer));
  return details;
}

}  // namespace perigee
