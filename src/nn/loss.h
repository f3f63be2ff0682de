// Losses: per-example values from outputs and targets, as ops. One file in losses/ defines one loss.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "src/core/config.h"
#include "src/graph/build.h"

namespace perigee {

struct LossDef {
  const char* name = nullptr;  // "cross_entropy"
  const char* doc = nullptr;
  Schema schema = {};

  // `output` is the network's output [N, ...], `target` the field "y" [N, ...]; returns [N]: one value per example (summed or
  // averaged inside the example as the loss defines it). Error(model) when they do not fit.
  Value (*build)(Graph& graph, const Config& options, Value output, Value target) = nullptr;
  // The same for labels that are not those of single steps, where only the first steps of each example are there: their numbers, i64 [N].
  Value (*build_of_steps)(Graph& graph, const Config& options, Value output, Value target, Value steps) = nullptr;
  // The function that eval and predict apply to the output to get probabilities or values: "softmax", "sigmoid" or "".
  const char* link = "";
  int outputs_per_number = 1;  // of the target, where it has more than the target's shape: parameters of a distribution
  bool whole_batch = false;    // a value of all examples together, which has no terms to weigh
  // The example of tests and help: the options, the output without the batch, and the kind of target: "real", "positive",
  // "probability", "binary", "sign" (-1, 1), each in the output's shape; "class"; "labels" (two classes,
  // from 1); "pair" (two numbers); "boxes" (a grid of them with two classes, as yolo2 has it).
  const char* example = nullptr;
  const char* example_output = "[4]";
  const char* example_target = "real";
  double example_low = -2, example_high = 2;  // where the outputs lie
};

const LossDef& loss_named(std::string_view name);
std::span<const LossDef* const> all_losses();

// The function that turns outputs into predictions: "softmax", "sigmoid" or "".
std::string link_of_loss(const Json& loss);
// The output that reaches the user: `output` with the loss's link applied, unless the network's last layer did so already.
Value linked_output(const Json& loss, Value output);

// The options of a loss beside its own if it is one of several, each of an output of the network.
extern const Schema output_loss_schema;

// `loss` is a name or {"type": name, options...}. Rejects unread keys.
Value build_loss(Graph& graph, const Json& loss, const std::string& where, Value output, Value target);
// The same with build_of_steps; `steps` may be empty.
Value build_loss_of_steps(Graph& graph, const Json& loss, const std::string& where, Value output, Value target, Value steps);
// Whether the loss has build_of_steps: the steps of its target are not those of the output.
bool has_own_steps(const Json& loss);
// The same as build_loss where not all counts alike: [N], for each example the sum over its steps of weight times loss. `weights` is [N], [N, T] for the
// last axis of the target, or has a number for each class of the target [N, d...].
Value build_weighted_loss(Graph& graph, const Json& loss, const std::string& where, Value output, Value target, Value weights);
// Option "ignore" of losses of classes: examples and steps of this class do not count.
std::optional<int64_t> ignored_class(const Json& loss);

}  // namespace perigee
