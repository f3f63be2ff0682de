// A step's kernels beside those of ops, at sizes that small networks do not reach: more states than a launch commits, more windows and
// groups than a block has threads, rows and classes that take turns.
#include "kernels/cuda/runtime/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "kernels/block_math.h"
#include "src/tensor/tensor.h"
#include "tests/cuda/shim/shim.h"

namespace perigee {
namespace {

std::vector<float> drawn(size_t n) {
  std::mt19937 random(3);
  std::vector<float> values(n);
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  return values;
}

// Each of the values with the threads in each order.
template <class T>
std::vector<std::pair<shim::Order, T>> in_every_order(std::initializer_list<T> values) {
  std::vector<std::pair<shim::Order, T>> all;
  for (const shim::Order order : shim::kOrders)
    for (const T value : values) all.emplace_back(order, value);
  return all;
}

template <class T>
void expect_approach() {
  constexpr int64_t kElements = 100'003;
  const std::vector<float> first = drawn(kElements + 7);
  const std::vector<T> from(first.begin() + 7, first.end()), to(first.begin(), first.end() - 7);
  constexpr Dtype kDtype = sizeof(T) == 8 ? Dtype::f64 : Dtype::f32;
  for (const auto& [order, stopped] : in_every_order<int32_t>({0, 1})) {
    shim::set_order(order);
    const shim::Array<T> goal("the weights", from, 16), average("the average", to, 16);
    const shim::Array<int32_t> word("stopped", std::vector<int32_t>{stopped});
    CudaQueue queue;
    cuda_steps().approach(
        {.from = goal.data(), .to = average.data(), .elements = kElements, .dtype = kDtype, .share = 0.1, .stopped = word.data()}, queue);
    EXPECT_EQ(queue.status, 0);
    std::vector<T> expected = to;
    if (!stopped) block_math(kDtype).approach(from.data(), 0.1, kElements, expected.data());
    EXPECT_EQ(average.read(), expected);
  }
}

TEST(CudaSteps, ApproachHasTheHostsBits) {
  expect_approach<float>();
  expect_approach<double>();
}

TEST(CudaSteps, CommitAnyNumberOfStates) {
  constexpr size_t kStates = 300;
  std::vector<uint8_t> values;
  std::vector<size_t> starts, sizes;
  for (size_t i = 0; i < kStates; ++i) {
    sizes.push_back(i == 150 ? 40'001 : i == 299 ? 33'000 : 1 + i % 9 * 4 / (1 + i % 2));
    starts.push_back(values.size());
    for (size_t k = 0; k < sizes[i]; ++k) values.push_back(static_cast<uint8_t>(i * 7 + k + 1));
    values.resize((values.size() + 15) / 16 * 16);
  }
  for (const auto& [order, stopped] : in_every_order<int32_t>({0, 1})) {
    shim::set_order(order);
    const shim::Array<uint8_t> from("next values", values, 16), to("states", std::vector<uint8_t>(values.size()), 16);
    const shim::Array<int32_t> word("stopped", std::vector<int32_t>{stopped});
    std::vector<CudaCommit> commits;
    for (size_t i = 0; i < kStates; ++i)
      commits.push_back({to.data() + starts[i], from.data() + starts[i], static_cast<int64_t>(sizes[i])});
    CudaQueue queue;
    cuda_steps().commit(commits.data(), kStates, word.data(), queue);
    EXPECT_EQ(queue.status, 0);
    std::vector<uint8_t> expected(values.size());
    for (size_t i = 0; i < kStates && !stopped; ++i)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(starts[i]), sizes[i],
                  expected.begin() + static_cast<std::ptrdiff_t>(starts[i]));
    EXPECT_EQ(to.read(), expected);
  }
}

// 600 windows in 290 groups, one of several pieces.
TEST(CudaSteps, NormsOfManyGroups) {
  constexpr int32_t kWindows = 600, kGroups = 290;
  constexpr double kScale = 0.5, kThreshold = 1;
  std::vector<int64_t> pieces = {0}, begins, ends;
  std::vector<int32_t> groups;
  int64_t n = 0;
  for (int32_t w = 0; w < kWindows; ++w) {
    const int64_t elements = w == 77 ? 2 * kNormPiece + 5 : 1 + w % 31;
    begins.push_back(n), ends.push_back(n + elements);
    n = (n + elements + 15) / 16 * 16;
    pieces.push_back(pieces.back() + (elements + kNormPiece - 1) / kNormPiece);
    groups.push_back(w * 7 % kGroups);
  }
  const std::vector<float> values = drawn(static_cast<size_t>(n));
  std::vector<double> squares(kGroups + 1);
  for (int32_t w = 0; w < kWindows; ++w)
    for (int64_t i = begins[w]; i < ends[w]; ++i) {
      const double square = double{values[static_cast<size_t>(i)]} * double{values[static_cast<size_t>(i)]};
      squares[groups[w]] += square, squares[kGroups] += square;
    }
  for (const auto& [order, kind] : in_every_order<CudaNorms>({CudaNorms::cut, CudaNorms::renormalize})) {
    shim::set_order(order);
    std::vector<std::byte> image(sizeof(CudaUpdate) + kWindows * sizeof(CudaUpdateWindow));
    const shim::Array<std::byte> update("an update", image, alignof(CudaUpdateWindow));
    auto* const head = reinterpret_cast<CudaUpdate*>(update.data());
    *head = {.windows = kWindows};
    auto* const windows = reinterpret_cast<CudaUpdateWindow*>(head + 1);
    for (int32_t w = 0; w < kWindows; ++w) windows[w] = {begins[w], ends[w], {.gradient_scale = kScale}};
    const shim::Array<float> gradient("a gradient", values, 64);
    const shim::Array<int32_t> group_of("groups", groups);
    const shim::Array<int64_t> piece_of("pieces", pieces);
    const shim::Array<double> sums("sums", static_cast<size_t>(pieces.back()) + kWindows);
    CudaStepRecord record;
    CudaQueue queue;
    cuda_steps().norms({.gradient = gradient.data(),
                        .update = head,
                        .groups = group_of.data(),
                        .windows = kWindows,
                        .group_count = kGroups,
                        .pieces = piece_of.data(),
                        .piece_count = pieces.back(),
                        .sums = sums.data(),
                        .kind = kind,
                        .threshold = kThreshold,
                        .record = &record},
                       queue);
    EXPECT_EQ(queue.status, 0);
    EXPECT_NEAR(record.gradient_norm, std::sqrt(squares[kGroups]) * kScale, 1e-12 * squares[kGroups]);
    int cut = 0;
    for (int32_t w = 0; w < kWindows; ++w) {
      const double norm = std::sqrt(squares[groups[w]]) * kScale;
      const double factor = kind == CudaNorms::renormalize ? 1 / norm : norm > kThreshold ? kThreshold / norm : 1;
      cut += factor < 1;
      EXPECT_NEAR(windows[w].params.gradient_scale, kScale * factor, 1e-12) << w;
    }
    EXPECT_TRUE(cut > 0 && cut < kWindows);
  }
}

// 700 rows of 40 classes, of few numbers, so that most rows have ties.
TEST(CudaSteps, JudgesRowsInTurns) {
  constexpr int64_t kRows = 700, kClasses = 40;
  std::mt19937 random(9);
  std::vector<float> outputs(kRows * kClasses), losses = drawn(kRows);
  for (float& value : outputs) value = static_cast<float>(random() % 12);
  std::vector<int64_t> labels;
  double loss = 0;
  int64_t correct = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    const auto row = outputs.begin() + r * kClasses;
    const int64_t first = std::max_element(row, row + kClasses) - row;
    labels.push_back(r % 3 == 0 ? (first + 1) % kClasses : first);
    correct += labels.back() == first;
    loss += double{losses[static_cast<size_t>(r)]};
  }
  const shim::Array<float> output("outputs", outputs, 64), of_rows("losses", losses, 64);
  const shim::Array<int64_t> label("labels", labels), counter("a counter", std::vector<int64_t>{0});
  const shim::Array<int32_t> stopped("stopped", std::vector<int32_t>{0});
  for (const shim::Order order : shim::kOrders) {
    shim::set_order(order);
    CudaStepRecord record;
    CudaQueue queue;
    cuda_steps().judge({.loss = contiguous_view(of_rows.data(), Dtype::f32, Shape{kRows}),
                        .output = contiguous_view(output.data(), Dtype::f32, Shape{kRows, kClasses}),
                        .labels = label.data(),
                        .counter = counter.data(),
                        .stopped = stopped.data(),
                        .record = &record},
                       queue);
    EXPECT_EQ(record.correct, correct) << shim::name_of(order);
    EXPECT_NEAR(record.loss_sum, loss, 1e-9);
    EXPECT_EQ(counter.read()[0], 0);
  }
}

}  // namespace
}  // namespace perigee
