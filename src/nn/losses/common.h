// Shared by the losses: fitting targets to outputs, class and output weights, and means inside an example.
#pragma once

#include <string>

#include "src/nn/loss.h"

namespace perigee {

// ignored_class reads it; the loss itself counts all classes.
inline constexpr Option kIgnoreOption{"ignore", "integer", "none", "a class, counted from 0, that does not count, as padding has it: -1"};

// A job puts numbers as "weights" in its place (src/train/class_weights.h).
inline constexpr Option kBalanceOption{
    "class_weight", "name", "none", "\"balanced\": weights by how often each class comes in the training part", {}, {"balanced"}};

// The operand of the softmax (along dimension 1 of [N, C, ...], or the last of [N, C]) or sigmoid that computed `output`; empty when
// something else did. Losses on logits look through it: the same function, without the logarithm of a rounded zero.
Value before_link(Value output, const std::string& link);

// The target in the output's dtype and shape; [N] also fits [N, 1]. Error when it cannot be.
Value matched_target(const Config& options, Value output, Value target);
// Class numbers as i64, [N, d...] for an output [N, C, d...]; empty when the target is a distribution of the output's shape.
Value class_target(const Config& options, Value output, Value target);

// "weights": one number per output (or class), as a constant that broadcasts along dimension 1 of the output; empty when not given.
Value output_weights(const Config& options, Value output);

Value example_mean(Value values);             // [N, ...] -> [N]
Value flatten_example(Value values);          // [N, ...] -> [N, everything else]
Value number_like(Value like, double value);  // a scalar of its dtype

// Element-wise `values` times the "weights" option, averaged or summed inside the example as "reduction" says.
Value reduced(const Config& options, Value values);

// Yes or no as 1 or 0, each moved half of `smoothing` towards the other.
Value smoothed_yes(Value y, double smoothing);
// A hinge of targets -1 and 1: f(1 - y x), where f is 0 below 0. "label_smoothing" takes the mean over both answers, of which the other one is
// meant with a probability of half the smoothing: a smoothed target y (1 - s) would only make outputs longer. Options weights, reduction.
Value hinge_loss(const Config& options, Value output, Value target, Value (*f)(Value));
inline constexpr Option kHingeOptions[] = {
    {"label_smoothing", "number", "0", "mean of the loss over both answers, the other one with half this probability", {0, 1}},
    {"weights", "list of numbers", "1 each", "one number for each output or class"},
    {"reduction", "name", "sum", "inside the example", {}, {"mean", "sum"}}};
inline constexpr Option kSmoothingOption{"label_smoothing", "number", "0", "share of the target that is spread over all classes", {0, 1}};
// softplus(x) - x y: -y log p - (1 - y) log(1 - p) with p = sigmoid(x), for logits x of any size. Option label_smoothing.
Value binary_terms(const Config& options, Value output, Value target);

// The target as distributions over dimension 1, in the output's shape.
Value class_distribution(Graph& graph, const Config& options, Value output, Value target);
// The value that cross_entropy and its other names build. Options label_smoothing, weights.
Value class_cross_entropy(Graph& graph, const Config& options, Value output, Value target);

}  // namespace perigee
