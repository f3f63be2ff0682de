// The CUDA module of the shim. With PERIGEE_SHIM_STAND_INS in the environment the kernels of ops are those of kernels/ref, queued like a
// device's: quick enough to train networks with, and right by definition, so that what is tested is everything around kernels. Updates and
// what a step needs besides (step.cu) are always the device's own. With PERIGEE_SHIM_STAND_INS=2 there are two of each, "stand-in" and "other",
// that take as long, know as many algorithms and refuse as a test says. With PERIGEE_SHIM_LIBRARIES kernels around cuBLASLt and cuDNN come
// before ours, as on a GPU: $PERIGEE_CUDA_LIBRARIES must name tests/cuda/fakes then, which compute when the stream does.
#include "kernels/cuda/runtime/registry.h"

namespace perigee {
std::span<const KernelList> cuda_kernels_of_a_gpu();  // the table of the module for a GPU
std::span<const KernelList> chosen_kernel_lists();
}  // namespace perigee

#define perigee_cuda_module module_without_stand_ins
#define cuda_kernel_lists chosen_kernel_lists
#include "kernels/cuda/runtime/module.cpp"
#undef cuda_kernel_lists
#undef perigee_cuda_module

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/shim/counters.h"

void use_fake_nccl();  // meetings.cpp

namespace perigee {
namespace {

constexpr size_t kMost = 256;
constexpr const char* kNames[] = {"stand-in", "other"};
std::vector<const Kernel*> originals;
std::map<std::string, std::vector<double>> milliseconds;  // by "op/name", of each algorithm; negative: refused, -3: spoils the device
std::map<std::string, long> runs_of;                      // by "op/name" or "op/name#algorithm"
std::string spoilt;                                       // the op whose kernels are wrong
std::vector<Kernel> stand_ins;
std::vector<KernelList> with_stand_ins;

struct Queued {
  explicit Queued(const KernelCall& from) : call(from), in(from.in, from.in + from.n_in), out(from.out, from.out + from.n_out) {
    call.queue = nullptr;
  }
  KernelCall call;
  std::vector<View> in, out;
};

void queue_reference(const Kernel& kernel, const char* name, const KernelCall& call) {
  CudaQueue& queue = *call.queue;
  if (queue.status != 0) return;
  std::string way = std::string(kernel.op) + "/" + name;
  const auto told = milliseconds.find(way);
  const std::vector<double> times = told == milliseconds.end() ? std::vector<double>{1} : told->second;
  const int algorithm = std::min(queue.algorithm, static_cast<int>(times.size()) - 1);
  queue.taken = std::max(queue.taken, algorithm);
  const double taken_ms = times[static_cast<size_t>(algorithm)];
  if (taken_ms == -2) {  // waits, which no capture allows
    queue.status = cudaStreamSynchronize(stream_of(queue.stream));
    if (queue.status != 0) return;
  } else if (taken_ms < 0 && taken_ms != -3) {
    queue.status = kLibraryFailed, queue.failed = "refused by the test";
    return;
  }
  if (algorithm > 0) way += "#" + std::to_string(algorithm);
  queue.status = shim::enqueue(stream_of(queue.stream), true, [queued = Queued(call), &kernel, way, taken_ms, device = queue.device] {
    if (taken_ms == -3) return shim::lose_device(device);
    KernelCall now = queued.call;
    now.in = queued.in.data(), now.out = queued.out.data();
    kernel.run(now);
    if (spoilt == kernel.op) now.out[0].as<float>()[0] += 1;
    shim::pass_time(std::max(taken_ms, 0.0));
    ++runs_of[way];
  });
  if (queue.status != 0) queue.failed = kernel.op;
}

// A kernel's `run` does not know whose it is: one for each place in the table, and name.
template <size_t... I>
constexpr auto runs(std::index_sequence<I...>) {
  return std::array<void (*)(const KernelCall&), sizeof...(I)>{
      [](const KernelCall& call) { queue_reference(*originals[I % kMost], kNames[I / kMost], call); }...};
}

void make_stand_ins() {
  static constexpr auto kRuns = runs(std::make_index_sequence<2 * kMost>());
  const size_t names = std::strcmp(std::getenv("PERIGEE_SHIM_STAND_INS"), "2") == 0 ? 2 : 1;
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (kernel.backend != Backend::ref || std::strncmp(kernel.op, "update_", 7) == 0 || originals.size() == kMost) continue;
      for (size_t n = 0; n < names; ++n) {
        Kernel stand_in = kernel;
        stand_in.name = kNames[n], stand_in.backend = Backend::cuda, stand_in.run = kRuns[n * kMost + originals.size()];
        stand_ins.push_back(stand_in);
      }
      originals.push_back(&kernel);
    }
  with_stand_ins.push_back({stand_ins.data(), stand_ins.size()});
  for (const KernelList& list : cuda_kernel_lists())
    if (list.count > 0 && std::strncmp(list.first[0].op, "update_", 7) == 0) with_stand_ins.push_back(list);
}

// Work of the fakes waits for its turn on the stream.
void queue_of_fake(void* stream, std::function<void()> work) { shim::enqueue(stream_of(stream), true, std::move(work)); }

std::vector<KernelList> with_libraries() {
  for (const CudaLibrary library : {CudaLibrary::cublas_lt, CudaLibrary::cudnn}) {
    void (*queue_by)(void (*)(void*, std::function<void()>)) = nullptr;
    find_function(library, "fake_queue_by", &queue_by);
    if (queue_by != nullptr) queue_by(queue_of_fake);
  }
  std::vector<KernelList> lists;
  for (const KernelList& list : cuda_kernels_of_a_gpu())  // programs of NVRTC are for a GPU alone
    if (list.count > 0 && std::strcmp(list.first[0].name, "nvrtc") != 0) lists.push_back(list);
  return lists;
}

}  // namespace

std::span<const KernelList> chosen_kernel_lists() {
  if (std::getenv("PERIGEE_SHIM_LIBRARIES") == nullptr) return cuda_kernel_lists();
  static const std::vector<KernelList> lists = with_libraries();
  return lists;
}

}  // namespace perigee

extern "C" {
void shim_kernel(const char* way, const double* times_ms, int algorithms) {
  if (algorithms > 0) perigee::milliseconds[way].assign(times_ms, times_ms + algorithms);
  else perigee::milliseconds.clear(), perigee::runs_of.clear();
}
void shim_spoil(const char* op) { perigee::spoilt = op; }
long shim_runs(const char* way) { return perigee::runs_of[way]; }
}

extern "C" [[gnu::visibility("default")]] const perigee::CudaModule* perigee_cuda_module() {
  using namespace perigee;
  use_fake_nccl();
  if (std::getenv("PERIGEE_SHIM_STAND_INS") == nullptr) return module_without_stand_ins();
  static const CudaModule module = [] {
    make_stand_ins();
    CudaModule copy = *module_without_stand_ins();
    copy.kernels = [] { return std::span<const KernelList>(with_stand_ins); };
    return copy;
  }();
  return &module;
}
