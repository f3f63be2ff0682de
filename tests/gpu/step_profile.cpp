// Where the time of a training step on GPU 0 goes: runs a job's step piece by piece, in the order of one stream, with an event between any
// two, and prints microseconds by op and kernel, then by piece. tests/gpu/bench.py runs it.   step_profile JOB.json
// The host queues a whole step while the device is kept busy, so that no piece waits for it; what an event costs is taken off. Choices are
// those of this machine's table, which train_bench has measured.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "src/train/device/device_step.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

constexpr int kRepeats = 9, kWarmUpSteps = 5;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Piece {
  std::string what, kernel;
  double bytes = 0, operations = 0, us = 0;
};

class Profiler {
 public:
  explicit Profiler(Gpu& gpu) : gpu_(gpu) {
    const size_t wanted = std::getenv("PERIGEE_GPU_BRIEF") != nullptr ? size_t{1} << 20 : size_t{1} << 30;
    busy_ = gpu_.allocate(std::min(wanted, gpu_.free_bytes() / 4), "what keeps the device busy");
  }

  // Microseconds of each piece: medians.
  std::vector<double> run(const std::vector<DeviceWork>& work) {
    while (marks_.size() < work.size() + 2) {
      void* made = nullptr;
      gpu_.check(gpu_.module().create_timer(&made), "make an event");
      marks_.emplace_back(made, gpu_.module().destroy_event);
    }
    const double clear_s = 1e-6 * clear_us();
    std::vector<std::vector<double>> taken(work.size() + 1);  // the first is that of an event alone
    double host_s = 0;
    for (int repeat = -1; repeat < kRepeats; ++repeat) {  // the first says how long the host takes
      for (double ahead = 0; ahead < 1.5 * host_s; ahead += clear_s) gpu_.clear(busy_.data(), busy_.bytes());
      const double start = now();
      mark(0), mark(1);
      for (size_t i = 0; i < work.size(); ++i) {
        work[i].queue(gpu_.queue());
        gpu_.check_queue(work[i].what);
        mark(i + 2);
      }
      host_s = std::max(host_s, now() - start);
      gpu_.wait();
      for (size_t i = 0; i < taken.size() && repeat >= 0; ++i) taken[i].push_back(between(i, i + 1));
    }
    std::vector<double> us;
    for (std::vector<double>& of : taken) us.push_back(median(of));
    for (size_t i = 1; i < us.size(); ++i) us[i] = std::max(0.0, us[i] - us[0]);
    us.erase(us.begin());
    return us;
  }

 private:
  static double median(std::vector<double>& of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
  }
  void mark(size_t i) { gpu_.check(gpu_.module().record_event(marks_[i].get(), gpu_.queue().stream), "record an event"); }
  double between(size_t a, size_t b) {
    float milliseconds = 0;
    gpu_.check(gpu_.module().elapsed(marks_[a].get(), marks_[b].get(), &milliseconds), "read a timer");
    return 1e3 * static_cast<double>(milliseconds);
  }
  double clear_us() {
    gpu_.clear(busy_.data(), busy_.bytes());
    mark(0);
    gpu_.clear(busy_.data(), busy_.bytes());
    mark(1);
    gpu_.wait();
    return std::max(5.0, between(0, 1));
  }

  Gpu& gpu_;
  GpuMemory busy_;
  std::vector<GpuHandle> marks_;
};

double bytes_of(const std::vector<Operand>& operands) {
  double sum = 0;
  for (const Operand& operand : operands)
    if (operand.index != -2) sum += static_cast<double>(operand.view.elements()) * static_cast<double>(dtype_bytes(operand.view.dtype));
  return sum;
}

// The plan's own work is reported with kernel, bytes and operations.
std::vector<Piece> pieces_of(const std::vector<DeviceWork>& work, const Plan& plan) {
  std::vector<Piece> pieces;
  size_t next = 0;
  for (const DeviceWork& part : work) {
    Piece& piece = pieces.emplace_back(Piece{.what = part.what});
    if (next == plan.steps().size() || part.what != step_name(plan.steps()[next])) continue;
    const PlanStep& step = plan.steps()[next++];
    piece.kernel = std::string(step.op->name) + " [" + KernelChoice{step.kernel->name, step.algorithm}.text() + "]";
    piece.bytes = bytes_of(step.in) + bytes_of(step.out), piece.operations = step.flops;
  }
  return pieces;
}

void print_line(const Piece& piece, double all, const std::string& text) {
  std::printf("%9.1f us %5.1f %% %8.0f GB/s %8.2f TFLOP/s  %s\n", piece.us, 100 * piece.us / all,
              1e-3 * piece.bytes / std::max(piece.us, 1e-3), 1e-6 * piece.operations / std::max(piece.us, 1e-3), text.c_str());
}

void print(const std::vector<Piece>& pieces) {
  struct Group {
    Piece sum;
    int count = 0;
  };
  std::map<std::string, Group> groups;
  double all = 0;
  for (const Piece& piece : pieces) {
    Group& group = groups[piece.kernel.empty() ? piece.what : piece.kernel.substr(0, piece.kernel.find_first_of("#]")) + "]"];
    group.sum.us += piece.us, group.sum.bytes += piece.bytes, group.sum.operations += piece.operations, ++group.count;
    all += piece.us;
  }
  std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.sum.us > b.second.sum.us; });
  std::printf("%9.1f us in %zu pieces, one after the other\n", all, pieces.size());
  all = std::max(all, 1e-3);
  for (const auto& [name, group] : sorted) print_line(group.sum, all, std::to_string(group.count) + " x " + name);
  std::printf("\n");
  for (const Piece& piece : pieces) print_line(piece, all, piece.kernel + " " + piece.what);
}

// Fields of the source: those of the model's inputs, then the rest.
std::vector<int> fields_of(const Trainer& trainer) {
  const std::vector<Field>& fields = trainer.train_source().fields();
  std::vector<int> inputs, rest;
  for (size_t f = 0; f < fields.size(); ++f) {
    bool input = false;
    for (const auto& leaf : trainer.shape().spec().inputs) input = input || leaf.name == fields[f].name;
    (input ? inputs : rest).push_back(static_cast<int>(f));
  }
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  return inputs;
}

void profile(const char* path) {
  const Job job = Job::load(path);
  Trainer trainer(job, {.threads = 1, .backend = Backend::cuda});
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.step();

  Gpu gpu(0, "step_profile");
  gpu.queue().tf32 = job.tf32();
  Tuning tuning;
  use_device(tuning, gpu, gpu.queue());
  tuning.merge(trainer.tuning().to_json());
  std::vector<Storage> slots;
  for (size_t i = 0; i < trainer.optimizer_slots(); ++i) {
    slots.emplace_back(trainer.shape().params().block_bytes());
    const auto from = trainer.optimizer_slot(i);
    std::copy(from.begin(), from.end(), slots.back().data());
  }
  DeviceModel model(gpu, trainer.model(), &slots, tuning);
  PlanSet plans(trainer.model(), PlanSet::Kind::training, Backend::cuda, &tuning);
  const std::optional<LossScale> scale = trainer.loss_scale() ? std::optional(*trainer.loss_scale()) : std::nullopt;
  DeviceStep step(model, plans, trainer.optimizer(), trainer.train_source(), fields_of(trainer), trainer.seed(), tuning,
                  scale ? &*scale : nullptr, gpu.free_bytes() / 4, trainer.streams());
  Profiler profiler(gpu);
  const Batch& batch = trainer.next_batch();
  std::vector<Piece> pieces;
  for (const DeviceStep::Part part : {DeviceStep::Part::compute, DeviceStep::Part::update}) {
    const bool update = part == DeviceStep::Part::update;
    step.begin(part, update ? Batch{} : batch, {.examples = update ? 0 : batch.size}, {.seed = trainer.seed(), .training = true});
    step.describe();
    const std::vector<DeviceWork>& work = step.section(0);
    std::vector<Piece> there = pieces_of(work, *plans.plan(batch.size));
    const std::vector<double> us = profiler.run(work);
    for (size_t i = 0; i < there.size(); ++i) there[i].us = us[i];
    pieces.insert(pieces.end(), there.begin(), there.end());
  }
  print(pieces);
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: step_profile JOB.json\n");
    return 2;
  }
  try {
    perigee::profile(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_profile: %s\n", error.what());
    return 1;
  }
}
