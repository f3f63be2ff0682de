// Sequences that share a row train as the same sequences one by one: losses, gradients, and what a job refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "src/io/file.h"
#include "src/run/checkpoint.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

// Texts of 2 to 13 of ten words.
class PackedRows : public testing::Test {
 protected:
  PackedRows() {
    std::string text = "text\n";
    for (int i = 0; i < 23; ++i) {
      std::string line;
      for (int t = 0; t < 2 + i * 5 % 12; ++t) line += (t > 0 ? " w" : "w") + std::to_string((i * 3 + t * t) % 10);
      text += line + "\n";
    }
    write_file(folder_ / "d.csv", as_bytes(text));
  }

  std::string documents() const {
    return R"({"type":"documents","text":"text","file":")" + (folder_ / "d.csv") + R"(","length":13,"max_vocabulary":12})";
  }
  std::string packed(const std::string& more = "") const {
    return R"({"type":"packed","length":24,"next":"y",)" + more + R"("source":)" + documents() + "}";
  }

  // Each text as a source of its own, without padding.
  std::vector<std::string> alone() const {
    const SourcePtr source = open_source(Config(Json::parse(documents(), "test"), "test", ErrorKind::data), ".");
    std::vector<std::string> all;
    for (int64_t i = 0; i < source->size(); ++i) {
      std::vector<int64_t> x(13);
      int64_t n = 0;
      std::byte* const to[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&n)};
      source->read({.index = i}, to);
      std::string tokens, next;
      for (int64_t t = 0; t < n; ++t) {
        tokens += (t > 0 ? "," : "") + std::to_string(x[static_cast<size_t>(t)]);
        next += (t > 0 ? "," : "") + std::to_string(t + 1 < n ? x[static_cast<size_t>(t) + 1] : -1);
      }
      all.push_back(R"({"type":"arrays","x":[[)" + tokens + R"(]],"y":[[)" + next + "]]}");
    }
    return all;
  }

  TemporaryFolder folder_;
  CacheFolder cache_{folder_ / "cache"};
};

Job job_on(const std::string& source, const std::string& layers, const std::string& more = "") {
  return Job(
      Json::parse(R"({"loss":{"type":"cross_entropy","ignore":-1},"optimizer":{"type":"adam","lr":0.01},"seed":5,"epochs":2,"network":)" +
                      layers + R"(,"data":{"batch":64,"shuffle":false,"train":)" + source + "}" + more + "}",
                  "job"),
      "job");
}

struct Flow {
  double loss = 0, weight = 0;
  std::vector<double> gradient;

  void add(const Flow& other) {
    loss += other.loss, weight += other.weight;
    gradient.resize(other.gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += other.gradient[i];
  }
};

Flow flow_of(const Job& job, const TrainerOptions& options) {
  Trainer trainer(job, options);
  const Params& params = trainer.model().params();
  std::vector<std::byte> sum(params.block_bytes());
  const GradientReport report = trainer.sum_gradient(trainer.next_batch(), {.to = sum.data()});
  Flow flow{.loss = report.loss_sum, .weight = report.weight};
  const auto take = [&](const auto* values) { flow.gradient.assign(values, values + sum.size() / sizeof *values); };
  if (params.dtype() == Dtype::f64) take(reinterpret_cast<const double*>(sum.data()));
  else take(reinterpret_cast<const float*>(sum.data()));
  return flow;
}

void expect_same(const Flow& a, const Flow& b, double tolerance) {
  EXPECT_EQ(a.weight, b.weight) << "what lies at a border has no target";
  EXPECT_NEAR(a.loss / a.weight, b.loss / b.weight, tolerance);
  ASSERT_EQ(a.gradient.size(), b.gradient.size());
  double most = 0;
  for (size_t i = 0; i < a.gradient.size(); ++i) {
    most = std::max(most, std::abs(a.gradient[i] / a.weight));
    ASSERT_NEAR(a.gradient[i] / a.weight, b.gradient[i] / b.weight, tolerance) << i;
  }
  EXPECT_GT(most, 1e-3);
}

std::string network(const std::string& middle) {
  return R"([{"type":"embedding","size":12,"out":8,"name":"tokens"},)" + middle + R"(,{"type":"dense","out":12,"over":"steps"}])";
}

TEST_F(PackedRows, HaveTheLossAndTheGradientOfTheSequencesOneByOne) {
  const std::string middles[] = {
      R"({"type":"positions","length":24},{"type":"transformer","layers":2,"heads":2,"causal":true})",
      R"({"type":"positions","length":24},{"type":"transformer","heads":4,"kv_heads":2,"gated":true,"activation":"swish"})",
      R"({"type":"positions","kind":"sinusoidal"},{"type":"attention","heads":2,"causal":true,"window":5})",
      R"({"type":"transformer","heads":2,"causal":true,"positions":"rotary","rms":true})",
      R"({"type":"attention","heads":2,"positions":"alibi","bias":true},{"type":"attention","heads":2,"project":false})",
      R"({"type":"residual","layers":[{"type":"attention","heads":2,"causal":true}]},{"type":"layernorm","over":"channels"},{"type":"dropout","rate":0})"};
  struct Kind {
    TrainerOptions options;
    std::string job;
    double tolerance;
  };
  const Kind kinds[] = {{{.threads = 1, .measure = false}, "", 1e-6},
                        {{.threads = 2, .measure = false}, "", 1e-6},
                        {{.threads = 1, .backend = Backend::ref, .measure = false}, R"(,"precision":"fp64")", 1e-10}};
  const std::vector<std::string> texts = alone();
  for (const std::string& middle : middles)
    for (const Kind& kind : kinds) {
      SCOPED_TRACE(middle + kind.job);
      Flow sum;
      for (const std::string& text : texts) sum.add(flow_of(job_on(text, network(middle), kind.job), kind.options));
      expect_same(flow_of(job_on(packed(), network(middle), kind.job), kind.options), sum, kind.tolerance);
    }
}

TEST_F(PackedRows, TrainTheSameAfterAResumeInTheMiddleOfAnEpoch) {
  Json job = job_on(packed(), network(R"({"type":"attention","heads":2,"causal":true})")).json();
  job.find("data")->set("batch", 2);
  job.find("data")->set("shuffle", true);
  const Job small(job, "job");
  const TrainerOptions options{.threads = 1, .measure = false};
  Trainer whole(small, options), first(small, options), second(small, options);
  for (int i = 0; i < 9; ++i) whole.step();
  for (int i = 0; i < 5; ++i) first.step();
  save_checkpoint(first, folder_ / "c.safetensors");
  load_checkpoint(second, folder_ / "c.safetensors");
  for (int i = 0; i < 4; ++i) second.step();
  const size_t bytes = whole.model().params().block_bytes();
  EXPECT_EQ(std::memcmp(whole.model().params().block(), second.model().params().block(), bytes), 0);
}

std::string packed_refusal(const Job& job) {
  try {
    Trainer trainer(job, {.threads = 1, .measure = false});
    trainer.step();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(PackedRows, LayersThatWouldMixThemAreRefused) {
  for (const char* layer : {R"({"type":"lstm","units":8})", R"({"type":"conv1d","out":8,"kernel":3,"padding":"causal"})",
                            R"({"type":"reverse"})", R"({"type":"bidirectional","layer":{"type":"gru","units":4}})"}) {
    const std::string error = packed_refusal(job_on(packed(), network(layer)));
    EXPECT_NE(error.find("would mix the sequences that lie in one row (a field of segments: pg.data.packed)"), std::string::npos)
        << layer << ": " << error;
  }
  EXPECT_EQ(packed_refusal(job_on(packed(), network(R"({"type":"conv1d","out":8,"kernel":1})"))), "accepted");
}

TEST_F(PackedRows, SegmentsThatCannotBeAreRefused) {
  const std::string layers = network(R"({"type":"attention","heads":2})");
  const auto refusal = [&](const std::string& s, const std::string& roles) {
    std::string source = R"({"type":"arrays","x":[[1,2,3,4]],"y":[[2,3,4,5]],"s":[)" + s + "]}";
    Json job = job_on(source, layers).json();
    job.find("data")->set("segments", Json::parse(roles, "test"));
    return packed_refusal(Job(job, "job"));
  };
  const std::string mine = R"({"x":"s"})";
  const auto has = [](const std::string& text, const char* part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
  EXPECT_EQ(refusal("[1,1,3,3]", mine), "accepted");
  EXPECT_EQ(refusal("[1,1,3,0]", mine), "accepted");
  has(refusal("[1,1,2,2]", mine), "step 3 does not say with which step its sequence of 'x' begins");
  has(refusal("[1,2,1,1]", mine), "step 3 does not say with which step its sequence of 'x' begins");
  has(refusal("[-1,-1,-1,-1]", mine), "step 1 does not say with which step its sequence of 'x' begins");
  has(refusal("[1,1,3]", mine), "4 integers: with which step, from 1 on, the sequence of each begins");
  has(refusal("[1,1,3,3]", R"({"y":"s"})"), "is no input of the job");
}

}  // namespace
}  // namespace perigee
