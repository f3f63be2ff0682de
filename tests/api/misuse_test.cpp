// Wrong arguments to functions of the C ABI: each message names the function, what is wrong, what came and what is wanted. api_test.cpp has the null
// ones.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "perigee.h"

namespace {

template <class Struct>
Struct sized() {
  Struct made{};
  made.size = sizeof made;
  return made;
}

struct ApiMisuse : testing::Test {
  ApiMisuse() { EXPECT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK); }
  ~ApiMisuse() override { perigee_context_free(context); }

  void expect(perigee_status status, const std::string& text, const std::function<const char*()>& message = nullptr) const {
    EXPECT_EQ(status, PERIGEE_USAGE);
    const std::string said = message ? message() : perigee_context_message(context);
    EXPECT_NE(said.find(text), std::string::npos) << said << "\nexpected: " << text;
  }
  perigee_tensor* tensor(std::vector<int64_t> shape, perigee_dtype dtype = PERIGEE_F32) const {
    perigee_tensor* made = nullptr;
    EXPECT_EQ(perigee_tensor_create(context, dtype, static_cast<int32_t>(shape.size()), shape.data(), nullptr, 0, &made), PERIGEE_OK);
    return made;
  }
  perigee_trainer* trainer() const {
    const std::string text =
        R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "epochs": 1,
            "data": {"batch": 2, "train": {"type": "arrays", "x": [[1, 2], [3, 4]], "y": [0, 1]}}})";
    perigee_job* job = nullptr;
    EXPECT_EQ(perigee_job_parse(context, text.data(), text.size(), PERIGEE_JSON, "job.json", nullptr, &job), PERIGEE_OK);
    perigee_trainer* made = nullptr;
    EXPECT_EQ(perigee_trainer_create(job, nullptr, &made), PERIGEE_OK) << perigee_job_message(job);
    perigee_job_free(job);
    return made;
  }
  perigee_context* context = nullptr;
};

TEST_F(ApiMisuse, OfStructsAndJobs) {
  perigee_context_options options{};
  perigee_context* other = nullptr;
  EXPECT_EQ(perigee_context_create(&options, &other), PERIGEE_USAGE) << "a size of 0";
  std::vector<char> newer(sizeof(perigee_run_options) + 8, '\0');
  perigee_run_options known = sized<perigee_run_options>();
  known.size = newer.size();
  std::memcpy(newer.data(), &known, sizeof known);
  newer.back() = 1;
  perigee_trainer* made = trainer();
  expect(perigee_trainer_run(made, reinterpret_cast<const perigee_run_options*>(newer.data())),
         "perigee_trainer_run: the program asks for an option that this library does not have; expected a library as new as its header",
         [&] { return perigee_trainer_message(made); });
  known.size = 3;
  expect(perigee_trainer_run(made, &known), "the struct's `size` is not set; got 3, expected sizeof, as PERIGEE_INIT sets it",
         [&] { return perigee_trainer_message(made); });
  perigee_trainer_free(made);
  perigee_job* job = nullptr;
  expect(perigee_job_parse(context, "{}", 2, static_cast<perigee_format>(7), nullptr, nullptr, &job),
         "perigee_job_parse: unknown format; got 7, expected PERIGEE_JSON, PERIGEE_YAML or PERIGEE_LUA");
}

TEST_F(ApiMisuse, OfSources) {
  const float numbers[] = {1, 2, 3, 4};
  perigee_source* source = nullptr;
  const auto refused = [&](perigee_field field, const char* text, int64_t examples = 2) {
    field.size = sizeof field;
    expect(perigee_source_from_arrays(context, examples, &field, 1, nullptr, nullptr, &source), text);
  };
  const perigee_field x{.name = "x", .rank = 1, .shape = {2}, .data = numbers};
  refused(x, "perigee_source_from_arrays: a source needs at least one example; got 0", 0);
  perigee_field wrong = x;
  wrong.name = "";
  refused(wrong, "a field has no name");
  wrong = x, wrong.classes = 3;
  refused(wrong, "field 'x': class labels are scalars; got 2, expected rank 0 and classes >= 0");
  wrong = x, wrong.stride = 4;
  refused(wrong, "field 'x': the stride is smaller than an example; got 4, expected 0, or at least 8 bytes");
  refused(x, "field 'x' has more bytes than can be addressed", INT64_MAX / 4);
  perigee_field twice[] = {x, x};
  twice[0].size = twice[1].size = sizeof x;
  expect(perigee_source_from_arrays(context, 2, twice, 2, nullptr, nullptr, &source), "two fields have the name 'x'");
  twice[0].size = 3;
  expect(perigee_source_from_arrays(context, 2, twice, 2, nullptr, nullptr, &source),
         "the fields' `size` is no size of a struct; got 3, expected sizeof(perigee_field)");
}

TEST_F(ApiMisuse, OfTensors) {
  const int64_t two[] = {2}, far[] = {INT64_MAX};
  const float numbers[] = {1, 2};
  perigee_tensor* made = nullptr;
  expect(perigee_tensor_create(context, PERIGEE_F32, 1, two, numbers, 4, &made),
         "perigee_tensor_create: the numbers do not fill the shape; got 4 bytes, expected 8 for f32[2]");
  float memory[] = {1, 2, 3};
  const int64_t three[] = {3};
  expect(perigee_tensor_borrow(context, PERIGEE_F32, 1, three, far, memory, nullptr, nullptr, &made), "the strides lead out of any memory");
  perigee_tensor* x = tensor({2});
  expect(perigee_op_into(x, "matmul", &x, 1), "perigee_op_into: 'matmul' is no element-wise op", [&] { return perigee_tensor_message(x); });
  expect(perigee_op(context, "randint", nullptr, 0, R"({"shape": [2], "low": 3, "high": 3})", &made, 1),
         "the range is empty; got 3 to before 3");
  const std::string path = testing::TempDir() + "misuse.npy";
  perigee_tensor_file* file = nullptr;
  ASSERT_EQ(perigee_tensor_file_save(context, path.c_str(), nullptr, &x, 1), PERIGEE_OK);
  ASSERT_EQ(perigee_tensor_file_load(context, path.c_str(), &file), PERIGEE_OK);
  expect(perigee_tensor_file_get(file, 1, nullptr, &made), "the file has no such tensor; got 1, expected 0 to 1 - 1",
         [&] { return perigee_tensor_file_message(file); });
  perigee_tensor_file_free(file);
  std::remove(path.c_str());
  perigee_trace* trace = nullptr;
  ASSERT_EQ(perigee_trace_begin(context, &trace), PERIGEE_OK);
  perigee_tensor* argument = nullptr;
  ASSERT_EQ(perigee_trace_argument(trace, x, &argument), PERIGEE_OK);
  perigee_tensor* inputs[] = {argument, nullptr};
  expect(perigee_op(context, "einsum", inputs, 2, R"({"formula": "i,i->i"})", &made, 1), "input 1 of 'einsum' is null");
  expect(perigee_op(context, "nonzero", inputs, 1, nullptr, &made, 1),
         "cannot be recorded: its result's shape depends on the values, or it is drawn; expected its result, computed outside");
  const perigee_index backwards{.kind = PERIGEE_RANGE, .start = PERIGEE_END, .stop = PERIGEE_END, .step = -1};
  expect(perigee_tensor_window(argument, &backwards, 1, &made), "perigee_tensor_window: a range that runs backwards cannot be recorded",
         [&] { return perigee_tensor_message(argument); });
  perigee_function* function = nullptr;
  auto options = sized<perigee_function_options>();
  options.threads = 2000;
  expect(perigee_trace_end(trace, &argument, 1, &options, &function), "perigee_trace_end: threads must lie in 0 to 1024",
         [&] { return perigee_trace_message(trace); });
  perigee_tensor_free(argument);
  perigee_trace_free(trace);
  perigee_tensor_free(x);
}

TEST_F(ApiMisuse, OfFunctions) {
  perigee_tensor* x = tensor({2});
  for (const bool donated : {true, false}) {
    perigee_trace* trace = nullptr;
    ASSERT_EQ(perigee_trace_begin(context, &trace), PERIGEE_OK);
    perigee_tensor* argument = nullptr;
    ASSERT_EQ(perigee_trace_argument(trace, x, &argument), PERIGEE_OK);
    auto options = sized<perigee_function_options>();
    options.donated_count = donated ? 2 : 0;  // of a null list
    perigee_function* function = nullptr;
    const perigee_status status = perigee_trace_end(trace, &argument, 1, &options, &function);
    if (donated) {
      expect(status, "perigee_trace_end: the list of donated arguments is wrong; got 2", [&] { return perigee_trace_message(trace); });
    } else {
      perigee_tensor* results[2] = {};
      expect(perigee_function_call(function, &x, 1, results, 2), "the function has another number of results; got 2, expected 1",
             [&] { return perigee_function_message(function); });
    }
    perigee_function_free(function);
    perigee_tensor_free(argument);
    perigee_trace_free(trace);
  }
  perigee_tensor_free(x);
}

TEST_F(ApiMisuse, OfTrainersAndModels) {
  perigee_trainer* made = trainer();
  const auto refused = [&](perigee_status status, const char* text) {
    expect(status, text, [&] { return perigee_trainer_message(made); });
  };
  auto run = sized<perigee_run_options>();
  run.max_steps = -1;
  refused(perigee_trainer_run(made, &run), "perigee_trainer_run: max_steps and every_steps must not be negative");
  refused(perigee_trainer_resume(made, nullptr), "perigee_trainer_resume: the trainer was made without a folder for checkpoints");
  const void* field = "";
  refused(perigee_trainer_feed(made, &field, 1, 1, nullptr), "the training source has another number of fields; got 1, expected 2");
  run = sized<perigee_run_options>();
  run.user = made;
  run.progress = [](void* user, const perigee_report*) {
    auto* inside = static_cast<perigee_trainer*>(user);
    EXPECT_EQ(perigee_trainer_run(inside, nullptr), PERIGEE_USAGE);
    EXPECT_NE(std::string(perigee_trainer_message(inside)).find("perigee_trainer_run: this trainer is already running"), std::string::npos);
    return 0;
  };
  EXPECT_EQ(perigee_trainer_run(made, &run), PERIGEE_OK);
  perigee_model* model = nullptr;
  ASSERT_EQ(perigee_trainer_model(made, &model), PERIGEE_OK);
  const auto of_model = [&](perigee_status status, const char* text) {
    expect(status, text, [&] { return perigee_model_message(model); });
  };
  float numbers[4] = {};
  const void* inputs[] = {numbers, numbers};
  of_model(perigee_model_read(model, "dense1.wight", numbers, sizeof numbers),
           "perigee_model_read: the model has no parameter or state 'dense1.wight'; did you mean 'dense1.weight'");
  of_model(perigee_model_read(model, "dense1.bias", numbers, 4),
           "the memory for 'dense1.bias' has the wrong size; got 4 bytes, expected 8 (f32[2])");
  of_model(perigee_model_predict(model, inputs, 2, 1, numbers, sizeof numbers),
           "the model has another number of inputs; got 2, expected 1");
  of_model(perigee_model_predict(model, inputs, 1, 9, numbers, sizeof numbers),
           "perigee_model_predict: the memory for the output is too small; got 16 bytes, expected 9 x 8");
  auto info = sized<perigee_tensor_info>();
  of_model(perigee_model_input(model, 1, &info), "perigee_model_input: no such input; got 1, expected 0 to 0");
  perigee_model_free(model);
  perigee_trainer_free(made);
}

TEST_F(ApiMisuse, OfOps) {
  auto op = sized<perigee_op_definition>();
  op.name = "swish";
  expect(perigee_register_op(context, &op), "perigee_register_op: an op's name has a dot; got 'swish', expected \"mine.swish\"");
}

}  // namespace
