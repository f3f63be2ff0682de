#include "src/eager/kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/registry.h"
#include "src/core/error.h"
#include "src/core/thread_team.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

constexpr double kWorkWorthThreads = 1 << 16;

using Table = std::map<std::string_view, std::vector<const Kernel*>>;

Table make_table() {
  Table table;
  for (const KernelList& list : kernel_lists())
    for (const Kernel& kernel : std::span(list.first, list.count))
      if (kernel.backend != Backend::cuda && (kernel.backend == Backend::ref || kernel.isa <= host_isa()))
        table[kernel.op].push_back(&kernel);
  for (auto& [op, kernels] : table) {
    std::stable_sort(kernels.begin(), kernels.end(), [](const Kernel* a, const Kernel* b) {
      if ((a->backend == Backend::ref) != (b->backend == Backend::ref)) return b->backend == Backend::ref;
      return a->isa > b->isa;
    });
    std::vector<const Kernel*> best;  // a narrower build of the same code is never better
    for (const Kernel* kernel : kernels)
      if (std::none_of(best.begin(), best.end(), [&](const Kernel* b) { return std::string_view(b->name) == kernel->name; }))
        best.push_back(kernel);
    kernels = best;
  }
  return table;
}

struct SharedTeam {
  SharedTeam() : team(static_cast<int>(std::thread::hardware_concurrency())) {}
  ThreadTeam team;
  std::mutex busy;
};

SharedTeam& shared_team() {
  static SharedTeam shared;
  return shared;
}

void cut(View& view, int dim, int64_t begin, int64_t end) {
  if (dim < 0) return;
  view.data = view.as<std::byte>() + begin * view.strides[dim] * static_cast<int64_t>(dtype_bytes(view.dtype));
  view.dims[dim] = end - begin;
}

void run_alone(const Kernel& kernel, KernelCall call) {
  const size_t scratch = kernel.scratch_bytes ? kernel.scratch_bytes(call) : 0;
  const size_t packed = kernel.packed_bytes ? kernel.packed_bytes(call) : 0;
  if (scratch + packed == 0) return kernel.run(call);
  const Storage memory(scratch + packed + 64);
  call.scratch = memory.data();
  call.packed = memory.data() + (scratch + 63) / 64 * 64;
  if (packed > 0) kernel.pack(call);
  kernel.run(call);
}

}  // namespace

std::span<const Kernel* const> host_kernels(std::string_view op) {
  static const Table table = make_table();
  const auto found = table.find(op);
  return found == table.end() ? std::span<const Kernel* const>() : std::span<const Kernel* const>(found->second);
}

const Kernel& kernel_for(std::span<const Kernel* const> kernels, const KernelCall& call, const char* op) {
  for (const Kernel* kernel : kernels)
    if (!kernel->decline || !kernel->decline(call)) return *kernel;
  const char* const why = kernels.empty() ? nullptr : kernels.back()->decline(call);
  throw Error(ErrorKind::model, {.what = "no kernel computes op '" + std::string(op) + "' on operands of " +
                                         (call.n_in > 0 ? dtype_name(call.in[0].dtype) : "no dtype"),
                                 .hint = why != nullptr ? why : ""});
}

RowSplit split_elementwise(const KernelCall& call) {
  const View& y = call.out[0];
  RowSplit split;
  int dim = 0;
  while (dim < y.rank && y.dims[dim] == 1) ++dim;
  if (dim == y.rank) return split;
  split.rows = y.dims[dim];
  split.out.assign(static_cast<size_t>(call.n_out), dim);
  for (int i = 0; i < call.n_in; ++i) {
    const int own = dim - (y.rank - call.in[i].rank);
    split.in.push_back(own >= 0 && call.in[i].dims[own] != 1 ? own : -1);
  }
  return split;
}

void run_kernel(const Kernel& kernel, const KernelCall& call, const RowSplit& split, double work) {
  if (work < kWorkWorthThreads || split.rows < 2) return run_alone(kernel, call);
  SharedTeam& shared = shared_team();
  const std::unique_lock lock(shared.busy, std::try_to_lock);
  if (!lock || shared.team.size() < 2) return run_alone(kernel, call);
  shared.team.run([&](Team& team) {
    const int64_t begin = split.rows * team.rank() / team.size(), end = split.rows * (team.rank() + 1) / team.size();
    if (begin == end) return;
    std::vector<View> views(call.in, call.in + call.n_in);
    views.insert(views.end(), call.out, call.out + call.n_out);
    for (size_t i = 0; i < split.in.size(); ++i) cut(views[i], split.in[i], begin, end);
    for (size_t o = 0; o < split.out.size(); ++o) cut(views[static_cast<size_t>(call.n_in) + o], split.out[o], begin, end);
    KernelCall part = call;
    part.in = views.data();
    part.out = views.data() + call.n_in;
    run_alone(kernel, part);
  });
}

int team_size() { return shared_team().team.size(); }

void in_parts(int parts, const std::function<void(int part)>& work) {
  SharedTeam& shared = shared_team();
  const std::unique_lock lock(shared.busy, std::try_to_lock);
  if (!lock || parts < 2) {
    for (int part = 0; part < parts; ++part) work(part);
    return;
  }
  shared.team.run([&](Team& team) {
    for (int part = team.rank(); part < parts; part += team.size()) work(part);
  });
}

}  // namespace perigee
