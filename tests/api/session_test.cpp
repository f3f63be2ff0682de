// Sequences in pieces: sessions give what perigee_model_predict gives at once, and allocate nothing.
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/api/allocations.h"
#include "tests/api/support.h"

namespace {

constexpr int kRows = 2, kFeatures = 2, kSteps = 6, kClasses = 3;

pg::model trained(const std::string& layer, const std::string& more = "") {
  pg::trainer trainer(pg::job::parse(R"({"network": [)" + layer + R"(, {"type": "dense", "out": 3, "over": "steps"}],
    "loss": "mse", "optimizer": {"type": "sgd", "lr": 0.1}, "epochs": 5, "seed": 7, "threads": 1, )" +
                                     more + R"("data": {"batch": 1, "train": {"type": "arrays",
    "x": [[[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]]], "y": [[[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1]]]}}})"));
  trainer.run();
  return trainer.model();
}

pg::model recurrent(const std::string& more = "") { return trained(R"({"type": "lstm", "units": 4})", more); }
pg::model attending() { return trained(R"("positions", {"type": "transformer", "causal": true})"); }

std::vector<float> sequence() {
  std::vector<float> x;
  for (int i = 0; i < kRows * kFeatures * kSteps; ++i) x.push_back(static_cast<float>(i * 7 % 11) / 5 - 1);
  return x;
}

// Steps [first, end) of [rows, kSteps].
std::vector<float> piece(const std::vector<float>& x, int first, int end) {
  std::vector<float> part;
  for (size_t row = 0; row < x.size() / kSteps; ++row)
    part.insert(part.end(), x.begin() + static_cast<long>(row * kSteps) + first, x.begin() + static_cast<long>(row * kSteps) + end);
  return part;
}

void expect_pieces_are_the_whole(const pg::model& model, size_t bytes_of_a_row) {
  const std::vector<float> x = sequence(), whole = model.predict(x);
  pg::session session(model, kRows), other(model, kRows);
  for (int turn = 0; turn < 2; ++turn, session.clear())
    for (const auto& [first, end] : {std::pair(0, 1), std::pair(1, 4), std::pair(4, 6)}) {
      if (first == 4) other.set_state(session.state());
      const std::vector<float> got = session.step(std::span<const float>(piece(x, first, end))), expected = piece(whole, first, end);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << first;
      if (first == 4) {
        EXPECT_EQ(other.step(std::span<const float>(piece(x, first, end))), got) << "another one goes on from its state";
      }
    }
  EXPECT_EQ(perigee_session_state_bytes(session.get()), kRows * bytes_of_a_row);
}

TEST(Session, PiecesAreTheWhole) {
  expect_pieces_are_the_whole(recurrent(), 2 * 4 * sizeof(float));
  expect_pieces_are_the_whole(attending(), kSteps * 2 * kFeatures * sizeof(float) + sizeof(int64_t));
}

void expect_no_allocation(const pg::model& model) {
  const std::vector<float> x = sequence();
  std::vector<float> y(static_cast<size_t>(kRows * kClasses * kSteps));
  pg::session session(model, kRows);
  for (int turn = 0; turn < 3; ++turn) {
    const long before = allocations;
    session.step(std::span<const float>(x), std::span(y));
    session.clear();
    EXPECT_EQ(allocations, before) << "turn " << turn;
  }
}

TEST(Session, AllocatesNothingForAStep) {
  expect_no_allocation(recurrent());
  expect_no_allocation(attending());
}

// A count of steps from outside, which places keys in memory.
TEST(Session, RefusesAStateThatNoSessionReaches) {
  const pg::model model = attending();
  pg::session session(model, 1);
  const std::vector<float> x(kFeatures, 1.0f);
  const std::vector<std::byte> good = session.state();
  std::vector<std::byte> bad(good.size(), std::byte{0xff});
  session.set_state(bad);
  EXPECT_THROW(session.step(std::span<const float>(x)), pg::error);
  std::ranges::fill(bad, std::byte{0x7f});
  session.set_state(bad);
  EXPECT_THROW(session.step(std::span<const float>(x)), pg::error);
  session.set_state(good);
  session.step(std::span<const float>(x));
}

TEST(Session, ReadsAsManyRowsAsItWasOpenedFor) {
  const pg::model model = recurrent();
  const std::vector<float> x = sequence();
  pg::session both(model, kRows), one(model, 1);
  const std::vector<float> whole = both.step(std::span<const float>(x));
  const std::vector<float> first = one.step(std::span<const float>(x).first(kFeatures * kSteps));
  ASSERT_EQ(first.size() * kRows, whole.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], whole[i], 1e-5) << i;
}

// Each on a thread of its own, with numbers of its own.
TEST(Session, TakesTurnsWithOthersOfItsModel) {
  const pg::model model = recurrent();
  const std::vector<float> x = sequence(), reversed(x.rbegin(), x.rend());
  int wrong = 0, wrong_of_other = 0;
  const auto work = [&](const std::vector<float>& own, const std::vector<float>& expected, int* count) {
    pg::session session(model, kRows);
    for (int i = 0; i < 2000; ++i, session.clear()) *count += session.step(std::span<const float>(own)) != expected;
  };
  const std::vector<float> whole = pg::session(model, kRows).step(std::span<const float>(x));
  const std::vector<float> whole_of_other = pg::session(model, kRows).step(std::span<const float>(reversed));
  EXPECT_NE(whole, whole_of_other);
  std::thread other([&] { work(reversed, whole_of_other, &wrong_of_other); });
  work(x, whole, &wrong);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrong_of_other, 0);
}

// The average predicts, and a file has it.
TEST(Session, OfAModelWhoseWeightsAreAveraged) {
  const pg::model plain = recurrent(), averaged = recurrent(R"("ema": {"decay": 0.9}, )");
  const std::vector<float> x = sequence(), whole = averaged.predict(x);
  EXPECT_NE(whole, plain.predict(x));
  EXPECT_EQ(averaged.read("dense1.bias"), plain.read("dense1.bias")) << "the weights that train";
  pg::session session(averaged, kRows);
  const std::vector<float> got = session.step(std::span<const float>(x));
  ASSERT_EQ(got.size(), whole.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], whole[i], 1e-5);
}

// A session keeps the parameters of the moment when it was opened.
TEST(Session, KeepsItsParameters) {
  pg::model model = recurrent();
  const std::vector<float> x = sequence();
  pg::session before(model, kRows);
  const std::vector<float> expected = before.step(std::span<const float>(x));
  model.write("dense1.bias", std::vector<float>{5, 6, 7});
  before.clear();
  EXPECT_EQ(before.step(std::span<const float>(x)), expected);
  EXPECT_NE(pg::session(model, kRows).step(std::span<const float>(x)), expected);
}

// Its rows carry the states of the job's streams.
TEST(Session, ATrainerThatCarriesStateIsNotFed) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "carried.txt") << "one, two, three; one, two, three; one";
  pg::trainer trainer(
      pg::job::parse(R"({"network": [{"type": "embedding", "size": 14, "out": 3}, {"type": "gru", "units": 4, "state": "carry"},
    {"type": "dense", "out": 14, "over": "steps"}], "loss": "cross_entropy", "optimizer": "adam", "data": {"batch": 2, "train":
    {"type": "text", "file": ")" +
                     folder + R"(carried.txt", "context": 4, "targets": "every", "streams": 2}}})"));
  trainer.step();
  const std::vector<int64_t> x(8), y(8);
  EXPECT_NE(failure([&] { trainer.feed({x.data(), y.data()}, 2); }, PERIGEE_USAGE).find("perigee_trainer_step"), std::string::npos);
}

TEST(Session, SaysWhatIsWrong) {
  const pg::model model = recurrent();
  pg::session session(model);
  std::vector<float> x(kFeatures), y(kClasses);
  const auto says = [&](auto&& work, const char* part) { EXPECT_NE(failure(work, PERIGEE_USAGE).find(part), std::string::npos) << part; };
  says([&] { pg::session(model, 0); }, "rows is out of range");
  says([&] { session.step(std::span<const float>(x).first(1), std::span(y)); }, "whole steps");
  says([&] { session.step(std::span<const float>(x), std::span(y).first(2)); }, "too small");
  says([&] { session.set_state(std::vector<std::byte>(3)); }, "another size than the state");
  EXPECT_EQ(perigee_session_step(session.get(), x.data(), 0, y.data(), y.size() * sizeof(float)), PERIGEE_USAGE);
  EXPECT_NE(std::strstr(perigee_session_message(session.get()), "steps is out of range"), nullptr);
  EXPECT_EQ(perigee_session_step(nullptr, x.data(), 1, y.data(), 12), PERIGEE_USAGE);
  EXPECT_EQ(perigee_session_state_bytes(nullptr), 0u);
  perigee_session_free(nullptr);
  pg::trainer dense(small_experiment(Quadrants(20).source()));
  EXPECT_NE(failure([&] { pg::session(dense.model()); }, PERIGEE_MODEL).find("dense 'hidden'"), std::string::npos);
}

TEST(Session, StepsLookAtAMemory) {
  pg::trainer trainer(pg::job::parse(
      R"({"inputs": ["m", "x"], "target": "y", "network": {"type": "graph", "inputs": ["m", "x"], "outputs": ["o"], "nodes": [
      {"name": "e", "inputs": ["m"], "layer": {"type": "gru", "units": 2, "reverse": true}}, {"name": "d", "inputs": ["x"], "layer": {"type": "gru", "units": 2}},
      {"name": "o", "inputs": ["d", "e"], "layer": {"type": "attention"}}]}, "loss": "mse", "optimizer": "adam", "epochs": 2, "seed": 7, "threads": 1,
      "data": {"batch": 1, "train": {"type": "arrays", "m": [[[1, 2, 3], [3, 2, 1]]], "x": [[[1, 2, 3, 4], [4, 3, 2, 1]]], "y": [[[0, 1, 0, 1], [1, 0, 1, 0]]]}}})"));
  trainer.run();
  const pg::model model = trainer.model();
  const std::vector<float> m = {1, 0, 2, -1, 3, 1}, x = {1, 2, 0, 1, -1, 0, 2, 1};
  const std::vector<float> whole = model.predict({m.data(), x.data()}, 1);
  pg::session session(model);
  std::vector<float> step(2);
  EXPECT_THROW(session.step(std::span<const float>(x.data(), 2), std::span(step)), pg::error) << "it remembers nothing";
  EXPECT_THROW(session.remember("n", std::span<const float>(m)), pg::error);
  EXPECT_THROW(session.remember("m", std::span<const float>(m.data(), 4)), pg::error);
  session.remember("m", std::span<const float>(m));
  for (size_t t = 0; t < 4; ++t) {
    const std::vector<float> now = {x[t], x[4 + t]};
    session.step(std::span<const float>(now), std::span(step));
    for (size_t f = 0; f < 2; ++f) EXPECT_NEAR(step[f], whole[4 * f + t], 1e-5) << t;
  }
}

}  // namespace
