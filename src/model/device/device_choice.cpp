#include "src/model/device/device_choice.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/device/gpu_group.h"
#include "src/model/device/device_model.h"
#include "src/model/device/device_tuning.h"

namespace perigee {
namespace {

constexpr const char* kKnown = "cpu, ref, cuda, cuda:N, cuda:0-3, cuda:0,2, auto, check:cpu,ref or check:cuda,ref";
constexpr std::string_view kCheck = "check:", kBesideRef = ",ref", kCuda = "cuda:";

// "0-2,5": what stands behind "cuda:"; empty when it is none.
std::vector<int> listed(std::string_view text) {
  constexpr int kMost = 1024;
  std::vector<int> devices;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](int* value) {
    const auto [last, status] = std::from_chars(at, end, *value);
    const bool good = status == std::errc() && last != at && *value >= 0 && *value < kMost;
    at = last;
    return good;
  };
  while (true) {
    int first = 0;
    if (!number(&first)) return {};
    int last = first;
    if (at != end && *at == '-' && (++at, !number(&last) || last < first)) return {};
    for (int device = first; device <= last; ++device) devices.push_back(device);
    if (at == end) return devices;
    if (*at++ != ',') return {};
  }
}

std::vector<int> of_machine() {
  std::string why;
  std::vector<int> devices(static_cast<size_t>(Gpu::count(&why)));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

// Those of worker number `worker` among so many a worker; more than there are only "devices" can ask for, however the device is named.
std::vector<int> share_of(const std::vector<int>& devices, int worker, int gpus) {
  const auto each = static_cast<size_t>(std::max(1, gpus));
  if (devices.empty()) return {0};  // there is none: opening it reports that
  if (each > devices.size())
    throw Error(ErrorKind::usage, {.where = "devices",
                                   .what = "a worker is to train on more GPUs than there are",
                                   .got = std::to_string(gpus),
                                   .expected = "at most " + std::to_string(devices.size()),
                                   .hint = "`perigee doctor` lists the GPUs of this machine"});
  const size_t first = static_cast<size_t>(worker) % (devices.size() / each) * each;
  return {devices.begin() + static_cast<std::ptrdiff_t>(first), devices.begin() + static_cast<std::ptrdiff_t>(first + each)};
}

}  // namespace

int gpus_of(const std::string& device) {
  return device.starts_with(kCuda) ? std::max<int>(1, static_cast<int>(listed(std::string_view(device).substr(kCuda.size())).size())) : 1;
}

std::string device_of(const Json& job) {
  const Json* device = job.find("device");
  if (device && device->is_string()) return device->as_string();
  return job.find("devices") ? "cuda" : "cpu";
}

int gpus_of(const Json& job, const std::string& where) {
  constexpr int64_t kMost = 64;
  if (job.find("devices")) return static_cast<int>(Config(job, where).integer_in("devices", 1, kMost, 1));
  return gpus_of(device_of(job));
}

DeviceChoice choose_device(const Json& job, const std::string& where) {
  return choose_device(device_of(job), where, 0, gpus_of(job, where));
}

DeviceChoice choose_device(const std::string& device, const std::string& where, int worker, int gpus) {
  if (device.starts_with(kCheck) && device.ends_with(kBesideRef) && device.size() > kCheck.size() + kBesideRef.size()) {
    const std::string checked = device.substr(kCheck.size(), device.size() - kCheck.size() - kBesideRef.size());
    if (checked == "cpu" || checked.starts_with("cuda")) {
      DeviceChoice choice = choose_device(checked, where, worker, gpus);
      choice.check = true;
      return choice;
    }
  }
  std::string why;
  if (device == "cpu") return {.backend = Backend::cpu};
  if (device == "ref") return {.backend = Backend::ref};
  if (device == "auto" && Gpu::usable(&why) == 0) {
    if (!why.empty()) warn(where + ": auto takes the CPU: " + why);
    return {.backend = Backend::cpu};
  }
  if (device == "auto" || device == "cuda") return {.backend = Backend::cuda, .devices = share_of(of_machine(), worker, gpus)};
  if (device.starts_with(kCuda))
    if (const std::vector<int> devices = listed(std::string_view(device).substr(kCuda.size())); !devices.empty())
      return {.backend = Backend::cuda, .devices = share_of(devices, worker, gpus)};
  throw Error(ErrorKind::usage, {where, "there is no such device", "'" + device + "'", kKnown,
                                 device.starts_with("gpu")
                                     ? "did you mean 'cuda'?"
                                     : nearest_hint(device, {"cpu", "ref", "auto", "cuda", "cuda:0", "check:cpu,ref", "check:cuda,ref"})});
}

ModelSite::ModelSite(Model& model, const Json& job, const std::string& device, const std::string& where, std::optional<int> worker) {
  const DeviceChoice choice = choose_device(device, where, worker.value_or(0), worker ? 1 : gpus_of(device));
  if (choice.backend == Backend::cpu && !choice.check) return;
  if (choice.backend != Backend::cuda || choice.check)
    throw Error(ErrorKind::usage, {where, "the reference computes in training only", "'" + device + "'", "cpu, cuda, cuda:N or auto", ""});
  check_devices(choice.devices, where);
  const auto asks = [&](const char* key, const Json& value) {
    const Json* found = job.is_object() ? job.find(key) : nullptr;
    return found && *found == value;
  };
  for (const int index : choice.devices) {
    Gpu& gpu = *gpus_.emplace_back(std::make_unique<Gpu>(index, where));
    gpu.queue().deterministic = asks("deterministic", true);
    gpu.queue().tf32 = asks("precision", "tf32");
  }
  use_device(tuning_, *gpus_.front(), gpus_.front()->queue());
  if (!asks("deterministic", true)) tuning_.load_machine();
  for (const auto& gpu : gpus_)
    models_.push_back(devices_.emplace_back(std::make_unique<DeviceModel>(*gpu, model, nullptr, tuning_)).get());
}

ModelSite::~ModelSite() = default;

void ModelSite::host_changed() const {
  for (DeviceModel* model : models_) model->host_changed();
}

}  // namespace perigee
