#include "src/train/device_choice.h"

#include <algorithm>
#include <charconv>

#include "src/core/error.h"
#include "src/device/gpu.h"

namespace perigee {
namespace {

constexpr const char* kKnown = "cpu, ref, cuda, cuda:N, auto or check:cpu,ref";

// Of this machine, that worker's.
int shared_out(int worker) {
  std::string why;
  const int devices = Gpu::count(&why);
  return devices > 0 ? worker % devices : 0;
}

}  // namespace

std::string device_of(const Json& job) {
  const Json* device = job.find("device");
  return device && device->is_string() ? device->as_string() : "cpu";
}

void choose_device(const std::string& device, const std::string& where, int worker, TrainerOptions* options) {
  const auto choose = [&](Backend backend, int index = 0) { options->backend = backend, options->device = index; };
  options->check = device == "check:cpu,ref";
  std::string why;
  if (device == "cpu" || options->check) return choose(Backend::cpu);
  if (device == "ref") return choose(Backend::ref);
  if (device == "auto") return Gpu::count(&why) > 0 ? choose(Backend::cuda, shared_out(worker)) : choose(Backend::cpu);
  if (device == "cuda") return choose(Backend::cuda, shared_out(worker));
  if (device.starts_with("cuda:")) {
    int index = -1;
    const char* const end = device.data() + device.size();
    const auto [last, status] = std::from_chars(device.data() + 5, end, index);
    if (status == std::errc() && last == end && index >= 0) return choose(Backend::cuda, index);
  }
  throw Error(ErrorKind::usage, {where, "there is no such device", "'" + device + "'", kKnown,
                                 nearest_hint(device, {"cpu", "ref", "auto", "cuda", "cuda:0", "check:cpu,ref"})});
}

}  // namespace perigee
