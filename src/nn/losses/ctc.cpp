#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_of_steps(Graph& graph, const Config& options, Value output, Value target, Value steps) {
  if (output.rank() != 3 || target.rank() < 1 || target.rank() > 2 || target.shape()[0] != output.shape()[0])
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "ctc does not fit the network's output and the target",
                                   .got = "outputs " + output.type().text() + ", target " + target.type().text(),
                                   .expected = "outputs NxCxT of classes and steps, labels NxL padded with -1"});
  const int64_t blank = options.integer("blank");
  if (blank >= output.shape()[1])
    options.fail("blank", "must be one of the " + std::to_string(output.shape()[1]) + " classes", std::to_string(blank));
  const Value inner = before_link(output, "softmax"), logits = inner ? inner : output;
  const Value labels = target.rank() == 2 ? target : reshape(target, Shape{target.shape()[0], 1});
  Json attrs = Json::object();
  attrs.set("blank", blank);
  attrs.set("zero_infinity", options.boolean("zero_infinity"));
  std::vector<Value> operands{logits, cast(labels, Dtype::i64)};
  if (steps) operands.push_back(steps);
  return graph.apply("ctc", operands, std::move(attrs));
}

Value build_ctc(Graph& graph, const Config& options, Value output, Value target) {
  return build_of_steps(graph, options, output, target, {});
}

constexpr Option kCtcOptions[] = {{"blank", "integer", "0", "the class, counted from 0, that stands for no label", {0, 1e9}},
                                  {"zero_infinity", "boolean", "false", "labels that the steps have no room for cost 0, not infinity"}};

}  // namespace

extern const LossDef loss_ctc;
const LossDef loss_ctc{
    .name = "ctc",
    .doc =
        "-log of the probability that the steps of logits [N, C, T] spell the labels [N, L], each up to its first -1, wherever they stand: "
        "repeated classes count once and blanks not at all (Graves et al., 2006). Steps beyond the input's lengths do not count. The value "
        "is not divided by the number of labels. There is no label_smoothing: a step has no target that could be spread. Options: blank, "
        "zero_infinity.",
    .schema = {.options = kCtcOptions},
    .build = build_ctc,
    .build_of_steps = build_of_steps,
    .link = "softmax",
    .example = R"({"type": "ctc", "zero_infinity": true})",
    .example_output = "[4, 5]",
    .example_target = "labels"};

}  // namespace perigee
