#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "kernels/ops/elementwise.h"
#include "src/optim/schedule.h"

namespace perigee {
namespace {

constexpr size_t kMostScheduleOps = 256;
constexpr const char* kTimes[] = {"step", "epoch", "progress"};

using Operands = std::array<double, 3>;

using E = Elementwise;

// The element-wise ops that a curve may take, on one number.
struct ScalarOp {
  E op;
  double (*compute)(const Operands&);
  size_t operands = static_cast<size_t>(elementwise_arity(op));
};

constexpr ScalarOp kScalarOps[] = {
    {E::add, [](const Operands& x) { return x[0] + x[1]; }},
    {E::sub, [](const Operands& x) { return x[0] - x[1]; }},
    {E::mul, [](const Operands& x) { return x[0] * x[1]; }},
    {E::div, [](const Operands& x) { return x[0] / x[1]; }},
    {E::pow, [](const Operands& x) { return std::pow(x[0], x[1]); }},
    {E::maximum, [](const Operands& x) { return std::fmax(x[0], x[1]); }},
    {E::minimum, [](const Operands& x) { return std::fmin(x[0], x[1]); }},
    {E::equal, [](const Operands& x) { return double(x[0] == x[1]); }},
    {E::not_equal, [](const Operands& x) { return double(x[0] != x[1]); }},
    {E::less, [](const Operands& x) { return double(x[0] < x[1]); }},
    {E::less_equal, [](const Operands& x) { return double(x[0] <= x[1]); }},
    {E::greater, [](const Operands& x) { return double(x[0] > x[1]); }},
    {E::greater_equal, [](const Operands& x) { return double(x[0] >= x[1]); }},
    {E::where, [](const Operands& x) { return x[0] != 0 ? x[1] : x[2]; }},
    {E::neg, [](const Operands& x) { return -x[0]; }},
    {E::exp, [](const Operands& x) { return std::exp(x[0]); }},
    {E::log, [](const Operands& x) { return std::log(x[0]); }},
    {E::sqrt, [](const Operands& x) { return std::sqrt(x[0]); }},
    {E::abs, [](const Operands& x) { return std::abs(x[0]); }},
    {E::sin, [](const Operands& x) { return std::sin(x[0]); }},
    {E::cos, [](const Operands& x) { return std::cos(x[0]); }},
    {E::tanh, [](const Operands& x) { return std::tanh(x[0]); }},
    {E::sigmoid, [](const Operands& x) { return 1 / (1 + std::exp(-x[0])); }},
    {E::floor, [](const Operands& x) { return std::floor(x[0]); }},
};

const ScalarOp& scalar_op(const Config& op) {
  std::vector<std::string> known;
  for (const ScalarOp& each : kScalarOps) known.emplace_back(elementwise_name(each.op));
  const std::string name = op.choice("op", "", known);
  for (const ScalarOp& each : kScalarOps)
    if (name == elementwise_name(each.op)) return each;
  op.fail("op", "is missing");
}

// Values by place: the three times, then numbers and results.
class LambdaCurve : public Curve {
 public:
  explicit LambdaCurve(const Config& options) : where_(options.where()) {
    for (const char* name : kTimes) places_.emplace(name, values_++);
    const Json* program = options.raw("program");
    const size_t count = program->is_array() ? program->as_array().size() : 0;
    if (count > kMostScheduleOps)
      options.fail("program", "is too long", std::to_string(count) + " ops", "at most " + std::to_string(kMostScheduleOps));
    for (size_t i = 0; i < count; ++i) read(options.element(program->as_array()[i], "op " + std::to_string(i + 1)));
    const std::string output = options.string("output");
    if (!places_.contains(output)) options.fail("output", "names no value of the program", output);
    output_ = places_.at(output);
    at({});  // what the first step would find is told before there is a run
  }

  double at(const StepProgress& now) const override {
    std::array<double, kMostScheduleOps + 3> values{static_cast<double>(now.step), now.epoch, now.progress};
    for (const Step& step : steps_) {
      Operands operands{};
      for (size_t i = 0; i < step.op->operands; ++i)
        operands[i] = step.in[i] < 0 ? step.number[i] : values[static_cast<size_t>(step.in[i])];
      values[step.out] = step.op->compute(operands);
    }
    const double value = values[output_];
    if (std::isfinite(value)) return value;
    throw Error(ErrorKind::model,
                {.where = where_,
                 .what = "the function gives no finite number",
                 .got = std::to_string(value) + " at step " + std::to_string(now.step) + ", epoch " + std::to_string(now.epoch),
                 .hint = now.step == 0 ? "the first step has now.step = 0: write now.step + 1 where that is divided by" : ""});
  }

 private:
  struct Step {
    const ScalarOp* op = nullptr;
    std::array<int, 3> in{-1, -1, -1};  // places; -1: a number
    Operands number{};
    size_t out = 0;
  };

  void read(const Config& op) {
    Step step{.op = &scalar_op(op), .in = {-1, -1, -1}, .number = {}, .out = values_++};
    const Json* in = op.raw("in");
    if (!in || !in->is_array() || in->as_array().size() != step.op->operands)
      op.fail("in", "has another number of operands", "", std::to_string(step.op->operands));
    for (size_t i = 0; i < step.op->operands; ++i) {
      const Json& item = in->as_array()[i];
      if (item.is_number()) step.number[i] = item.as_number();
      else if (item.is_string() && places_.contains(item.as_string())) step.in[i] = static_cast<int>(places_.at(item.as_string()));
      else op.fail("in", "has an operand that is no number and no value of the program", item.dump(), "step, epoch, progress or a result");
    }
    if (!places_.emplace(op.string("out"), step.out).second) op.fail("out", "names a value for the second time", op.string("out"));
    op.raw("attrs");
    op.reject_unread();
    steps_.push_back(step);
  }

  std::string where_;
  std::map<std::string, size_t> places_;
  std::vector<Step> steps_;
  size_t values_ = 0, output_ = 0;
};

constexpr Option kLambdaScheduleOptions[] = {
    {"program", "list of {op, in, out, attrs}", nullptr, "arithmetic on step, epoch and progress, in order"},
    {"output", "string", nullptr, "the value that leaves"}};

}  // namespace

extern const ScheduleDef schedule_lambda;
const ScheduleDef schedule_lambda{
    .name = "lambda",
    .doc =
        "A function of one's own, traced once: lr = function(now) return 0.1 * 0.9 ^ now.epoch end, of now.step, now.epoch and "
        "now.progress.",
    .example =
        R"({"type": "lambda", "program": [{"op": "pow", "in": [0.9, "epoch"], "out": "t1"}, {"op": "mul", "in": [0.1, "t1"], "out": "t2"}],
      "output": "t2"})",
    .schema = {.options = kLambdaScheduleOptions},
    .read = [](const Config& options) -> std::unique_ptr<Curve> { return std::make_unique<LambdaCurve>(options); },
};

}  // namespace perigee
