#include "src/model/device/device_tuning.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/trace.h"
#include "src/core/warning.h"
#include "src/graph/plan_compiler.h"
#include "src/model/device/device_model.h"

namespace perigee {
namespace {

constexpr int kSamples = 5;
constexpr int kCopies = 10;            // of a call in the graph that is timed, where L2 stays as it is
constexpr int kAlgorithms = 8;         // of a library for one call, at most
constexpr double kBetter = 0.97;       // of the time until now: what comes first is kept unless another is clearly faster
constexpr double kHopeless = 3;        // times the best: one sample will do
constexpr double kBudgetSeconds = 60;  // then steps that are left take what comes first

// How long something takes on the device. Each sample finds L2 alike: where the plan does not fit, emptied by a pass over other memory;
// where it does, as the same call left it, for so it is in a step. Either goes before the sample, so that the host is ahead of the device.
class DeviceTimer {
 public:
  DeviceTimer(Gpu& gpu, size_t plan_bytes) : gpu_(gpu) {
    const size_t l2 = gpu.properties().l2_bytes;
    if (plan_bytes > l2 / 2) other_ = gpu.allocate(2 * l2, "measuring kernels");
    for (auto& pair : events_)
      for (GpuHandle& event : pair) {
        void* made = nullptr;
        gpu.check(gpu.module().create_timer(&made), "make an event");
        event = GpuHandle(made, gpu.module().destroy_event);
      }
  }

  // Milliseconds of one `queue_work`; a first sample of more than `enough` is the answer.
  template <class QueueWork>
  double median(QueueWork queue_work, double enough) {
    const int copies = other_.data() ? 1 : kCopies;
    const GpuHandle graph = gpu_.capture([&] {
      for (int i = 0; i < copies; ++i) queue_work();
    });
    gpu_.launch(graph);
    std::array<float, kSamples> taken = {};
    sample(graph, 0);
    if ((taken[0] = read(0)) > enough * copies) return taken[0] / copies;
    for (size_t i = 1; i < kSamples; ++i) sample(graph, i);
    for (size_t i = 1; i < kSamples; ++i) taken[i] = read(i);
    std::sort(taken.begin(), taken.end());
    return static_cast<double>(taken[kSamples / 2]) / copies;
  }

 private:
  void sample(const GpuHandle& graph, size_t i) {
    if (other_.data()) gpu_.clear(other_.data(), other_.bytes());
    else gpu_.launch(graph);
    gpu_.check(gpu_.module().record_event(events_[i][0].get(), gpu_.queue().stream), "record an event");
    gpu_.launch(graph);
    gpu_.check(gpu_.module().record_event(events_[i][1].get(), gpu_.queue().stream), "record an event");
  }

  float read(size_t i) {
    float milliseconds = 0;
    gpu_.check(gpu_.module().wait_for_event(events_[i][1].get()), "finish a measured kernel");
    gpu_.check(gpu_.module().elapsed(events_[i][0].get(), events_[i][1].get(), &milliseconds), "read a timer");
    return milliseconds;
  }

  Gpu& gpu_;
  GpuMemory other_;
  std::array<std::array<GpuHandle, 2>, kSamples> events_;
};

struct Candidate {
  bool operator==(const Candidate&) const = default;
  const Kernel* kernel = nullptr;
  int algorithm = 0;
};

std::string device_tuning_text_of(const Candidate& candidate) { return KernelChoice{candidate.kernel->name, candidate.algorithm}.text(); }

class DeviceTuner {
 public:
  DeviceTuner(Gpu& gpu, PlanRun& run, const StepInfo* step, bool measure, Tuning& tuning)
      : gpu_(gpu), run_(run), info_(step), measure_(measure), tuning_(tuning) {}

  DeviceTuned run() {
    run_.queue_packs(gpu_.queue());
    gpu_.check_queue("the packing of parameters");
    for (size_t i = 0; i < run_.plan().steps().size(); ++i) {
      const PlanStep& step = run_.plan().steps()[i];
      try {
        settle(step, i);
      } catch (const Error&) {
        remember_fault(step);
        throw;
      }
    }
    return tuned_;
  }

 private:
  void settle(const PlanStep& step, size_t index);
  std::optional<Candidate> known_candidate(const PlanStep& step, const std::vector<const Kernel*>& kernels);
  // The kernel's algorithms that run the call, until `take` says that it is enough: whether it did.
  template <class Take>
  bool try_ways(const PlanStep& step, const Kernel* kernel, const KernelCall& call, Take take);
  std::vector<Candidate> candidates_of(const PlanStep& step, const std::vector<const Kernel*>& kernels, const KernelCall& call);
  Candidate fastest(const PlanStep& step, const std::vector<Candidate>& candidates, const KernelCall& call);
  bool runs(const PlanStep& step, const Candidate& candidate, const KernelCall& call);
  std::string fault_key(const PlanStep& step, const Candidate& candidate) const {
    return tuning_.key_of(step) + " lost the GPU: " + device_tuning_text_of(candidate);
  }
  void remember_fault(const PlanStep& step);
  bool left_out(const PlanStep& step, const Candidate& candidate);
  bool exists(const Candidate& candidate, const KernelCall& call);
  std::optional<KernelCall> with_scratch(const Candidate& candidate, const KernelCall& call);
  KernelCall beside(const KernelCall& call);

  Gpu& gpu_;
  PlanRun& run_;
  const StepInfo* const info_;
  const bool measure_;
  Tuning& tuning_;
  DeviceTuned tuned_;
  std::unique_ptr<DeviceTimer> timer_;
  GpuMemory scratch_, results_;
  std::vector<View> views_;
  std::string refusal_;
  Candidate tried_;          // what ran last
  bool has_rivals_ = false;  // other kernels take its call
  std::set<std::string> told_;
  const uint64_t begin_ns_ = monotonic_ns();
};

// The process that comes after this one chooses something else; where there is nothing else it fares no worse.
void DeviceTuner::remember_fault(const PlanStep& step) {
  if (tried_.kernel == nullptr || !has_rivals_ || !gpu_.lost_to_kernel()) return;
  tuning_.set(fault_key(step, tried_), "1");
  tuning_.save_machine();
}

bool DeviceTuner::left_out(const PlanStep& step, const Candidate& candidate) {
  const std::string key = fault_key(step, candidate);
  if (tuning_.choice(key).empty()) return false;
  refusal_ = "the GPU was lost in '" + device_tuning_text_of(candidate) + "' before";
  if (told_.insert(key).second)
    warn(std::string("op '") + step.op->name + "' leaves out '" + device_tuning_text_of(candidate) +
         "', in which the GPU was lost before; without " + tuning_.machine_file() + " it is tried again");
  return true;
}

// A library runs its last algorithm where it has no such one: whether it would is found without running it.
bool DeviceTuner::exists(const Candidate& candidate, const KernelCall& call) {
  gpu_.queue().algorithm = candidate.algorithm, gpu_.queue().taken = 0;
  const GpuHandle dropped = gpu_.try_capture([&] { candidate.kernel->run(call); }, &refusal_);
  return gpu_.queue().taken == candidate.algorithm;
}

// Waits, so that a fault is told with the op that it came from. A library that refuses is no fault: nothing depends on what it did. Neither is
// one that cannot be captured, which a step has to be.
bool DeviceTuner::runs(const PlanStep& step, const Candidate& candidate, const KernelCall& call) {
  CudaQueue& queue = gpu_.queue();
  queue.algorithm = candidate.algorithm, queue.taken = 0;
  tried_ = candidate;
  candidate.kernel->run(call);
  if (queue.status == kLibraryFailed) {
    refusal_ = std::exchange(queue.failed, nullptr);
    queue.status = 0;
    return false;
  }
  gpu_.check_queue(step_name(step));
  gpu_.check(gpu_.module().wait_for_stream(queue.stream), "run " + step_name(step));
  return static_cast<bool>(gpu_.try_capture([&] { candidate.kernel->run(call); }, &refusal_));
}

// The call with room for a kernel that the plan has none for; nothing where the device has none either.
std::optional<KernelCall> DeviceTuner::with_scratch(const Candidate& candidate, const KernelCall& call) {
  KernelCall with = call;
  const size_t bytes = candidate.kernel->scratch_bytes ? candidate.kernel->scratch_bytes(call) : 0;
  try {
    if (scratch_.bytes() < bytes) scratch_ = {}, scratch_ = gpu_.allocate(bytes, "measuring kernels");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resources) throw;
    refusal_ = error.what();
    return {};
  }
  with.scratch = bytes > 0 ? scratch_.data() : nullptr;
  return with;
}

// A kernel that runs many times must not read its own results: those that lie on operands go elsewhere.
KernelCall DeviceTuner::beside(const KernelCall& call) {
  views_.assign(call.out, call.out + call.n_out);
  for (View& out : views_)
    for (int i = 0; i < call.n_in; ++i)
      if (out.data != nullptr && out.data == call.in[i].data) {
        const size_t bytes = static_cast<size_t>(out.elements()) * dtype_bytes(out.dtype);
        if (results_.bytes() < bytes) results_ = {}, results_ = gpu_.allocate(bytes, "measuring kernels");
        out.data = results_.data();
        break;
      }
  KernelCall moved = call;
  moved.out = views_.data();
  return moved;
}

// A library that refuses one algorithm may run the next.
template <class Take>
bool DeviceTuner::try_ways(const PlanStep& step, const Kernel* kernel, const KernelCall& call, Take take) {
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    const Candidate candidate{kernel, algorithm};
    if (left_out(step, candidate)) continue;
    const auto room = with_scratch(candidate, call);
    if (!room || (algorithm > 0 && left_out(step, {kernel, algorithm - 1}) && !exists(candidate, *room))) return false;
    const bool ran = runs(step, candidate, *room);
    if (gpu_.queue().taken < algorithm) return false;  // there is no such algorithm
    if (ran && take(candidate)) return true;
  }
  return false;
}

// All that run the call, in the order of preference; the first alone when time is short.
std::vector<Candidate> DeviceTuner::candidates_of(const PlanStep& step, const std::vector<const Kernel*>& kernels, const KernelCall& call) {
  std::vector<Candidate> candidates;
  const bool late = static_cast<double>(monotonic_ns() - begin_ns_) * 1e-9 > kBudgetSeconds;
  for (const Kernel* kernel : kernels) {
    const auto keep = [&](const Candidate& candidate) {
      candidates.push_back(candidate);
      return late;
    };
    if (try_ways(step, kernel, call, keep)) break;
  }
  return candidates;
}

Candidate DeviceTuner::fastest(const PlanStep& step, const std::vector<Candidate>& candidates, const KernelCall& call) {
  if (!timer_) timer_ = std::make_unique<DeviceTimer>(gpu_, run_.plan().arena_bytes());
  Candidate best = candidates.front();
  double best_ms = 1e30;
  for (const Candidate& candidate : candidates) {
    const auto room = with_scratch(candidate, call);
    if (!room) continue;
    gpu_.queue().algorithm = candidate.algorithm;
    tried_ = candidate;
    const double taken_ms = timer_->median(
        [&] {
          candidate.kernel->run(*room);
          gpu_.check_queue(step_name(step));
        },
        best_ms * kHopeless);
    if (taken_ms < best_ms * kBetter) best = candidate, best_ms = taken_ms;
  }
  return best;
}

// The table's choice, as the plan's compiler reads it.
std::optional<Candidate> DeviceTuner::known_candidate(const PlanStep& step, const std::vector<const Kernel*>& kernels) {
  for (const bool exact : {true, false}) {
    const KernelChoice choice = kernel_choice(tuning_.choice(tuning_.key_of(step, exact)));
    for (const Kernel* kernel : kernels)
      if (const Candidate candidate{kernel, choice.algorithm}; choice.kernel == kernel->name && !left_out(step, candidate))
        return candidate;
  }
  return {};
}

void DeviceTuner::settle(const PlanStep& step, size_t index) {
  KernelCall call = run_.call(index);
  call.step = info_, call.queue = &gpu_.queue();
  const auto kernels = kernel_candidates(step.op->name, call, {.backend = Backend::cuda});
  has_rivals_ = kernels.size() > 1;
  const Candidate planned{step.kernel, step.algorithm};
  std::optional<Candidate> wanted = known_candidate(step, kernels);
  if (measure_ && !wanted) {
    const KernelCall trial = beside(call);
    const std::vector<Candidate> candidates = candidates_of(step, kernels, trial);
    if (candidates.size() > 1) {
      wanted = fastest(step, candidates, trial);
      tuning_.set(tuning_.key_of(step), device_tuning_text_of(*wanted));
      ++tuned_.measured;
    }
  }
  if (wanted && *wanted != planned) {
    ++tuned_.changed;
    const auto room = with_scratch(*wanted, call);
    if (room && runs(step, *wanted, *room)) return;  // whether the plan's own runs no longer matters
  }
  if (!left_out(step, planned) && runs(step, planned, call)) return;
  const std::string why = refusal_;
  const auto settle_for = [&](const Candidate& candidate) {
    if (candidate == planned) return false;
    const std::string other = device_tuning_text_of(candidate);
    warn(step_name(step) + " runs on another kernel, '" + other + "': " + why);
    tuning_.set(tuning_.key_of(step, true), other);
    ++tuned_.changed;
    return true;
  };
  for (const Kernel* kernel : kernels)
    if (try_ways(step, kernel, call, settle_for)) return;
  if (left_out(step, planned) && runs(step, planned, call)) return;
  throw Error(ErrorKind::resources, {.where = gpu_.name(), .what = "no kernel runs " + step_name(step), .got = refusal_});
}

void use_device(Tuning& tuning, const CudaModule& module, const CudaDevice& device, bool tf32, bool deterministic) {
  int driver = 0, runtime = 0;
  module.versions(&driver, &runtime);
  std::string identity = std::string(device.name) + " " + std::to_string(device.major) + "." + std::to_string(device.minor) + " driver " +
                         std::to_string(driver) + (tf32 ? " tf32" : "") + (deterministic ? " deterministic" : "");
  for (const CudaLibrary library : kCudaLibraries) identity += std::string(" ") + module.library(library).version;
  tuning.use_device(device.name, identity, module.kernels());
}

}  // namespace

void use_device(Tuning& tuning, const Gpu& gpu, const CudaQueue& queue) {
  use_device(tuning, gpu.module(), gpu.properties(), queue.tf32, queue.deterministic);
}

Json measured_on_device(int device, bool tf32) {
  Tuning tuning;
  std::string ignored;
  const CudaModule* const module = cuda_module(&ignored);
  CudaDevice properties;
  if (module && module->device(device, &properties) == 0) {
    use_device(tuning, *module, properties, tf32, false);
    tuning.load_machine();
  }
  return tuning.to_json();
}

void warn_of_missing_libraries(const Gpu& gpu, const Plan& plan) {
  static std::array<std::atomic<bool>, std::size(kCudaLibraries)> told{};
  for (const PlanStep& step : plan.steps()) {
    const std::optional<CudaLibrary> wanted = step.op->library;
    if (!wanted || told[static_cast<size_t>(*wanted)].exchange(true)) continue;
    const CudaLibraryInfo& info = gpu.module().library(*wanted);
    if (info.why)
      warn(gpu.name() + ": " + info.serves + " may be slow without " + info.name + ": " + info.why + "; `perigee doctor` says more");
  }
}

DeviceTuned tune_on_device(Gpu& gpu, PlanRun& run, const StepInfo* step, bool measure, Tuning& tuning) {
  return DeviceTuner(gpu, run, step, measure, tuning).run();
}

}  // namespace perigee
