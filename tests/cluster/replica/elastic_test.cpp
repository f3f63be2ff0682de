// U6: an elastic exchange between a worker and the server moves both by the same, towards each other (Zhang, Choromanska, LeCun 2015).
#include "cluster/rounds/server/desk.h"
#include "tests/cluster/replica/replica_harness.h"

namespace perigee {
namespace {

constexpr double kRate = 0.225;

Welcome elastic_welcome() {
  Welcome welcome;
  welcome.job = R"({"loss": "cross_entropy", "seed": 5, "network": [{"type": "dense", "out": 12, "activation": "tanh"},
      {"type": "dense", "out": 10}], "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9},
      "averaging": {"type": "easgd", "every": 3, "rate": 0.225},
      "data": {"train": {"type": "digits", "endless": false, "size": 640}, "batch": 16}})";
  welcome.folder = ".";
  welcome.threads = 1;
  return welcome;
}

class Unwatched final : public OrderWatch {
 public:
  bool given_up() override { return false; }
  void on_step() override {}
  void on_bucket(size_t) override {}
};

struct Member {
  explicit Member(const Welcome& welcome) : trainer(welcome, {}), row(trainer.block().layout().bytes()) {
    std::fill_n(row.data(), row.bytes(), std::byte{0});
    trainer.load(-1, nullptr, false, nullptr);
  }
  std::vector<double> parameters() { return parameters_of(trainer.trainer().model().params()); }
  Contribution train(const TrainOrder& order) {
    std::byte* const rows[] = {row.data()};
    Contribution contribution;
    EXPECT_TRUE(trainer.train(order, rows, never, watch, &contribution));
    return contribution;
  }
  ReplicaTrainer trainer;
  Storage row;
  Unwatched watch;
  const std::atomic<bool> never{false};
};

TEST(Elastic, WorkerAndServerMoveTowardsEachOtherByTheSame) {
  const Welcome welcome = elastic_welcome();
  Member server(welcome), workers[] = {Member(welcome), Member(welcome)};
  const ExchangeLayout layout = server.trainer.block().layout();
  for (int64_t round = 0; round < 6; ++round) {
    Member& worker = workers[round % 2];
    const Contribution contribution = worker.train(small_order(round / 2, static_cast<size_t>(round % 2), 3));
    const std::vector<double> centre = server.parameters(), own = worker.parameters();

    add_beside(layout, {server.row.data(), layout.bytes()}, {worker.row.data() + layout.coded, layout.bytes() - layout.coded}, true);
    SharedBytes reply;
    bool change = false;
    const ApplyOrder merge{.round = round,
                           .examples = contribution.examples,
                           .examples_after = (round + 1) * contribution.examples,
                           .payloads = {{contribution.payload, contribution.examples}},
                           .workers = 2};
    ASSERT_FALSE(server.trainer.serve(merge, server.row.data(), &reply, &change));
    ASSERT_TRUE(change);
    ASSERT_TRUE(worker.trainer.take(
        {.round = round, .examples_after = merge.examples_after, .counted = true, .change = true, .bytes = std::move(reply)}));

    const std::vector<double> centre_after = server.parameters(), own_after = worker.parameters();
    std::vector<double> sum, sum_after, expected;
    double moved = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      sum.push_back(own[i] + centre[i]), sum_after.push_back(own_after[i] + centre_after[i]);
      expected.push_back(centre[i] + kRate * (own[i] - centre[i]));
      moved = std::max(moved, std::abs(centre_after[i] - centre[i]));
    }
    EXPECT_GT(moved, 1e-4) << "nothing happened";
    EXPECT_LT(relative_difference(sum, sum_after), 1e-6) << "round " << round;
    EXPECT_LT(relative_difference(expected, centre_after), 1e-6) << "round " << round;
  }
}

}  // namespace
}  // namespace perigee
