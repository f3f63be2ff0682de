#include "src/train/device/device_check.h"

namespace perigee {
namespace {

// tf32 has ten bits behind the leading one.
constexpr double kRounded = 4e-3;

}  // namespace

DeviceCheck::DeviceCheck(Gpu& gpu, PlanRun& run, const StepInfo& step)
    : gpu_(gpu), run_(run), step_(step), checker_(run.plan(), gpu.queue().tf32 ? kRounded : PlanChecker::kTolerance) {}

std::vector<View> DeviceCheck::fetch(const View* views, int count, std::vector<std::vector<std::byte>>* copies) {
  std::vector<View> here(views, views + count);
  for (View& view : here) {
    int64_t last = 0;  // offset of the last element
    for (int d = 0; d < view.rank; ++d) last += (view.dims[d] - 1) * view.strides[d];
    if (view.data == nullptr || view.elements() == 0) continue;
    std::vector<std::byte>& copy = copies->emplace_back(static_cast<size_t>(last + 1) * dtype_bytes(view.dtype));
    gpu_.download(copy.data(), view.data, copy.size());
    view.data = copy.data();
  }
  return here;
}

void DeviceCheck::run_step(size_t index, CudaQueue& queue, const StepInfo* step) {
  std::vector<std::vector<std::byte>> copies;
  KernelCall call = run_.call(index);
  const std::vector<View> in = fetch(call.in, call.n_in, &copies), before = fetch(call.out, call.n_out, &copies);
  call.in = in.data(), call.out = before.data();
  call.step = &step_, call.queue = nullptr, call.scratch = nullptr, call.packed = nullptr;
  checker_.before(index, call);
  run_.queue_step(index, queue, step);
  gpu_.check_queue(run_.plan().steps()[index].op->name);
  const std::vector<View> after = fetch(run_.call(index).out, call.n_out, &copies);
  call.out = after.data();
  checker_.after(index, call);
  if (checker_.failure().empty()) return;
  throw Error(ErrorKind::model, {.where = gpu_.name() + ": step " + std::to_string(step_.step + 1),
                                 .what = "a kernel disagrees with the reference",
                                 .got = checker_.failure(),
                                 .hint = "train with device = \"cpu\", and report this"});
}

}  // namespace perigee
