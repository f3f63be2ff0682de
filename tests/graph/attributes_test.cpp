// Attributes of every op: described, checked, and with the defaults that the description says.
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "kernels/ops/elementwise.h"
#include "src/core/error.h"
#include "tests/graph/cases.h"
#include "tests/graph/interpreter.h"

namespace perigee {
namespace {

// The Error of applying the case's op with these attributes; empty when there is none.
std::string attribute_refusal(const OpCase& c, const Json& attrs) {
  Graph graph;
  std::vector<Value> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    inputs.push_back(c.inputs[i].present ? graph.input("x" + std::to_string(i), c.inputs[i].type) : Value());
  try {
    graph.apply_all(c.op, inputs, attrs);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

Json with(const OpCase& c, const std::string& name, Json value) {
  Json attrs = c.attrs.is_null() ? Json::object() : c.attrs;
  attrs.set(name, std::move(value));
  return attrs;
}

// The results of the case's op with these attributes, as bytes.
std::vector<std::byte> results(const OpCase& c, const Json& attrs) {
  std::mt19937_64 random(7);
  Graph graph;
  std::map<std::string, Tensor> leaves;
  std::vector<Value> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.emplace_back();
    if (!c.inputs[i].present) continue;
    const std::string name = "x" + std::to_string(i);
    leaves[name] = case_values(c.inputs[i], false, random);
    inputs.back() = graph.input(name, c.inputs[i].type);
  }
  const std::vector<Value> outputs = graph.apply_all(c.op, inputs, attrs);
  Interpreter interpreter(graph);
  interpreter.run(leaves);
  std::vector<std::byte> bytes;
  for (const Value& output : outputs) {
    const Tensor& result = interpreter[output];
    bytes.insert(bytes.end(), result.data<std::byte>(), result.data<std::byte>() + result.bytes());
  }
  return bytes;
}

TEST(Attributes, AreDescribed) {
  for (const OpDef* op : all_ops())
    for (const Option& option : op->attributes.options) {
      EXPECT_TRUE(option.doc != nullptr && *option.doc != 0) << op->name << ": " << option.name;
      EXPECT_EQ(op->attributes.find(option.name), &option) << op->name << " has two of the name " << option.name;
    }
}

TEST(Attributes, UnknownOnesAreRefusedWithTheNearestName) {
  for (const OpCase& c : all_cases(1)) {
    ASSERT_EQ(attribute_refusal(c, c.attrs), "") << c.text();
    if (op_named(c.op).attributes.open) continue;
    EXPECT_NE(attribute_refusal(c, with(c, "no_such_attribute", 1)).find("unknown key 'no_such_attribute'"), std::string::npos) << c.text();
    EXPECT_NE(attribute_refusal(c, with(c, "type", 1)).find("unknown key 'type'"), std::string::npos) << c.text();
  }
  const OpCase softmax{.op = "softmax", .inputs = {real({2, 3})}};
  const std::string error = attribute_refusal(softmax, with(softmax, "axs", 1));
  EXPECT_NE(error.find("op 'softmax'"), std::string::npos) << error;
  EXPECT_NE(error.find("'axis'"), std::string::npos) << error;
}

TEST(Attributes, TypesRangesAndChoicesAreChecked) {
  for (const OpCase& c : all_cases(1))
    for (const Option& option : op_named(c.op).attributes.options) {
      const std::string name = std::string("'") + option.name + "'";
      if (option.type->values != takes::anything) {
        EXPECT_NE(attribute_refusal(c, with(c, option.name, Json(Json::Object{{"a", 1}}))).find(name + " has the wrong type"),
                  std::string::npos)
            << c.text() << " " << name;
      }
      if (*option.choices) {
        EXPECT_NE(attribute_refusal(c, with(c, option.name, "no such choice")).find(name + " has an unknown value"), std::string::npos)
            << name;
      }
      if (option.range.low > -1e300) {
        const Json below(static_cast<int64_t>(option.range.low) - 1);
        const bool list = option.type->values == takes::list;
        EXPECT_NE(attribute_refusal(c, with(c, option.name, list ? Json(Json::Array{below}) : below)).find(name + " is out of range"),
                  std::string::npos)
            << c.text() << " " << name;
      }
    }
}

// An attribute that is read with a default of its own, instead of the described one, shows here.
TEST(Attributes, TheDescribedDefaultIsWhatAbsenceMeans) {
  size_t checked = 0;
  for (const OpCase& c : all_cases(1))
    for (const Option& option : op_named(c.op).attributes.options) {
      const Json fallback = fallback_value(option);
      const bool required = option.required() || (c.attrs.is_object() && c.attrs.find(option.name));
      if (required || fallback.is_null()) continue;
      ++checked;
      EXPECT_EQ(results(c, c.attrs), results(c, with(c, option.name, fallback))) << c.text() << " " << option.name;
    }
  EXPECT_GT(checked, 100u);
}

TEST(Facts, InstructionsOfFusedAreTheElementwiseOps) {
  size_t count = 0;
  for (const OpDef* op : all_ops()) count += op->instruction;
  EXPECT_EQ(count, static_cast<size_t>(Elementwise::where) + 1);
  for (size_t i = 0; i < count; ++i) EXPECT_TRUE(op_named(elementwise_name(static_cast<Elementwise>(i))).instruction);
}

TEST(Facts, FitEachOther) {
  for (const OpDef* op : all_ops()) {
    const bool gradient = std::strstr(op->name, "_grad") != nullptr && std::string_view(op->name) != "stop_gradient";
    EXPECT_EQ(op->derivative, gradient) << op->name;
    EXPECT_TRUE(op->internal || !(gradient || op->leaf != LeafOp::none)) << op->name;
    EXPECT_TRUE(op->image || !(op->gives_weight || op->any_order)) << op->name;
    EXPECT_TRUE(op->any_order || op->left_in_place == 0) << op->name;
    if (op->max_inputs >= 0) {
      EXPECT_EQ((uint64_t{op->parameters} | op->left_in_place) >> op->max_inputs, 0u) << op->name;
    }
  }
}

}  // namespace
}  // namespace perigee
