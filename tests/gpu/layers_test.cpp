// Every layer's worked example on a GPU: its outputs and gradients, by plans as they are trained, are those of the interpreter with the
// reference kernels, whose gradients tests/nn checks against finite differences. And its gradients there are those of its loss there: the
// loss is measured on both sides of the numbers, a little way along a random direction.
#include "src/graph/plan_compiler.h"
#include "tests/gpu/gpu_site.h"
#include "tests/nn/trained_layer.h"

namespace perigee {
namespace {

// Tensors of the host and their copies on the device.
class Mirror {
 public:
  explicit Mirror(Gpu& gpu) : gpu_(gpu) {}
  void* hold(const Tensor& tensor) {
    memories_.push_back(gpu_.allocate(std::max<size_t>(1, bytes_of(tensor.view())), "a test's tensor"));
    gpu_.upload(memories_.back().data(), tensor.view().data, bytes_of(tensor.view()));
    return memories_.back().data();
  }
  static size_t bytes_of(const View& view) { return static_cast<size_t>(view.elements()) * dtype_bytes(view.dtype); }

 private:
  Gpu& gpu_;
  std::vector<GpuMemory> memories_;
};

// A view of the device's memory, whatever its strides, as a tensor of the host.
Tensor fetch(Gpu& gpu, const View& there) {
  int64_t last = 0;  // offset of the last element
  for (int d = 0; d < there.rank; ++d) last += (there.dims[d] - 1) * there.strides[d];
  std::vector<std::byte> copy(static_cast<size_t>(last + 1) * dtype_bytes(there.dtype));
  gpu.download(copy.data(), there.data, copy.size());
  View here = there;
  here.data = copy.data();
  return contiguous_copy(here);
}

// On the step's kernel, or the next that runs it where a library refuses, as in training.
void queue_step(Gpu& gpu, PlanRun& run, size_t index, const StepInfo* there, std::vector<GpuMemory>& scratches) {
  const char* const op = run.plan().steps()[index].op->name;
  std::string said;
  try {
    run.queue_step(index, gpu.queue(), there);
    throw_if_refused(gpu.queue());
    return gpu.check_queue(op);
  } catch (const Refused& refusal) {
    said = refusal.what();
  }
  KernelCall call = run.call(index);
  call.queue = &gpu.queue(), call.step = there;
  for (const Kernel* kernel : kernel_candidates(op, call, {.backend = Backend::cuda})) {
    scratches.push_back(gpu.allocate(kernel->scratch_bytes != nullptr ? kernel->scratch_bytes(call) + 1 : 1, "scratch"));
    call.scratch = scratches.back().data();
    try {
      kernel->run(call);
      throw_if_refused(gpu.queue());
      std::printf("%s runs on '%s': %s\n", op, kernel->name, said.c_str());
      return gpu.check_queue(op);
    } catch (const Refused&) {
      continue;
    }
  }
  throw Refused(said);
}

std::map<std::string, Tensor> run_on_gpu(Gpu& gpu, const TrainedLayer& trained, const std::map<std::string, Tensor>& leaves) {
  const auto plan = Plan::compile(trained.graph, {.backend = Backend::cuda, .external_outputs = trained.external});
  const GpuMemory arena = gpu.allocate(plan->arena_bytes() + 1, "arena"), packed = gpu.allocate(plan->packed_bytes() + 1, "packed");
  Mirror mirror(gpu);
  std::vector<void*> parameters, states, outputs, tables;
  std::map<std::string, std::pair<Tensor, void*>> external;
  for (const std::string& name : plan->parameters()) parameters.push_back(mirror.hold(leaves.at(name)));
  for (const std::string& name : plan->states()) states.push_back(mirror.hold(leaves.at(name)));
  for (const Tensor& table : plan->tables()) tables.push_back(mirror.hold(table));
  for (const std::string& name : plan->external_outputs())
    for (const NamedValue& output : trained.graph.outputs())
      if (output.name == name) {
        Tensor zeros(Dtype::f32, trained.graph.type(output.value).shape);
        outputs.push_back(mirror.hold(zeros));
        external.emplace(name, std::pair(zeros, outputs.back()));
      }
  PlanRun run(
      plan,
      {.arena = arena.data(), .parameters = parameters, .states = states, .outputs = outputs, .tables = tables, .packed = packed.data()});
  for (size_t i = 0; i < plan->inputs().size(); ++i) run.set_input(static_cast<int>(i), mirror.hold(leaves.at(plan->inputs()[i])));
  const StepInfo step{.training = true};
  const GpuMemory device_step = gpu.allocate(sizeof step, "step");
  gpu.upload(device_step.data(), &step, sizeof step);
  std::vector<GpuMemory> scratches;
  run.queue_packs(gpu.queue());
  for (size_t i = 0; i < plan->steps().size(); ++i)
    queue_step(gpu, run, i, reinterpret_cast<const StepInfo*>(device_step.data()), scratches);
  gpu.wait();
  std::map<std::string, Tensor> results;
  for (auto& [name, place] : external) {
    gpu.download(place.first.view().data, place.second, Mirror::bytes_of(place.first.view()));
    results.emplace(name, place.first);
  }
  for (const NamedValue& output : trained.graph.outputs())
    if (!results.contains(output.name)) results.emplace(output.name, fetch(gpu, run.output(output.name)));
  return results;
}

TEST(GpuLayers, TrainEveryExampleAsTheInterpreterDoes) {
  PERIGEE_SKIP_WITHOUT_GPU();
  Gpu gpu(0, "test");
  for (const LayerDef* layer : all_layers()) {
    SCOPED_TRACE(layer->name);
    now_doing(std::string("layer ") + layer->name);
    try {
      expect_as_interpreted(
          *layer, [&](const TrainedLayer& trained, std::map<std::string, Tensor>& leaves) { return run_on_gpu(gpu, trained, leaves); });
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// Parameters and inputs of the example, drawn so that few of them lie where a slope changes.
std::map<std::string, Tensor> drawn_leaves(const Graph& graph, std::mt19937_64& random) {
  std::map<std::string, Tensor> leaves;
  for (const Leaf& leaf : graph.leaves()) {
    const Type& type = graph.type(leaf.value);
    const bool indices = type.dtype == Dtype::i64;
    leaves[leaf.name] =
        case_values(indices ? index(type.shape, 3) : real(type.shape, leaf.kind == LeafKind::state ? 0.5 : -1, 1), false, random);
  }
  return leaves;
}

constexpr float kStep = 1.0f / 256;  // small against the numbers, large against their rounding

// The slope of the loss along a random direction of parameters and inputs, by the gradients and by two losses; `size` is that of the sum.
struct Slopes {
  double told = 0, seen = 0, size = 0;
};

Slopes slopes_on_gpu(Gpu& gpu, const TrainedLayer& trained, std::map<std::string, Tensor> leaves, std::mt19937_64& random) {
  std::map<std::string, Tensor> results = run_on_gpu(gpu, trained, leaves), ahead = leaves, behind = leaves;
  Slopes slopes;
  for (const auto& [name, gradient] : results) {
    if (!name.starts_with("grad:") && !name.starts_with("input:")) continue;
    const std::string leaf = name.substr(name.find(':') + 1);
    Tensor there = leaves.at(leaf).clone(), back = leaves.at(leaf).clone();
    for (int64_t i = 0; i < gradient.elements(); ++i) {
      const float direction = random() % 2 == 0 ? 1.0f : -1.0f;
      there.data<float>()[i] += kStep * direction, back.data<float>()[i] -= kStep * direction;
      slopes.told += double{gradient.data<float>()[i]} * direction;
      slopes.size += std::abs(double{gradient.data<float>()[i]});
    }
    ahead[leaf] = there, behind[leaf] = back;
  }
  const auto total = [&](const std::map<std::string, Tensor>& at) {
    return double{run_on_gpu(gpu, trained, at).at("total").data<float>()[0]};
  };
  slopes.seen = (total(ahead) - total(behind)) / (2.0 * kStep);
  return slopes;
}

TEST(GpuLayers, GradientsAreTheSlopesOfTheLoss) {
  PERIGEE_SKIP_WITHOUT_GPU();
  Gpu gpu(0, "test");
  for (const LayerDef* layer : all_layers()) {
    SCOPED_TRACE(layer->name);
    now_doing(std::string("layer ") + layer->name);
    const std::string_view name = layer->name;
    std::seed_seq seed(name.begin(), name.end());  // a new layer changes no draw of the others
    std::mt19937_64 random(seed);
    TrainedLayer trained;
    build_trained(*layer, true, trained);
    // Where a slope changes within the step one direction may be wrong; not two of three.
    int agree = 0;
    Slopes last;
    for (int trial = 0; trial < 3; ++trial) {
      last = slopes_on_gpu(gpu, trained, drawn_leaves(trained.graph, random), random);
      agree += std::abs(last.told - last.seen) <= 0.01 * last.size + 1e-3;
    }
    EXPECT_GE(agree, 2) << "the gradients say " << last.told << ", two losses " << last.seen << "; gradients sum up to " << last.size;
  }
}

}  // namespace
}  // namespace perigee
