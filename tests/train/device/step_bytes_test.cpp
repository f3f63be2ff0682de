// Operand bytes of ResNet-50's step (kernels/cuda/README.md has the table): a pass that leaves a copy behind, or images that
// are read once more, are seen here. The network is that of tests/gpu/rows.py.
#include <gtest/gtest.h>

#include <map>

#include "tests/train/networks.h"

namespace perigee {
namespace {

std::string strided_conv(int channels, int kernel, int stride, int padding) {
  return R"({"type": "conv2d", "bias": false, "out": )" + std::to_string(channels) + R"(, "kernel": )" + std::to_string(kernel) +
         R"(, "stride": )" + std::to_string(stride) + R"(, "padding": )" + std::to_string(padding) + "}";
}

std::string resnet50() {
  const std::string norm = R"({"type": "batchnorm", "activation": "relu"})", plain = R"("batchnorm")";
  std::string layers = "[" + strided_conv(64, 7, 2, 3) + "," + norm + R"(, {"type": "maxpool", "kernel": 3, "stride": 2, "padding": 1})";
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < blocks[stage]; ++block) {
      const int width = 64 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
      layers += R"(, {"type": "residual", "activation": "relu", "layers": [)" + strided_conv(width, 1, 1, 0) + "," + norm + "," +
                strided_conv(width, 3, stride, 1) + "," + norm + "," + strided_conv(4 * width, 1, 1, 0) + "," + plain + "]";
      if (block == 0)
        layers += R"(, "shortcut": {"type": "sequential", "layers": [)" + strided_conv(4 * width, 1, stride, 0) + "," + plain + "]}";
      layers += "}";
    }
  return layers + R"(, {"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 1000}])";
}

struct Traffic {
  int steps = 0;
  double read = 0, again = 0, written = 0;  // GB; again: what our kernels read a second time
};

double gigabytes(const Operand& operand) {
  return static_cast<double>(operand.view.elements()) * static_cast<double>(dtype_bytes(operand.view.dtype)) * 1e-9;
}

// Bytes that `columns` of batch_norm reads in its second pass: x, and for gradients dy or what relu left of it; y where only it has the mask.
double read_again(const PlanStep& step) {
  const std::string_view op = step.op->name;
  if (op == "batch_norm") return gigabytes(step.in[0]);
  if (op != "batch_norm_grad") return 0;
  const bool mask_of_y = step.in[2].view.rank > 0, kept = step.out.size() > 3;
  return gigabytes(step.in[1]) * (mask_of_y && !kept ? 3 : 2);
}

ModelSpec spec_of(const std::string& layers, Shape image, int classes) {
  ModelSpec spec;
  spec.network = Json::parse(R"({"type": "sequential", "layers": )" + layers + "}", "network");
  spec.inputs = {{"image", Type{Dtype::f32, std::move(image)}}};
  spec.target = {"label", Type{Dtype::i64, Shape{}}};
  spec.classes = classes;
  spec.loss = Json("cross_entropy");
  return spec;
}

struct Counted {
  std::map<std::string, Traffic> by_op;
  Traffic all;
  double operations = 0;
};

Counted count(const ModelSpec& spec, int64_t batch) {
  const Model model(spec);
  const auto plan = PlanSet(model, PlanSet::Kind::training, Backend::cuda).plan(batch);
  Counted counted;
  for (const PlanStep& step : plan->steps()) {
    for (Traffic* sum : {&counted.by_op[step.op->name], &counted.all}) {
      ++sum->steps;
      for (const Operand& in : step.in)
        if (in.view.rank > 0) sum->read += gigabytes(in);
      for (const Operand& out : step.out) {
        sum->written += gigabytes(out);
        if (step.accumulate && out.place != Place::output) sum->read += gigabytes(out);
      }
      sum->again += read_again(step);
    }
  }
  counted.operations = plan->flops();
  return counted;
}

TEST(StepBytes, OfResNet50AreNoMore) {
  ModelSpec spec = spec_of(resnet50(), Shape{3, 224, 224}, 1000);
  spec.half = Dtype::bf16;
  Counted counted = count(spec, 128);
  const Traffic& all = counted.all;
  std::map<std::string, Traffic>& traffic = counted.by_op;
  for (const auto& [op, sum] : traffic)
    std::printf("%-24s %4d steps: %5.2f GB read, %5.2f again, %5.2f written\n", op.c_str(), sum.steps, sum.read, sum.again, sum.written);
  std::printf("%d steps, %.2f GB, %.2f read again, %.2f T operations\n", all.steps, all.read + all.written, all.again,
              counted.operations * 1e-12);
  const double images = 11113984.0 * 128 * 2 * 1e-9;  // the results of its convolutions: numbers an example, examples, bytes
  for (const char* op : {"conv2d", "batch_norm"}) EXPECT_NEAR(traffic[op].written, images, 0.01) << op;
  EXPECT_NEAR(traffic["batch_norm"].again, images, 0.01);
  EXPECT_NEAR(traffic["batch_norm_grad"].again, 2 * images, 0.01);
  EXPECT_NEAR(counted.operations * 1e-12, 3 * 2 * 4.089e9 * 128 * 1e-12, 0.05);  // multiply-adds forward, three times
  EXPECT_LE(all.read + all.written, 37.62);
}

TEST(StepBytes, OfSmallNetworksAreNoMore) {
  const struct {
    const char* name;
    std::string layers;
    int64_t batch;
    double most;  // MB
  } cases[] = {{"lenet", kLenet, 32, 3.79}, {"lenet", kLenet, 1024, 96.2}, {"mlp", kMlp, 128, 10.15}};
  for (const auto& of : cases) {
    const Counted counted = count(spec_of(of.layers, Shape{1, 28, 28}, 10), of.batch);
    const double megabytes = 1e3 * (counted.all.read + counted.all.written);
    std::printf("%s, batch %d: %d steps, %.3g MB, %.3g G operations\n", of.name, static_cast<int>(of.batch), counted.all.steps, megabytes,
                counted.operations * 1e-9);
    EXPECT_LE(megabytes, of.most);
  }
}

}  // namespace
}  // namespace perigee
