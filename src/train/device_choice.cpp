#include "src/train/device_choice.h"

#include <algorithm>
#include <charconv>

#include "src/core/error.h"
#include "src/device/gpu.h"

namespace perigee {
namespace {

constexpr const char* kKnown = "cpu, ref, cuda, cuda:N, auto, check:cpu,ref or check:cuda,ref";
constexpr std::string_view kCheck = "check:", kBesideRef = ",ref";

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
  const auto choose = [&](Backend backend, int index = 0) { options->backend = backend, options->devices = {index}; };
  options->check = false;
  if (device.starts_with(kCheck) && device.ends_with(kBesideRef) && device.size() > kCheck.size() + kBesideRef.size()) {
    const std::string checked = device.substr(kCheck.size(), device.size() - kCheck.size() - kBesideRef.size());
    if (checked == "cpu" || checked.starts_with("cuda")) {
      choose_device(checked, where, worker, options);
      options->check = true;
      return;
    }
  }
  std::string why;
  if (device == "cpu") return choose(Backend::cpu);
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
                                 nearest_hint(device, {"cpu", "ref", "auto", "cuda", "cuda:0", "check:cpu,ref", "check:cuda,ref"})});
}

}  // namespace perigee
