// Where a plan for a device adds a gradient to the memory of another instead of making room for both: only where the difference is not visible.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/graph/build.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

// A gradient that was there, and a convolution's that is added to it: `more` adds readers of either.
struct Meeting {
  Graph graph;
  const Type image{Dtype::f32, {2, 3, 6, 6}};
  Value dy = graph.input("dy", image), w = graph.parameter("w", {Dtype::f32, {3, 3, 1, 1}});
  Value other = graph.apply("exp", {graph.input("x", image)});

  Value product() {
    Json attrs = Json::object();
    attrs.set("input_size", Json(Json::Array{6, 6}));
    return graph.apply("conv2d_grad_input", {dy, w}, attrs);
  }
};

// Whether the convolution's gradient is added in place.
bool joins(const std::function<void(Meeting&)>& build) {
  Meeting meeting;
  build(meeting);
  const auto plan = Plan::compile(meeting.graph, {.backend = Backend::cuda});
  return std::any_of(plan->steps().begin(), plan->steps().end(),
                     [](const PlanStep& step) { return std::string_view(step.op->name) == "conv2d_grad_input" && step.accumulate; });
}

TEST(DevicePlan, AGradientIsAddedToAnotherThatNobodyElseReadsFromThenOn) {
  EXPECT_TRUE(joins([](Meeting& m) { m.graph.output("sum", exp(m.other + m.product())); }));
  EXPECT_TRUE(joins([](Meeting& m) {
    m.graph.output("before", exp(m.other));
    m.graph.output("sum", exp(m.other + m.product()));
  }));
}

TEST(DevicePlan, NotToOneThatIsReadLater) {
  const std::function<void(Meeting&)> builds[] = {
      [](Meeting& m) {  // behind the sum
        m.graph.output("sum", exp(m.other + m.product()));
        m.graph.output("after", exp(m.other));
      },
      [](Meeting& m) {  // between the product and the sum
        const Value product = m.product();
        m.graph.output("between", exp(m.other));
        m.graph.output("sum", exp(m.other + product));
      },
      [](Meeting& m) {  // a window on it
        const Value window = reshape(m.other, {2, 108});
        m.graph.output("sum", exp(m.other + m.product()));
        m.graph.output("after", exp(window));
      },
      [](Meeting& m) {  // the caller
        m.graph.output("sum", exp(m.other + m.product()));
        m.graph.output("other", m.other);
      },
      [](Meeting& m) {  // the product's own reader
        const Value product = m.product();
        m.graph.output("sum", exp(m.other + product));
        m.graph.output("product", exp(product));
      },
      [](Meeting& m) {  // made only after the product
        const Value product = m.product();
        m.graph.output("sum", exp(product + exp(m.other)));
      },
  };
  for (const auto& build : builds) EXPECT_FALSE(joins(build)) << &build - builds;
}

// A gradient in 16 bits waits until many are widened together: who reads it in between must not write over it.
TEST(DevicePlan, AGradientThatWaitsToBeWidenedKeepsItsMemory) {
  Graph graph;
  const Value gradient = exp(graph.input("x", {Dtype::bf16, {64}}));
  graph.output("grad:w", cast(gradient, Dtype::f32));
  graph.output("y", exp(gradient));
  const auto plan = Plan::compile(graph, {.backend = Backend::cuda, .external_outputs = {"grad:w"}});
  const std::vector<PlanStep>& steps = plan->steps();
  ASSERT_EQ(steps.size(), 3u);
  ASSERT_EQ(std::string_view(steps[2].op->name), "cast");
  EXPECT_EQ(steps[2].in[0].offset, steps[0].out[0].offset);
  EXPECT_NE(steps[1].out[0].offset, steps[0].out[0].offset);
}

}  // namespace
}  // namespace perigee
