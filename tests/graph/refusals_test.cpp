// Errors of ops and graphs that a layer of one's own or a program of ops can meet: what is wrong is said with the types.
#include "tests/core/refusal.h"

#include "src/eager/compiled.h"
#include "src/eager/kernels.h"
#include "src/eager/window.h"
#include "src/graph/graph.h"
#include "src/graph/host_op.h"
#include "src/graph/tuning.h"

namespace perigee {
namespace {

struct Wrong {
  const char* op;
  std::vector<Type> in;
  const char* attrs;
  const char* error;
};

const Type kReal{Dtype::f32, {4, 6}}, kWhole{Dtype::i64, {4, 6}}, kTruth{Dtype::boolean, {4, 6}}, kNumber{Dtype::f32, {}},
    kHeads{Dtype::f32, {2, 3, 2, 4}};

TEST(Refusals, OpsNameWhatTheyTake) {
  const std::vector<Wrong> all = {
      {"add", {kReal, kWhole}, "{}", "op 'add': operands have different dtypes; got f32[4x6] and i64[4x6]; cast one"},
      {"inv", {kWhole}, "{}", "takes real matrices; got i64[4x6], expected f32 or f64"},
      {"matmul", {kReal, {Dtype::f64, {6, 4}}}, "{}", "matmul takes two operands of one floating-point type; got f32[4x6] and f64[6x4]"},
      {"random_uniform", {kWhole}, "{}", "random numbers are f32 or f64; got i64[4x6]"},
      {"fold_steps", {{Dtype::f32, {4}}}, "{}", "folds examples x steps; got f32[4], expected two dimensions or more"},
      {"unfold_steps", {kReal}, R"({"steps": 3})", "cannot be cut into steps; got f32[4x6], expected a multiple of 3"},
      {"conv2d",
       {{Dtype::f32, {1, 1, 4, 4}}, {Dtype::f64, {1, 1, 3, 3}}},
       "{}",
       "the weight has the wrong element type; got f64, expected f32"},
      {"attention",
       {kHeads, kHeads, kHeads},
       R"({"segments": true})",
       "attention: segments are of steps that look at each other; got no mask, expected as many queries as keys, and a mask with the "
       "number of each "
       "step's sequence"},
      {"reduce_sum", {kTruth}, "{}", "cannot reduce this dtype; got bool[4x6], expected a number; cast it"},
      {"concatenate", std::vector<Type>(17, {Dtype::u8, {kMaxElements}}), R"({"axis": 0})", "a dimension overflows; got u8["},
  };
  for (const Wrong& wrong : all) {
    Graph graph;
    std::vector<Value> inputs;
    for (const Type& type : wrong.in) inputs.push_back(graph.input("x" + std::to_string(inputs.size()), type));
    EXPECT_HAS(refusal(ErrorKind::model, [&] { graph.apply_all(wrong.op, inputs, Json::parse(wrong.attrs, "attrs")); }), wrong.error);
  }
}

TEST(Refusals, GradientsOfAttentionFitItsResult) {
  Graph graph;
  const Type heads{Dtype::f32, {2, 3, 2, 4}}, sums{Dtype::f32, {2, 2, 3}};
  const Value q = graph.input("q", heads), result = graph.input("result", heads), good = graph.input("sums", sums);
  const Value narrow = graph.input("narrow", {Dtype::f32, {2, 3, 2, 5}}), turned = graph.input("turned", {Dtype::f32, {2, 3, 2}});
  EXPECT_HAS(refusal(ErrorKind::model,
                     [&] {
                       graph.apply_all("attention_grad", std::vector<Value>{narrow, q, q, q, Value(), result, good}, Json::object());
                     }),
             "attention: the gradient does not fit; got f32[2x3x2x5], expected f32[2x3x2x4]");
  EXPECT_HAS(refusal(ErrorKind::model,
                     [&] {
                       graph.apply_all("attention_grad", std::vector<Value>{result, q, q, q, Value(), result, turned}, Json::object());
                     }),
             "attention: the sums do not fit; got f32[2x3x2], expected f32[2x2x3]");
}

TEST(Refusals, LeavesHaveOneType) {
  Graph graph;
  graph.set_scope("layer 'a'");
  const Value mean = graph.state("mean", kReal);
  EXPECT_HAS(refusal(ErrorKind::model, [&] { graph.state("mean", kWhole); }),
             "layer 'a': state 'mean' is used with two types; got i64[4x6], expected f32[4x6]");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { graph.assign("mean", graph.constant(1, kNumber)); }),
             "state 'mean' is assigned a value of another type; got f32[], expected f32[4x6]");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { graph.assign("men", mean); }),
             "state 'men' is assigned but does not exist; did you mean 'mean'?");
}

TEST(Refusals, OpsOfTheProgramKeepTheExamples) {
  const auto op = [](const char* name) {
    return HostOp{.name = name,
                  .infer =
                      [](std::span<const Type> inputs, const double*) {
                        return Type{inputs[0].dtype, {1}};
                      },
                  .kernel = {.definition = nullptr, .forward = nullptr, .backward = nullptr}};
  };
  register_host_op(op("refusals.total"));
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { register_host_op(op("refusals.total")); }),
             "op 'refusals.total': is registered already; register each op once");
  Graph graph;
  const Value x = graph.input("x", kReal);
  const auto apply = [&](const char* name) {
    return refusal(ErrorKind::model, [&] { graph.apply("host", {x}, Json(Json::Object{{"name", name}})); });
  };
  EXPECT_HAS(apply("refusals.total"), "the result of op 'refusals.total' has lost the examples, dimension 0; got f32[1], expected 4 x ...");
  EXPECT_HAS(apply("refusals.totl"), "belongs to a program that embeds Perigee, and this is not it; did you mean 'refusals.total'?");
  EXPECT_HAS(apply("elsewhere.mean"), "register it before the job is used (perigee_register_op)");
}

TEST(Refusals, FunctionsTakeWhatTheyWereRecordedWith) {
  Recorder recorder;
  const int x = recorder.argument(kReal), places = recorder.argument(kWhole);
  const Recorder::Operand operand{.value = x, .number = {}};
  Json axes = Json::object();
  axes.set("axes", Json(Json::Array{0, 1}));
  const int total = recorder.apply("reduce_sum", std::span(&operand, 1), axes)[0];
  EXPECT_HAS(refusal(ErrorKind::model, [&] { recorder.gradients(total, std::span(&places, 1)); }),
             "there is no gradient with respect to whole numbers; got i64[4x6], expected f32 or f64");
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { recorder.type(99); }),
             "there is no such recorded value; got 99, expected one of the 3 that it gave");
  CompiledFunction function(recorder, std::span(&total, 1), 1);
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { function.run({}); }),
             "the function was recorded with another number of arguments; got 0, expected 2");
  const Array given[] = {new_array(kReal), new_array(kReal)};
  EXPECT_HAS(refusal(ErrorKind::model, [&] { function.run(given); }),
             "argument 2 is not what the function was recorded with; got f32[4x6], expected i64[4x6]");
}

TEST(Refusals, WindowsAndPlacesStayInside) {
  const Array x = new_array(kReal), places = new_array(Type{Dtype::i64, {2}});
  const WindowIndex beyond[] = {{.kind = WindowIndex::at, .first = 4}};
  EXPECT_HAS(refusal(ErrorKind::model, [&] { window(x, beyond); }), "a window leaves dimension 0; got f32[4x6], expected places 0 to 3");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { take(x, 2, places); }), "there is no dimension 2; got f32[4x6], expected one below its rank");
}

TEST(Refusals, AnOpWithoutAKernelIsNamed) {
  View x{.dtype = Dtype::f16};
  EXPECT_HAS(refusal(ErrorKind::model, [&] { kernel_for({}, KernelCall{.in = &x, .n_in = 1}, "conv2d"); }),
             "no kernel computes op 'conv2d' on operands of f16");
}

TEST(Refusals, ATableOfKernelsIsAnObject) {
  EXPECT_HAS(refusal(ErrorKind::model, [] { Tuning().merge(Json(3)); }),
             "a tuning table must be an object; got integer, expected {\"key\": \"kernel\"}");
}

}  // namespace
}  // namespace perigee
