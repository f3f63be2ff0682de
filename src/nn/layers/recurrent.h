// Shared by the recurrent layers lstm, gru and rnn, and by bidirectional.
#pragma once

#include <string>
#include <vector>

#include "src/nn/layers/steps.h"

namespace perigee {

enum class RecurrentCell { lstm, gru, rnn };

constexpr int gates_of(RecurrentCell cell) { return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1; }

// One layer in one direction.
struct Recurrence {
  RecurrentCell cell = RecurrentCell::lstm;
  bool reverse = false;
  std::string suffix;  // of the parameters' names: "", "_reverse", "_2", "_2_reverse"
  Value x;             // [N, T, features]
  Value mask;          // [N, T], or empty
  Value h0, c0;        // [N, units], or empty
};

struct RecurrentStates {
  Value h;       // [N, T, units], after each step; a masked step keeps the state
  Value last_c;  // [N, units]; of lstm alone
};

// Declares the parameters and runs all steps.
RecurrentStates run_recurrence(LayerContext& context, const Recurrence& recurrence);

// The same by ops for each step, for all options that the ops of whole sequences do not have (recurrent_steps.cpp). `z`: the products of the
// inputs, with the bias, [N, T, gates units]; `recurrent` [outputs, gates units].
RecurrentStates run_steps(LayerContext& context, const Recurrence& recurrence, Value z, Value recurrent, Value bias_recurrent);

// A layer with all its options: stacked, in both directions.
std::vector<Value> build_recurrent(LayerContext& context, RecurrentCell cell, std::span<const Value> inputs);

// Forward, with all states as the result, it goes on from where it was.
StepUse recurrent_step_use(const Config& options, std::span<const Value> inputs);

// Two directions joined by "concat", "sum", "mean" or "multiply"; features are on `axis`.
Value merged(const std::string& how, Value forward, Value backward, int axis);

inline constexpr Option kUnitsOption{"units", "integer", nullptr, "size of the state", {1, 1 << 16}};
inline constexpr Option kLayersOption{"layers", "integer", "1", "so many on top of each other", {1, 64}};
inline constexpr Option kBidirectionalOption{"bidirectional",
                                             "name",
                                             "none",
                                             "a second run from the last step to the first, and how the two are joined",
                                             {},
                                             {"none", "concat", "sum", "mean", "multiply"}};
inline constexpr Option kReturnsOption{
    "returns", "name",
    "all",     "every step's state, the last one's, the last state's parts (h and c) as outputs, or all and these",
    {},        {"all", "last", "state", "both"}};
inline constexpr Option kStateOption{"state", "name",
                                     "zero",  "at the first step: zeros, or what the stream's window before ended with (data with streams)",
                                     {},      {"zero", "carry"}};
inline constexpr Option kReverseOption{"reverse", "boolean", "false", "from the last step to the first"};
inline constexpr Option kStackDropoutOption{
    "stack_dropout", "number", "0", "share of what goes from layer to layer that is dropped in training", {0, 0.999999}};
inline constexpr Option kRecurrentDropoutOption{
    "recurrent_dropout", "number", "0", "share of the state that is dropped in training, the same units at all steps", {0, 0.999999}};
inline constexpr Option kZoneoutOption{
    "zoneout", "number", "0", "probability with which a unit keeps its state in training", {0, 0.999999}};
inline constexpr Option kLayerNormOption{"layer_norm", "boolean", "false", "normalises the products of inputs and of states"};
inline constexpr Option kRecurrentInitOption{"recurrent_init", "initializer", "orthogonal",
                                             "initial recurrent weights; xavier for large ones"};
inline constexpr Option kGateActivationOption{"gate_activation",
                                              "name",
                                              "sigmoid",
                                              "of the gates; hard: 0.2 x + 0.5 (Keras 1, 2), x / 6 + 0.5",
                                              {},
                                              {"sigmoid", "hard_sigmoid", "hard_sigmoid6"}};

}  // namespace perigee
