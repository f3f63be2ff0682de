// The CUDA module of the shim. With PERIGEE_SHIM_STAND_INS in the environment the kernels of ops are those of kernels/ref, queued like a
// device's: quick enough to train networks with, and right by definition, so that what is tested is everything around kernels. Updates and
// what a step needs besides (step.cu) are always the device's own. With PERIGEE_SHIM_LIBRARIES kernels around cuBLASLt and cuDNN come before
// ours, as on a GPU: $PERIGEE_CUDA_LIBRARIES must name tests/cuda/fakes then, which compute when the stream does.
#include "kernels/cuda/registry.h"

namespace perigee {
std::span<const KernelList> cuda_kernels_of_a_gpu();  // the table of the module for a GPU
std::span<const KernelList> chosen_kernel_lists();
}  // namespace perigee

#define perigee_cuda_module module_without_stand_ins
#define cuda_kernel_lists chosen_kernel_lists
#include "kernels/cuda/module.cpp"
#undef cuda_kernel_lists
#undef perigee_cuda_module

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace perigee {
namespace {

constexpr size_t kMost = 256;
std::vector<const Kernel*> originals;
std::vector<Kernel> stand_ins;
std::vector<KernelList> with_stand_ins;

struct Queued {
  explicit Queued(const KernelCall& from) : call(from), in(from.in, from.in + from.n_in), out(from.out, from.out + from.n_out) {
    call.queue = nullptr;
  }
  KernelCall call;
  std::vector<View> in, out;
};

void queue_reference(const Kernel& kernel, const KernelCall& call) {
  CudaQueue& queue = *call.queue;
  if (queue.status != 0) return;
  queue.status = shim::enqueue(stream_of(queue.stream), true, [queued = Queued(call), &kernel] {
    KernelCall now = queued.call;
    now.in = queued.in.data(), now.out = queued.out.data();
    kernel.run(now);
  });
  if (queue.status != 0) queue.failed = kernel.op;
}

// A kernel's `run` does not know whose it is: one for each place in the table.
template <size_t... I>
constexpr auto runs(std::index_sequence<I...>) {
  return std::array<void (*)(const KernelCall&), sizeof...(I)>{[](const KernelCall& call) { queue_reference(*originals[I], call); }...};
}

void make_stand_ins() {
  static constexpr auto kRuns = runs(std::make_index_sequence<kMost>());
  for (const KernelList& list : kernel_lists())
    for (size_t i = 0; i < list.count; ++i) {
      const Kernel& kernel = list.first[i];
      if (kernel.backend != Backend::ref || std::strncmp(kernel.op, "update_", 7) == 0 || originals.size() == kMost) continue;
      Kernel stand_in = kernel;
      stand_in.name = "stand-in", stand_in.backend = Backend::cuda, stand_in.run = kRuns[originals.size()];
      originals.push_back(&kernel);
      stand_ins.push_back(stand_in);
    }
  with_stand_ins.push_back({stand_ins.data(), stand_ins.size()});
  for (const KernelList& list : cuda_kernel_lists())
    if (list.count > 0 && std::strncmp(list.first[0].op, "update_", 7) == 0) with_stand_ins.push_back(list);
}

// What fakes compute waits for its turn on the stream.
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

extern "C" [[gnu::visibility("default")]] const perigee::CudaModule* perigee_cuda_module() {
  using namespace perigee;
  if (std::getenv("PERIGEE_SHIM_STAND_INS") == nullptr) return module_without_stand_ins();
  static const CudaModule module = [] {
    make_stand_ins();
    CudaModule copy = *module_without_stand_ins();
    copy.kernels = [] { return std::span<const KernelList>(with_stand_ins); };
    return copy;
  }();
  return &module;
}
