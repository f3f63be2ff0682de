// Outer steps against the formulas of their papers, written out in plain doubles; the same bits from every kernel; and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "cluster/exchange/outer_step.h"
#include "kernels/registry.h"
#include "src/graph/plan.h"
#include "tests/cluster/replica/policy_text.h"

namespace perigee {
namespace {

std::vector<ParamWindow> one_window(int64_t elements) {
  ParamWindow window;
  window.elements = elements;
  return {window};
}

constexpr int64_t kElements = 1000;  // more than one tile of the kernel
constexpr int kRounds = 12;

// The workers' results in each round, from any start: a change of the parameters that is a function of round and element.
double change(int round, int64_t element) { return 0.01 * std::sin(0.7 * round + 0.013 * static_cast<double>(element)) + 0.002; }

OuterRound round_at(int round) {
  return {
      .workers = round < 6 ? 4.0 : 8.0, .progress = round / 12.0, .round = static_cast<double>(round), .learning_rate = 0.1 / (1 + round)};
}

// `reference(element)` starts anew and returns what makes the next global value from (round, global, mean).
using Reference = std::function<std::function<double(int round, double global, double mean)>(int64_t element)>;

// Follows the policy's outer step and the reference, each on its own trajectory.
template <class T>
void expect_trajectory(const std::string& policy, const Reference& reference, double tolerance) {
  OuterStep step(policy_of(policy).outer, sizeof(T) == 4 ? Dtype::f32 : Dtype::f64, one_window(kElements), kElements);
  std::vector<T> global(kElements), mean(kElements);
  std::vector<double> expected(kElements);
  std::vector<std::function<double(int, double, double)>> next;
  for (int64_t i = 0; i < kElements; ++i) {
    expected[i] = std::cos(0.1 * static_cast<double>(i));
    global[i] = static_cast<T>(expected[i]);
    next.push_back(reference(i));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t i = 0; i < kElements; ++i) {
      mean[i] = static_cast<T>(global[i] - change(round, i));
      expected[i] = next[i](round, expected[i], expected[i] - change(round, i));
    }
    step.run(round_at(round), reinterpret_cast<const std::byte*>(global.data()), reinterpret_cast<std::byte*>(mean.data()));
    global = mean;
    for (int64_t i = 0; i < kElements; ++i)
      ASSERT_NEAR(global[i], expected[i], tolerance) << policy << " round " << round << " element " << i;
  }
}

void expect_trajectories(const std::string& policy, const Reference& reference) {
  expect_trajectory<float>(policy, reference, 2e-6);
  expect_trajectory<double>(policy, reference, 1e-14);
}

// torch.optim.SGD(lr, momentum, nesterov=True), as PyTorch's documentation has it: b = mu b + g; g = g + mu b; p = p - lr g.
TEST(OuterStep, DilocoIsSgdWithNesterovMomentum) {
  const auto torch = [](double lr, double mu) {
    return [=](int64_t) {
      return [=, buffer = 0.0](int, double global, double mean) mutable {
        const double gradient = global - mean;
        buffer = mu * buffer + gradient;
        return global - lr * (gradient + mu * buffer);
      };
    };
  };
  expect_trajectories(R"("diloco")", torch(0.7, 0.9));
  expect_trajectories(R"({"type": "diloco", "momentum": 0.5, "rate": 1})", torch(1, 0.5));
  // The gain of the first step at mu = 0.9 is 1.9 zeta.
  OuterStep step(policy_of(R"("diloco")").outer, Dtype::f64, one_window(1), 1);
  const double global = 3;
  double mean = 2;
  step.run({}, reinterpret_cast<const std::byte*>(&global), reinterpret_cast<std::byte*>(&mean));
  EXPECT_NEAR(global - mean, 1.9 * 0.7, 1e-15);
}

// Chen and Huo 2016, with the sequence W beside W_g as in the paper: G = mean - W_g; D = eta D + zeta G; W = W + D; W_g is W (classic) or
// W + eta D (Nesterov).
TEST(OuterStep, BmufIsThePapersRecursion) {
  const auto paper = [](double eta, double zeta, bool nesterov) {
    return [=](int64_t) {
      return [=, w = 0.0, d = 0.0](int round, double global, double mean) mutable {
        if (round == 0) w = global;
        d = eta * d + zeta * (mean - global);
        w += d;
        return nesterov ? w + eta * d : w;
      };
    };
  };
  expect_trajectories(R"({"type": "bmuf", "momentum": 0.75})", paper(0.75, 1, true));
  expect_trajectories(R"({"type": "bmuf", "momentum": 0.75, "nesterov": false})", paper(0.75, 1, false));
  expect_trajectories(R"({"type": "bmuf", "momentum": 0.875, "rate": 0.9})", paper(0.875, 0.9, true));
  expect_trajectories(R"({"type": "bmuf", "momentum": 0, "rate": 0.5})", paper(0, 0.5, true));
}

// The default follows the workers: 1 - 1/4, then 1 - 1/8.
TEST(OuterStep, BmufsMomentumFollowsTheWorkers) {
  expect_trajectories(R"({"type": "bmuf", "nesterov": false})", [](int64_t) {
    return [v = 0.0](int round, double global, double mean) mutable {
      v = (round < 6 ? 0.75 : 0.875) * v + (mean - global);
      return global + v;
    };
  });
}

// Wang et al. 2020, algorithm 1, with a learning rate that falls.
TEST(OuterStep, SlowmoIsThePapersRecursion) {
  const auto paper = [](double beta, double alpha) {
    return [=](int64_t) {
      return [=, u = 0.0](int round, double global, double mean) mutable {
        const double lr = 0.1 / (1 + round);
        u = beta * u + (global - mean) / lr;
        return global - alpha * lr * u;
      };
    };
  };
  expect_trajectories(R"("slowmo")", paper(0.5, 1));
  expect_trajectories(R"({"type": "slowmo", "momentum": 0.8, "rate": 0.7})", paper(0.8, 0.7));
}

TEST(OuterStep, SlowmoLearnsNothingFromALearningRateOfZero) {
  OuterStep step(policy_of(R"("slowmo")").outer, Dtype::f32, one_window(1), 1);
  float global = 1, mean = 0.5f;
  step.run({.learning_rate = 0}, reinterpret_cast<const std::byte*>(&global), reinterpret_cast<std::byte*>(&mean));
  EXPECT_EQ(mean, 0.5f);
  float velocity = 1;
  std::memcpy(&velocity, step.state(0).data(), sizeof velocity);
  EXPECT_EQ(velocity, 0);
}

// U2.
TEST(OuterStep, WithoutMomentumTheMeanIsTheResultToTheBit) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const char* policy : {R"({"type": "diloco", "rate": 1, "momentum": 0})", R"({"type": "bmuf", "momentum": 0})",
                             R"({"type": "bmuf", "momentum": 0, "nesterov": false})", R"({"type": "slowmo", "momentum": 0})"}) {
    OuterStep step(policy_of(policy).outer, Dtype::f32, one_window(kElements), kElements);
    std::vector<float> global(kElements);
    for (int round = 0; round < 4; ++round) {
      std::vector<float> mean(kElements);
      for (int64_t i = 0; i < kElements; ++i) mean[i] = global[i] + 1e-3f * normal(random);
      const std::vector<float> wanted = mean;
      step.run(round_at(round), reinterpret_cast<const std::byte*>(global.data()), reinterpret_cast<std::byte*>(mean.data()));
      ASSERT_EQ(std::memcmp(mean.data(), wanted.data(), sizeof(float) * kElements), 0) << policy;
      global = mean;
    }
  }
}

// U10, and those of the reference's table.
TEST(OuterStep, GainIsMeasured) {
  EXPECT_EQ(policy_of(R"("periodic")").gain(4), 1);
  EXPECT_NEAR(policy_of(R"("diloco")").gain(4), 7, 1e-6);
  EXPECT_NEAR(policy_of(R"({"type": "diloco", "rate": 0.4})").gain(4), 4, 1e-6);
  EXPECT_NEAR(policy_of(R"("slowmo")").gain(4), 2, 1e-6);
  for (const double workers : {1, 2, 8, 64}) EXPECT_NEAR(policy_of(R"("bmuf")").gain(workers), workers, 1e-6 * workers);
  EXPECT_NEAR(policy_of(R"({"type": "bmuf", "nesterov": false, "rate": 0.5, "momentum": 0.5})").gain(4), 1, 1e-6);
  EXPECT_TRUE(std::isinf(policy_of(R"({"type": "bmuf", "momentum": 1})").gain(4)));
  // The mean of a cycle of a delayed momentum: N arrivals of 1 move by rate (1 + mu / (1 - mu)) together.
  for (const double workers : {1, 4, 7, 100}) EXPECT_NEAR(policy_of(R"("async_local")").gain(workers), 7 / workers, 1e-6) << workers;
}

// ---- programs of one's own ----

std::string custom(const std::string& program, const std::string& outputs, const std::string& more = R"("state": {"v": 0})") {
  return R"({"type": "custom", "outer": {"program": [)" + program + R"(], "outputs": {)" + outputs + "}}, " + more + "}";
}

// Runs one round on the given values; returns result and states.
template <class T>
std::vector<std::vector<T>> run_once(const std::string& policy, const std::vector<T>& global, const std::vector<T>& mean,
                                     const OuterRound& round = {}) {
  const auto elements = static_cast<int64_t>(global.size());
  OuterStep step(policy_of(policy).outer, sizeof(T) == 4 ? Dtype::f32 : Dtype::f64, one_window(elements), elements);
  std::vector<std::vector<T>> results = {mean};
  step.run(round, reinterpret_cast<const std::byte*>(global.data()), reinterpret_cast<std::byte*>(results[0].data()));
  for (size_t i = 0; i < step.program().states().size(); ++i) {
    const T* state = reinterpret_cast<const T*>(step.state(i).data());
    results.emplace_back(state, state + elements);
  }
  return results;
}

// Every result is computed from what there was before the round, wherever it is written.
TEST(OuterProgram, OutputsMayChangePlaces) {
  const std::string swap = custom("", R"("global": "a", "a": "mean", "b": "global")", R"("state": {"a": 5, "b": 6, "c": 7})");
  const std::vector<double> wide = {1, 2};
  EXPECT_EQ(run_once<double>(swap, wide, {3, 4}), (std::vector<std::vector<double>>{{5, 5}, {3, 4}, {1, 2}, {7, 7}}));
  const std::vector<float> narrow(kElements, 1), mean(kElements, 3);
  const auto results = run_once<float>(swap, narrow, mean);
  EXPECT_EQ(results[0], std::vector<float>(kElements, 5));
  EXPECT_EQ(results[1], mean);
  EXPECT_EQ(results[2], narrow);
  // One op's result twice, and a number for all.
  const std::string twice = custom(R"({"op": "mul", "in": ["mean", 2], "out": "t1"}, {"op": "add", "in": [1, 2], "out": "t2"})",
                                   R"("global": "t1", "a": "t1", "b": "t2")", R"("state": {"a": 5, "b": 6})");
  EXPECT_EQ(run_once<float>(twice, {1, 2}, {3, 4}), (std::vector<std::vector<float>>{{6, 8}, {6, 8}, {3, 3}}));
}

TEST(OuterProgram, SeesTheRound) {
  const std::string policy =
      custom(R"({"op": "mul", "in": ["workers", 1000], "out": "t1"}, {"op": "mul", "in": ["progress", 100], "out": "t2"},
      {"op": "add", "in": ["t1", "t2"], "out": "t3"}, {"op": "add", "in": ["round", "t3"], "out": "t4"},
      {"op": "add", "in": ["learning_rate", "t4"], "out": "t5"}, {"op": "add", "in": ["t5", "global"], "out": "t6"},
      {"op": "mul", "in": ["t6", "k"], "out": "t7"}, {"op": "mul", "in": ["t7", "yes"], "out": "t8"})",
             R"("global": "t8")",
             R"("yes": true, "k": {"program": [{"op": "div", "in": ["workers", 2], "out": "t1"}], "outputs": {"value": "t1"}})");
  const auto results = run_once<double>(policy, {0.5}, {9}, {.workers = 4, .progress = 0.25, .round = 7, .learning_rate = 0.125});
  EXPECT_EQ(results[0][0], (4000 + 25 + 7 + 0.125 + 0.5) * 2);
}

TEST(OuterProgram, LeavesTheGapsOfTheBlockZero) {
  std::vector<ParamWindow> windows(2);
  windows[0].offset = 0, windows[0].elements = 5;
  windows[1].offset = 16, windows[1].elements = 3;
  OuterStep step(policy_of(custom(R"({"op": "add", "in": ["mean", 1], "out": "t1"}, {"op": "add", "in": ["v", 1], "out": "t2"})",
                                  R"("global": "t1", "v": "t2")", R"("state": {"v": 3})"))
                     .outer,
                 Dtype::f32, windows, 32);
  std::vector<float> global(32), mean(32);
  step.run({}, reinterpret_cast<const std::byte*>(global.data()), reinterpret_cast<std::byte*>(mean.data()));
  const auto* state = reinterpret_cast<const float*>(step.state(0).data());
  for (int i = 0; i < 32; ++i) {
    const bool parameter = i < 5 || (i >= 16 && i < 19);
    EXPECT_EQ(mean[static_cast<size_t>(i)], parameter ? 1 : 0) << i;
    EXPECT_EQ(state[i], parameter ? 4 : 0) << i;
  }
}

// The same bits from reference, baseline, AVX2 and AVX-512, as far as this machine has them, for each op that is accepted and each preset.
TEST(OuterProgram, EveryKernelGivesTheSameBits) {
  std::vector<std::string> policies;
  for (const PolicyDef& def : all_policies())
    if (!def.outer.is_null()) policies.push_back('"' + def.name + '"');
  for (const std::string& op : outer_ops())
    for (const char* in : {R"(["mean"])", R"(["mean", "v"])", R"(["mean", "v", "global"])", R"(["v", 0.3])"}) {
      const std::string text = custom(R"({"op": ")" + op + R"(", "in": )" + in + R"(, "out": "t1"})", R"("global": "t1")");
      if (refusal_of(text).empty()) policies.push_back(text);
    }
  EXPECT_GT(policies.size(), outer_ops().size());
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> start[kFusedInputs];
  for (auto& values : start)
    for (int64_t i = 0; i < kElements; ++i) values.push_back(i % 17 == 0 ? 0 : i % 19 == 0 ? 1 : normal(random));
  for (const std::string& policy : policies) {
    const OuterProgram program = policy_of(policy).outer;
    const FusedParams code = program.at(round_at(3));
    std::vector<float> wanted[kFusedOutputs];
    int kernels = 0;
    for (const KernelList& list : kernel_lists())
      for (size_t k = 0; k < list.count; ++k) {
        const Kernel& kernel = list.first[k];
        if (std::strcmp(kernel.op, "fused") != 0 || kernel.backend == Backend::cuda) continue;
        if (kernel.backend == Backend::cpu && kernel.isa > host_isa()) continue;
        std::vector<float> values[kFusedInputs];
        View in[kFusedInputs], out[kFusedOutputs];
        int written[kFusedOutputs], outputs = 0;  // inputs that are outputs too: the mean, and the states that the program assigns
        for (int v = 0; v < code.n_inputs; ++v) {
          values[v] = start[v];
          in[v].data = values[v].data(), in[v].rank = 1, in[v].dims[0] = kElements, in[v].strides[0] = 1;
          if (v == 0 || (v > 1 && !program.states()[static_cast<size_t>(v) - 2].assigned)) continue;
          written[outputs] = v;
          out[outputs++] = in[v];
        }
        ASSERT_EQ(outputs, code.n_outputs);
        KernelCall call;
        call.in = in, call.out = out, call.n_in = code.n_inputs, call.n_out = code.n_outputs, call.params = &code;
        kernel.run(call);
        for (int o = 0; o < code.n_outputs; ++o) {
          const std::vector<float>& found = values[written[o]];
          if (kernels == 0) wanted[o] = found;
          ASSERT_EQ(std::memcmp(wanted[o].data(), found.data(), sizeof(float) * kElements), 0)
              << policy << " " << static_cast<int>(kernel.isa);
        }
        ++kernels;
      }
    EXPECT_GE(kernels, 2);
  }
}

// ---- hostile and mistaken ----

TEST(OuterProgram, SaysWhatIsWrong) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string told = refusal_of(text);
    EXPECT_NE(told.find(part), std::string::npos) << text.substr(0, 300) << "\n  told: " << told;
  };
  const std::string good = R"({"op": "add", "in": ["mean", 1], "out": "t1"})", result = R"("global": "t1")";
  EXPECT_EQ(refusal_of(custom(good, result)), "");
  expect(custom(R"({"op": "exp", "in": ["mean"], "out": "t1"})", result), "op 1: 'op' cannot be used in an outer step");
  expect(custom(R"({"op": "ad", "in": ["mean", 1], "out": "t1"})", result), "did you mean 'add'");
  expect(custom(R"({"op": "add", "in": ["men", 1], "out": "t1"})", result), "did you mean 'mean'");
  expect(custom(R"({"op": "add", "in": ["t1", 1], "out": "t1"})", result), "there is no value 't1'");
  expect(custom(R"({"op": "add", "in": ["mean"], "out": "t1"})", result), "2 names or numbers");
  expect(custom(R"({"op": "add", "in": ["mean", []], "out": "t1"})", result), "names or numbers");
  expect(custom(R"({"op": "add", "in": ["mean", 1e300], "out": "t1"})", result), "out of range");
  expect(custom(R"({"op": "add", "in": {"mean": 1}, "out": "t1"})", result), "'in'");
  expect(custom(R"({"op": "add", "in": ["mean", 1], "out": "global"})", result), "given twice");
  expect(custom(R"({"op": "add", "in": ["mean", 1], "out": "t1", "atrs": {}})", result), "unknown key 'atrs'");
  expect(custom(R"({"op": "add", "in": ["mean", 1]})", result), "'out' is missing");
  expect(custom("7", result), "must be an object");
  expect(custom(good, ""), "'global' is missing");
  expect(custom(good, R"("global": "t2")"), "there is no value 't2'");
  expect(custom(good, R"("global": "t1", "w": "t1")"), "unknown key 'w'");
  expect(custom(good, result, R"("state": {"mean": 0})"), "has already");
  expect(custom(good, result, R"("state": {"t9": 0})"), "has already");
  expect(custom(good, result, R"("state": {"a/b": 0})"), "is no name");
  expect(custom(good, result, R"("state": {"": 0})"), "is no name");
  expect(custom(good, result, R"("state": {"a": 0, "b": 0, "c": 0, "d": 0})"), "at most 3");
  expect(custom(good, result, R"("state": {"v": "x"})"), "'v' has the wrong type");
  expect(custom(good, result, R"("state": 7)"), "must be an object");
  expect(custom(good, result, R"("evry": 3)"), "did you mean 'every'");
  expect(custom(good, result, R"("momentum": "high")"), "'momentum' has the wrong type");
  expect(custom(good, result, R"("k": {"program": [], "outputs": {"value": "mean"}})"), "there is no value 'mean'");
  expect(custom(good, result, R"("workers": 3)"), "has already");
  expect(R"({"type": "custom"})", "'outer' is missing");
  expect(R"({"type": "custom", "outer": 3})", "must be an object");
  expect(R"({"type": "custom", "outer": {"outputs": {"global": "mean"}}})", "'program' is missing");
  expect(R"({"type": "diloco", "momentm": 0.5})", "did you mean 'momentum'");
  expect(R"({"type": "diloco", "evry": 5})", "did you mean 'every'");
  expect(R"({"type": "diloco", "momentum": "0.5"})", "'momentum' has the wrong type");
  expect(R"({"type": "diloco", "outer": {}})", "no option 'outer'");
  expect(R"({"type": "dilco"})", "did you mean 'diloco'");
}

TEST(OuterProgram, HasBounds) {
  using namespace std::string_literals;
  const auto chain = [](int ops, const std::string& op, const std::string& other) {
    std::string program;
    for (int i = 1; i <= ops; ++i)
      program += (i > 1 ? ", " : "") + R"({"op": ")"s + op + R"(", "in": [")" + (i > 1 ? "t" + std::to_string(i - 1) : "mean") + "\", " +
                 (other.empty() ? std::to_string(i) : other) + R"(], "out": "t)" + std::to_string(i) + "\"}";
    return custom(program, R"("global": "t)" + std::to_string(ops) + "\"");
  };
  EXPECT_EQ(refusal_of(chain(40, "add", R"("v")")), "");
  EXPECT_NE(refusal_of(chain(41, "add", R"("v")")).find("at most 40"), std::string::npos);
  EXPECT_EQ(refusal_of(chain(12, "add", "")), "");
  EXPECT_NE(refusal_of(chain(13, "add", "")).find("at most 12"), std::string::npos);
  EXPECT_NE(refusal_of(chain(1001, "add", "1")).find("at most 1000"), std::string::npos);
  // Many results that all live until the end.
  std::string wide, sum;
  for (int i = 1; i <= 30; ++i) wide += R"({"op": "mul", "in": ["mean", "mean"], "out": "t)" + std::to_string(i) + "\"}, ";
  for (int i = 31; i <= 59; ++i)
    sum += (i > 31 ? ", " : "") + R"({"op": "add", "in": ["t)"s + std::to_string(i - 30) + "\", \"t" +
           std::to_string(i == 31 ? 30 : i - 1) + R"("], "out": "t)" + std::to_string(i) + "\"}";
  EXPECT_NE(refusal_of(custom(wide + sum, R"("global": "t59")")).find("too many"), std::string::npos);
}

// A job's keys are sorted when it is written down: what a state is called alone says which one it is.
TEST(OuterProgram, StatesAreInTheOrderOfTheirNames) {
  const OuterProgram outer = policy_of(custom("", R"("global": "mean")", R"("state": {"b": 1, "a": 2})")).outer;
  ASSERT_EQ(outer.states().size(), 2u);
  EXPECT_EQ(outer.states()[0].name, "a");
  EXPECT_EQ(outer.states()[0].initial, 2);
}

// Ops that do not lead to an output cost nothing.
TEST(OuterProgram, LeavesOutWhatNobodyNeeds) {
  std::string program;
  for (int i = 1; i <= 200; ++i)
    program += (i > 1 ? ", " : "") + std::string(R"({"op": "add", "in": ["mean", 1], "out": "t)") + std::to_string(i) + "\"}";
  const OuterProgram outer = policy_of(custom(program, R"("global": "t3")")).outer;
  EXPECT_EQ(outer.at({}).n_instructions, 1);
}

}  // namespace
}  // namespace perigee
