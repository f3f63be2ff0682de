// Whole numbers that choose among a count of things: class labels, indices. Kernels trust them; what is here finds the ones out of range.
#pragma once

#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

// An input of a graph whose numbers choose, perhaps after a cast, a change of shape or a constant that is added.
struct ChoosingInput {
  std::string name;     // of the leaf
  int64_t low = 0;      // the least number that chooses something
  int64_t count = 0;    // how many things there are: the numbers lie in [low, low + count)
  std::string op;       // that chooses
  bool labels = false;  // of classes; else indices
  std::string scope;    // of its node: "loss", "embedding 'tokens' (layer 1 of 5)"
};

// Those of the graph that an op reads directly. An input that chooses twice is told twice.
std::vector<ChoosingInput> choosing_inputs(const Graph& graph);

// A gradient of a table of which only those rows are not zero that an input chooses.
struct RowGradient {
  std::string output;  // of the graph
  std::string input;   // the leaf, whose number `low` is row 0
  int64_t low = 0;
};

// Those of the graph's outputs.
std::vector<RowGradient> row_gradients(const Graph& graph);

// Calls use(index of a number, number - low) for the first `n` of a dense view as first_outside() takes them, where it is in [0, count).
template <class Use>
void for_each_chosen(const View& view, int64_t n, int64_t low, int64_t count, Use use) {
  const auto walk = [&](auto type) {
    using T = decltype(type);
    const T* values = view.as<T>();
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(values[i]);
      if (!(value >= static_cast<double>(low) && value < static_cast<double>(low + count))) continue;
      use(i, static_cast<int64_t>(values[i]) - low);
    }
  };
  switch (view.dtype) {
    case Dtype::i64: return walk(int64_t{});
    case Dtype::i32: return walk(int32_t{});
    case Dtype::u8: return walk(uint8_t{});
    case Dtype::f32: return walk(float{});
    case Dtype::f64: return walk(double{});
    default: return;
  }
}

// The place of the first number outside of [low, low + count) among the first `n` of a dense view of i64, i32, u8, f32 or f64; -1: there is
// none. A NaN is outside.
int64_t first_outside(const View& view, int64_t n, int64_t low, int64_t count);

}  // namespace perigee
