// Boxes around objects: what a grid shows, non-maximum suppression and mean average precision, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "src/model/evaluation.h"
#include "src/nn/detections.h"

namespace perigee {
namespace {

constexpr double kYes = 20, kNo = -20;

// Outputs of one box a cell, of 1 x 1 cells, on a grid of 1 x 4, with two classes: nothing is there yet.
Tensor nothing(int64_t examples) {
  Tensor output = Tensor::from(Shape{examples, 7, 1, 4}, std::vector<double>(static_cast<size_t>(examples * 28)));
  for (int64_t n = 0; n < examples; ++n)
    for (int64_t cell = 0; cell < 4; ++cell) output.data<double>()[n * 28 + 16 + cell] = kNo;
  return output;
}

double logit(double p) { return std::log(p / (1 - p)); }

void show(Tensor& output, int64_t example, int64_t cell, int64_t kind, double confidence, double x = 0.5) {
  double* const numbers = output.data<double>() + example * 28 + cell;
  numbers[0] = logit(x);
  numbers[16] = logit(confidence);
  numbers[20 + 4 * kind] = kYes;
}

// An object of a cell's size in the middle of `cell`.
void put(Tensor& target, int64_t example, int64_t cell, int64_t kind) {
  double* const numbers = target.data<double>() + example * 24 + cell;
  numbers[0] = static_cast<double>(cell), numbers[4] = 0, numbers[8] = static_cast<double>(cell) + 1, numbers[12] = 1;
  numbers[16 + 4 * kind] = 1;
}

Tensor no_objects(int64_t examples) {
  return Tensor::from(Shape{examples, 6, 1, 4}, std::vector<double>(static_cast<size_t>(examples * 24)));
}

TEST(Detections, AGridShowsItsBoxes) {
  Tensor output = nothing(1);
  show(output, 0, 2, 1, 0.8);
  output.data<double>()[2 * 4 + 2] = std::log(1.5);  // the width
  const std::vector<Detection> found = grid_detections(output.view(), 0, {{1, 1}}, 0.1, 0.45);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].box.left, 2.5 - 0.75, 1e-12);
  EXPECT_NEAR(found[0].box.right, 2.5 + 0.75, 1e-12);
  EXPECT_NEAR(found[0].box.bottom, 1, 1e-12);
  EXPECT_EQ(found[0].kind, 1);
  EXPECT_NEAR(found[0].score, 0.8, 1e-6);
}

TEST(Detections, ABoxThatOverlapsABetterOneOfItsClassIsLeftOut) {
  Tensor output = nothing(1);
  show(output, 0, 1, 0, 0.9, 0.95);
  show(output, 0, 2, 0, 0.7, 0.05);  // 0.1 beside: intersection over union 0.9 / 1.1
  EXPECT_EQ(grid_detections(output.view(), 0, {{1, 1}}, 0.1, 0.45).size(), 1u);
  EXPECT_EQ(grid_detections(output.view(), 0, {{1, 1}}, 0.1, 0.85).size(), 2u);
  Tensor other = nothing(1);
  show(other, 0, 1, 0, 0.9, 0.95);
  show(other, 0, 2, 1, 0.7, 0.05);
  EXPECT_EQ(grid_detections(other.view(), 0, {{1, 1}}, 0.1, 0.45).size(), 2u) << "of another class";
}

const char* const kDetection = R"({"type": "detection", "boxes": [[1, 1]], "threshold": 0.1})";

// Class 0: right at 0.9, wrong at 0.8, right at 0.7; one of three objects is missed. Precision 1 up to recall 1/3, 2/3 up to 2/3: AP 5/9.
// Class 1: one object, found: AP 1.
TEST(Detections, PrecisionIsAveragedOverRecallAndClasses) {
  Tensor output = nothing(2), target = no_objects(2);
  show(output, 0, 0, 0, 0.9), put(target, 0, 0, 0);
  show(output, 0, 2, 0, 0.8);
  show(output, 1, 0, 0, 0.7), put(target, 1, 0, 0);
  put(target, 1, 3, 0);
  show(output, 1, 1, 1, 0.6), put(target, 1, 1, 1);
  const auto evaluation = make_evaluation(Json::parse(kDetection, "metrics"), {}, "test");
  evaluation->add(output, target, -1);
  EXPECT_NEAR(evaluation->result().find("mean_average_precision")->as_number(), (5.0 / 9 + 1) / 2, 1e-9);

  const auto first = make_evaluation(Json::parse(kDetection, "metrics"), {}, "test");
  const auto second = make_evaluation(Json::parse(kDetection, "metrics"), {}, "test");
  first->add(output.rows(0, 1), target.rows(0, 1), -1);
  second->add(output.rows(1, 2), target.rows(1, 2), -1);
  first->merge(*second);
  const auto sent = make_evaluation(Json::parse(kDetection, "metrics"), {}, "test");
  sent->restore(Json::parse(first->state().dump(), "state"));
  EXPECT_EQ(sent->result().dump(), evaluation->result().dump());
}

TEST(Detections, AnObjectIsFoundOnce) {
  Tensor output = nothing(1), target = no_objects(1);
  show(output, 0, 0, 0, 0.9, 0.8), put(target, 0, 1, 0);  // both overlap the object of cell 1 by more than 0.15
  show(output, 0, 1, 0, 0.8);
  const auto evaluation =
      make_evaluation(Json::parse(R"({"type": "detection", "boxes": [[1, 1]], "overlap": 0.15, "suppression": 1})", "m"), {}, "test");
  evaluation->add(output, target, -1);
  EXPECT_NEAR(evaluation->result().find("mean_average_precision")->as_number(), 1, 1e-9);
  const Json classes = *evaluation->state().find("classes");
  int64_t right = 0;
  for (const Json& hit : classes.as_array()[0].find("right")->as_array()) right += hit.as_bool();
  EXPECT_EQ(right, 1);
}

template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Detections, WhatIsNoGridIsRefused) {
  const auto evaluation = make_evaluation(Json::parse(kDetection, "metrics"), {}, "test");
  EXPECT_NE(refusal_of([&] { evaluation->add(nothing(1), no_objects(1).rows(0, 0), 1); }), "no error");
  EXPECT_NE(refusal_of([&] {
              evaluation->add(no_objects(2), no_objects(2), -1);
            }).find("outputs N x boxes * (5 + classes) x H x W, targets N x (4 + classes) x H x W"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] {
              evaluation->restore(Json::parse(R"({"classes": [{"wanted": 1, "scores": [0.5], "right": []}]})", "state"));
            }).find("must have as many elements as 'right'"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] {
              evaluation->restore(Json::parse(R"({"classes": [{"wanted": 1, "scores": ["a"], "right": [true]}]})", "state"));
            }).find("must be numbers, and 'right' true or false"),
            std::string::npos);
  for (const char* state : {R"({})", R"({"classes": [{"wanted": 1, "scores": [0.5], "right": []}]})",
                            R"({"classes": [{"wanted": 1, "scores": ["a"], "right": [true]}]})"})
    EXPECT_NE(refusal_of([&] { evaluation->restore(Json::parse(state, "state")); }).find("state of the evaluation 'detection'"),
              std::string::npos)
        << state;
}

}  // namespace
}  // namespace perigee
