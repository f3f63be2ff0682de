// Several GPUs in one process, on the devices of tests/cuda/shim: each has its own memory, which the others' kernels cannot touch, and
// streams run as late as they may. NCCL is the fake of tests/cuda/fakes, which adds up in the order of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/train/device/team_site.h"

namespace perigee {
namespace {

struct TeamCase {
  const char* name;
  Job (*make)(const std::string&);
  const char* more;
};

Job drawn_anew(const std::string& more) {
  Job job = drawn_job(more);
  job.set("data.train.endless", "true");
  return job;
}

const TeamCase kTeamCases[] = {
    {"lenet", &lenet_job, ""},
    {"drawn", &drawn_job, ""},
    {"streamed", &drawn_anew, ""},
    {"clipped", &lenet_job, R"(, "clip": {"type": "norm", "threshold": 0.5})"},
    {"fp16", &lenet_job, R"(, "precision": "fp16")"},
    {"fp16_clipped", &lenet_job, R"(, "precision": "fp16", "loss_scale": 64, "clip": {"type": "norm", "threshold": 0.5})"},
    {"bf16", &drawn_job, R"(, "precision": "bf16")"},
    {"float64", &drawn_job, R"(, "precision": "float64")"},
    {"constrained", &lenet_job, R"(, "constraint": [{"type": "max_norm", "max": 0.4}, {"type": "non_negative", "on": "bias"}])"},
};

class Team : public testing::TestWithParam<TeamCase> {};

void expect_same_steps(Trainer& team, Trainer& threads, int steps) {
  for (int step = 1; step <= steps; ++step) {
    const StepReport a = team.step(), b = threads.step();
    ASSERT_EQ(a.examples, b.examples);
    ASSERT_NEAR(a.loss, b.loss, 1e-12 * std::abs(b.loss)) << step;
    ASSERT_EQ(a.accuracy, b.accuracy) << step;
    ASSERT_EQ(a.learning_rate, b.learning_rate);
    ASSERT_EQ(a.gradient_norm, b.gradient_norm) << step;
    ASSERT_EQ(a.epoch_ends, b.epoch_ends);
  }
}

// With sums in a fixed tree the GPUs have the bits of as many threads. Of 100 examples, the last batch of an epoch is smaller: 4, 36 or 52.
TEST_P(Team, HasTheBitsOfAsManyThreads) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  for (const int gpus : {2, 3, 4}) {
    const Job job = GetParam().make(GetParam().more);
    Trainer team(deterministic(job), team_of(gpus)), threads(of_all(job, gpus), threads_of(gpus));
    expect_same_steps(team, threads, 7);
    EXPECT_EQ(bits_of(team), bits_of(threads)) << gpus << " GPUs";
  }
}

// NCCL adds up two in no other way.
TEST_P(Team, HasThemWithNcclToo) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  const Job job = GetParam().make(GetParam().more);
  Trainer team(job, team_of(2)), threads(of_all(job, 2), threads_of(2));
  expect_same_steps(team, threads, 7);
  EXPECT_EQ(bits_of(team), bits_of(threads));
}

INSTANTIATE_TEST_SUITE_P(Jobs, Team, testing::ValuesIn(kTeamCases), [](const auto& info) { return std::string(info.param.name); });

TEST(Team, WithNcclAStepIsOneGraphOfEachGpu) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Job job = lenet_job(R"(, "clip": {"type": "norm", "threshold": 0.5})");
  job.set("data.batch", "8");
  Trainer team(job, team_of(4));
  Watch watch;
  run(team, &watch);
  const shim::Counters &first = watch.counted[5], &last = watch.counted[6];  // steps of 32 in the second epoch
  ASSERT_EQ(watch.reports[6].examples, 32);
  EXPECT_EQ(last.graph_launches - first.graph_launches, 4);
  EXPECT_EQ(last.launches - first.launches, 0);
  EXPECT_EQ(last.waits - first.waits, 0);
  EXPECT_EQ(last.newest_waits - first.newest_waits, 0);
  EXPECT_EQ(last.allocations - first.allocations, 0);
}

// In whatever order streams and graphs run.
TEST(Team, NoWaitIsMissing) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Trainer threads(of_all(drawn_job(), 2), threads_of(2));
  for (int i = 0; i < 8; ++i) threads.step();
  for (const char* graphs : {"captured", "1", "2"})
    for (const char* streams : {"late", "eager"})
      for (const bool fixed : {false, true}) {
        const Environment order("PERIGEE_SHIM_GRAPHS", graphs), when("PERIGEE_SHIM_STREAMS", streams);
        Trainer team(fixed ? deterministic(drawn_job()) : drawn_job(), team_of(2));
        for (int i = 0; i < 8; ++i) team.step();
        EXPECT_EQ(bits_of(team), bits_of(threads)) << graphs << ' ' << streams << ' ' << fixed;
      }
}

// Branches within each GPU, and sums beside them: an edge that is missing gives other numbers in the order farthest from the captured one.
TEST(Team, HasTheSameBitsOnBranches) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  const Job jobs[] = {lenet_job(R"(, "precision": "fp16", "clip": {"type": "norm", "threshold": 0.5})"), noisy_job(), meeting_job()};
  for (const Job& job : jobs)
    for (const bool fixed : {false, true}) {
      const auto after_steps = [&](const char* branches) {
        const Environment wanted("PERIGEE_CUDA_BRANCHES", branches);
        Trainer team(fixed ? deterministic(job) : job, team_of(3));
        team.cut_gradient(400);
        EXPECT_GT(team.gradient_buckets().size(), 1u);
        for (int i = 0; i < 4; ++i) team.step();
        return bits_of(team);
      };
      const Bits line = after_steps("1");
      for (const char* order : {"", "1"}) {  // the first: farthest from the captured one
        const Environment graphs("PERIGEE_SHIM_GRAPHS", order);
        EXPECT_EQ(after_steps("4"), line) << order << ' ' << fixed;
      }
    }
}

TEST(Team, OpByOpGivesTheSame) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Trainer graphs(drawn_job(), team_of(3));
  const Environment blocking("PERIGEE_CUDA_BLOCKING", "1");
  Trainer ops(drawn_job(), team_of(3));
  for (int i = 0; i < 6; ++i) graphs.step(), ops.step();
  EXPECT_EQ(bits_of(graphs), bits_of(ops));
}

// Every GPU has the same parameters: whichever brings them home.
TEST(Team, TakesWhatWasChangedBetweenSteps) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  Trainer team(drawn_job(), team_of(2)), threads(of_all(drawn_job(), 2), threads_of(2));
  for (Trainer* trainer : {&team, &threads}) {
    for (int i = 0; i < 3; ++i) trainer->step();
    auto* const values = reinterpret_cast<float*>(trainer->model().params().block());
    for (int i = 0; i < 8; ++i) values[i] *= 0.5f;
    reinterpret_cast<float*>(trainer->optimizer_slot(1).data())[2] *= 2;
    for (int i = 0; i < 3; ++i) trainer->step();
  }
  EXPECT_EQ(bits_of(team), bits_of(threads));
}

// Running statistics that are set as replicas do: on every GPU, as if they came with all of the model.
TEST(Team, TakesStatesThatWereChangedBetweenSteps) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Trainer with_model(noisy_job(), team_of(3)), alone(noisy_job(), team_of(3));
  for (Trainer* trainer : {&with_model, &alone}) {
    for (int i = 0; i < 2; ++i) trainer->step();
    auto* const values = trainer == &alone ? reinterpret_cast<float*>(trainer->states().data())
                                           : reinterpret_cast<float*>(trainer->model().params().state_bytes().data());
    for (int i = 0; i < 4; ++i) values[i] += 1.5f;
    for (int i = 0; i < 2; ++i) trainer->step();
  }
  EXPECT_EQ(bits_of(alone), bits_of(with_model));
}

// The scale that is set is every GPU's: what one of them scaled otherwise would not be taken out of the sum.
TEST(Team, TakesALossScale) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  const Job job = lenet_job(R"(, "precision": "fp16")");
  Trainer team(job, team_of(2)), threads(of_all(job, 2), threads_of(2));
  for (Trainer* trainer : {&team, &threads}) {
    for (int i = 0; i < 2; ++i) trainer->step();
    LossScale scale = *trainer->loss_scale();
    scale.scale = 128;
    trainer->set_loss_scale(scale);
  }
  expect_same_steps(team, threads, 2);
  EXPECT_EQ(team.loss_scale()->scale, 128);
  EXPECT_EQ(bits_of(team), bits_of(threads));
}

class Buckets : public GradientSink {
 public:
  void on_bucket(size_t bucket) override {
    told.push_back(bucket);
    event_waits.push_back(counters().event_waits + counters().newest_waits);
  }
  std::vector<size_t> told;
  std::vector<long> event_waits;
};

// Replicas that add up their gradients: the host's sum, each bucket while the rest is computed.
TEST(Team, GivesItsGradientBucketByBucket) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  for (const int gpus : {1, 2, 4}) {
    Trainer team(deterministic(lenet_job()), team_of(gpus)), threads(of_all(lenet_job(), gpus), threads_of(gpus));
    std::vector<std::byte> sums[2];
    for (Trainer* trainer : {&team, &threads}) {
      trainer->cut_gradient(2000);
      ASSERT_GT(trainer->gradient_buckets().size(), 1u);
      std::vector<std::byte>& sum = sums[trainer == &threads];
      sum.resize(trainer->model().params().block_bytes());
      std::vector<std::byte> twice(sum.size());
      for (int step = 0; step < 3; ++step) {
        Buckets buckets;
        const std::byte* const before[] = {sum.data()};
        EXPECT_TRUE(trainer->sum_gradient(trainer->next_batch(), {.to = sum.data()}).finite);
        const GradientReport report = trainer->sum_gradient(trainer->next_batch(), {.to = twice.data(), .add = before, .sink = &buckets});
        EXPECT_EQ(report.buckets, trainer->gradient_buckets().size());
        ASSERT_EQ(buckets.told.size(), report.buckets);
        for (size_t b = 0; b < report.buckets; ++b) EXPECT_EQ(buckets.told[b], b);
        if (trainer == &team) {
          EXPECT_GT(buckets.event_waits.back(), buckets.event_waits.front());
        }
        trainer->commit_states();
        trainer->update(twice.data(), 32 * gpus);
      }
      EXPECT_TRUE(trainer->sum_gradient({}, {.to = sum.data()}).finite);
      EXPECT_EQ(std::vector<std::byte>(sum.size()), sum);
      sum = twice;
    }
    EXPECT_EQ(sums[0], sums[1]) << gpus;
    EXPECT_EQ(bits_of(team), bits_of(threads)) << gpus;
  }
}

TEST(Team, ALossThatIsNotFiniteStopsAllInTheSameStep) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  Job job = lenet_job();
  job.set("optimizer", R"({"type": "sgd", "lr": 1e9})");
  for (const bool fixed : {false, true}) {
    Trainer team(fixed ? deterministic(job) : job, team_of(3)), threads(of_all(job, 3), threads_of(3));
    const std::atomic<bool> stop{false};
    const auto fails = [&](Trainer& trainer) { return error_of([&] { trainer.run(stop); }); };
    const std::string told = fails(team), expected = fails(threads);
    expect_parts(told, {"the loss is not finite", "layer"});
    EXPECT_EQ(team.position().step, threads.position().step);
    if (fixed) {
      EXPECT_EQ(bits_of(team), bits_of(threads));
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(fails(team), told);  // and again from where it stopped
  }
}

TEST(Team, AGpuThatIsLostIsNamedAndHoldsNobody) {
  const Environment three("PERIGEE_SHIM_DEVICES", "3");
  for (const bool fixed : {false, true}) {
    Trainer team(fixed ? deterministic(lenet_job()) : lenet_job(), team_of(3));
    team.step();
    const Fault fault("launch@1", 9);
    expect_parts(error_of([&] { team.step(), team.step(); }), {"cuda:1", "illegal memory access", "PERIGEE_CUDA_BLOCKING=1"});
  }
  const Environment blocking("PERIGEE_CUDA_BLOCKING", "1");
  Trainer found(lenet_job(), team_of(3));
  found.step();
  const Fault fault("launch@2", 9);
  expect_parts(error_of([&] { found.step(); }), {"cuda:2", "op '"});
}

TEST(Team, EveryAllocationMayFail) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  int failed = 0;
  for (long nth = 1; nth < 120; nth += 3) {
    const Fault fault("malloc", nth);
    const std::string text = error_of([&] { Trainer(deterministic(drawn_job()), team_of(2)).step(); });
    if (text == "no error") break;
    ++failed;
    EXPECT_NE(text.find("memory"), std::string::npos) << nth << ": " << text;
  }
  EXPECT_GT(failed, 5);
}

Batch rows_of(const Batch& batch, const DataSource& source, int64_t first, int64_t count) {
  Batch part{.epoch = batch.epoch, .position = batch.position, .size = count};
  part.ids.assign(batch.ids.begin() + first, batch.ids.begin() + first + count);
  for (size_t f = 0; f < batch.fields.size(); ++f) {
    std::vector<int64_t> dims = source.fields()[f].shape.vector();
    dims.insert(dims.begin(), count);
    part.fields.emplace_back(batch.fields[f].dtype(), Shape(dims));
    const size_t row = part.fields.back().bytes() / static_cast<size_t>(count);
    std::memcpy(part.fields.back().data<std::byte>(),
                static_cast<const std::byte*>(batch.fields[f].view().data) + static_cast<size_t>(first) * row, part.fields.back().bytes());
  }
  return part;
}

// Both get the mean of their states by examples, formed in double; a variance through E[x^2] (Chan et al., 1979).
void average_states(Params& one, Params& other, int64_t examples, int64_t of) {
  const auto states_of = [](Params& params, int state) { return reinterpret_cast<float*>(params.state(state)); };
  const auto share = static_cast<double>(examples), rest = static_cast<double>(of - examples), all = static_cast<double>(of);
  const auto mean = [&](double x, double y) { return (x * share + y * rest) / all; };
  const std::vector<std::byte> before_one(one.state_bytes().begin(), one.state_bytes().end());
  const std::vector<std::byte> before_other(other.state_bytes().begin(), other.state_bytes().end());
  const auto before = [&](const std::vector<std::byte>& bytes, int state, int64_t k) {
    return static_cast<double>(reinterpret_cast<const float*>(bytes.data() + one.state_offset(state))[k]);
  };
  for (int i = 0; i < static_cast<int>(one.state_specs().size()); ++i) {
    const StateSpec& spec = one.state_specs()[static_cast<size_t>(i)];
    ASSERT_EQ(spec.dtype, Dtype::f32);
    const int of_mean = spec.mean.empty() ? -1 : one.find_state(spec.mean);
    for (int64_t k = 0; k < spec.shape.elements(); ++k) {
      double x = before(before_one, i, k), y = before(before_other, i, k), result = mean(x, y);
      if (of_mean >= 0) {
        const double mx = before(before_one, of_mean, k), my = before(before_other, of_mean, k), m = mean(mx, my);
        result = std::max(mean(x + mx * mx, y + my * my) - m * m, 0.0);
      }
      states_of(one, i)[k] = states_of(other, i)[k] = static_cast<float>(result);
    }
  }
}

// Batch statistics are each GPU's own; running ones their mean by examples, as among workers of a cluster.
TEST(Team, AveragesRunningStatisticsByExamples) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  Trainer batches(of_all(noisy_job(), 2), threads_of(1));
  Trainer first(noisy_job(), threads_of(1)), second(noisy_job(), threads_of(1));
  Trainer team(noisy_job(), team_of(2)), in_a_tree(deterministic(noisy_job()), team_of(2)), in_parts(noisy_job(), team_of(2));
  Params& params = first.model().params();
  const size_t bytes = params.block_bytes();
  std::vector<std::byte> a(bytes), b(bytes), sum(bytes);
  for (int step = 0; step < 7; ++step) {  // of 32, 32, 32 and 4 examples
    const Batch& batch = batches.next_batch();
    const int64_t half = batch.size / 2;
    const Batch parts[] = {rows_of(batch, batches.train_source(), 0, half),
                           rows_of(batch, batches.train_source(), half, batch.size - half)};
    first.sum_gradient(parts[0], {.to = a.data()});
    second.sum_gradient(parts[1], {.to = b.data()});
    first.commit_states(), second.commit_states();
    block_math(Dtype::f32).add(a.data(), b.data(), params.block_elements(), sum.data());
    average_states(first.model().params(), second.model().params(), half, batch.size);
    for (Trainer* trainer : {&first, &second}) {
      Position position = team.position();
      trainer->set_position(position);
      trainer->plan_examples(team.planned_examples());
      trainer->update(sum.data(), batch.size);
    }
    team.step(), in_a_tree.step();
    in_parts.sum_gradient(in_parts.next_batch(), {.to = sum.data()});
    in_parts.commit_states();
    in_parts.set_position(first.position());
    Position before = first.position();
    before.step -= 1;
    in_parts.set_position(before);
    in_parts.update(sum.data(), batch.size);
  }
  EXPECT_EQ(bits_of(first), bits_of(second));
  EXPECT_EQ(bits_of(team), bits_of(first));
  EXPECT_EQ(bits_of(in_a_tree), bits_of(first));
  EXPECT_EQ(bits_of(in_parts), bits_of(first));
}

TEST(Team, Evaluates) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  Job job = drawn_job(R"(, "metrics": [{"type": "classification"}])");
  job.set("data.test.type", "digits");
  job.set("data.test.size", "300");
  Trainer team(job, team_of(2)), threads(of_all(job, 2), threads_of(2));
  for (int i = 0; i < 4; ++i) team.step(), threads.step();
  EXPECT_EQ(team.evaluate("test").find("accuracy")->dump(), threads.evaluate("test").find("accuracy")->dump());
  team.step(), threads.step();
  EXPECT_EQ(bits_of(team), bits_of(threads));
}

// Batches of all GPUs together, as of all workers.
TEST(Team, StepsCountBatchesOfAll) {
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  Job job = lenet_job();
  job.set("steps", "10");
  job.set("epochs", "null");
  Trainer team(job, team_of(4));
  EXPECT_EQ(team.planned_examples(), 160);
  Watch watch;
  run(team, &watch);
  EXPECT_EQ(watch.reports.back().step, 3);
}

}  // namespace
}  // namespace perigee
