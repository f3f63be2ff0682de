// Fields that say how much others count: a program's C structs and C++ fields train to the bits of the same JSON job, and structs of programs that
// were built before there were roles are read as they were.
#include <cstddef>
#include <cstring>
#include <sstream>

#include "tests/api/support.h"

namespace {

constexpr int kExamples = 24, kSteps = 6;

// Sequences of one feature with a class for each step; beyond the length stands what must not be seen.
struct Signals {
  std::vector<float> x, w, m;
  std::vector<int64_t> y;
  std::vector<int32_t> n;

  Signals() {
    uint32_t state = 99;
    const auto next = [&](uint32_t below) { return (state = state * 1664525u + 1013904223u, (state >> 8) % below); };
    for (int i = 0; i < kExamples; ++i) {
      n.push_back(1 + static_cast<int32_t>(next(kSteps)));
      w.push_back(0.5f * static_cast<float>(next(4)));
      for (int t = 0; t < kSteps; ++t) {
        const float value = static_cast<float>(next(64)) / 32 - 1;
        x.push_back(t < n.back() ? value : 50), y.push_back(t < n.back() ? value > 0 : -1), m.push_back(t < n.back());
      }
    }
  }
};

template <class T>
std::string list(const std::vector<T>& numbers, int of_example, bool channels = false) {
  std::ostringstream text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool first = i % static_cast<size_t>(of_example) == 0, last = (i + 1) % static_cast<size_t>(of_example) == 0;
    text << (i == 0 ? "[" : ", ") << (first && of_example > 1 ? channels ? "[[" : "[" : "") << numbers[i]
         << (last && of_example > 1 ? channels ? "]]" : "]" : "");
  }
  return text.str() + "]";
}

// The parameters after 3 epochs; `train`: the job's source, or empty for one that is bound.
std::string job_text(const std::string& data) {
  return R"({"name": "roles", "network": [{"type": "conv1d", "out": 4, "kernel": 3, "padding": "same", "activation": "tanh"},
    {"type": "conv1d", "out": 2, "kernel": 1}], "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.02}, "seed": 7, "epochs": 3,
    "threads": 1, "deterministic": true, "data": {"batch": 8)" +
         data + "}}";
}

std::vector<float> trained(pg::job job) {
  pg::trainer trainer(job);
  EXPECT_TRUE(trainer.run());
  return all_parameters(trainer.model());
}

std::vector<float> trained_by_json(const Signals& all, const std::string& roles) {
  return trained(pg::job::parse(job_text(R"(, "train": {"type": "arrays", "x": )" + list(all.x, kSteps, true) + R"(, "y": )" +
                                         list(all.y, kSteps) + R"(, "n": )" + list(all.n, 1) + R"(, "w": )" + list(all.w, 1) +
                                         R"(, "m": )" + list(all.m, kSteps) + "}" + roles)));
}

// With `fields` of a program as training data.
std::vector<float> trained_by_c(const void* fields, int32_t count, const std::string& roles = "") {
  const pg::context context;
  pg::job job = pg::job::parse(job_text(roles), PERIGEE_JSON, "job", context);
  perigee_source* source = nullptr;
  EXPECT_EQ(
      perigee_source_from_arrays(context.get(), kExamples, static_cast<const perigee_field*>(fields), count, nullptr, nullptr, &source),
      PERIGEE_OK)
      << perigee_context_message(context.get());
  job.check(perigee_job_bind(job.get(), "train", source));
  perigee_source_free(source);
  return trained(std::move(job));
}

constexpr const char* kRoles = R"(, "lengths": {"x": "n"}, "weights": "w")";

struct Fields {
  explicit Fields(const Signals& all)
      : x{.size = sizeof x, .name = "x", .rank = 2, .shape = {1, kSteps}, .data = all.x.data()},
        y{.size = sizeof y, .name = "y", .dtype = PERIGEE_I64, .rank = 1, .shape = {kSteps}, .data = all.y.data()},
        n{.size = sizeof n,
          .name = "n",
          .dtype = PERIGEE_I64,
          .data = all.n.data(),
          .stored = PERIGEE_I32,
          .of = "x",
          .role = PERIGEE_LENGTH},
        w{.size = sizeof w, .name = "w", .data = all.w.data(), .role = PERIGEE_WEIGHT},
        m{.size = sizeof m, .name = "m", .rank = 1, .shape = {kSteps}, .data = all.m.data(), .of = "x", .role = PERIGEE_MASK} {}
  perigee_field x, y, n, w, m;
};

TEST(Roles, FieldsOfAProgramTrainAsTheJsonJobDoes) {
  const Signals all;
  const std::vector<float> expected = trained_by_json(all, kRoles);
  EXPECT_NE(expected, trained_by_json(all, R"(, "lengths": {"x": "n"})")) << "the weights count";
  const Fields c(all);
  const perigee_field fields[] = {c.x, c.y, c.n, c.w}, masked[] = {c.w, c.m, c.y, c.x};
  EXPECT_EQ(trained_by_c(fields, 4), expected);
  EXPECT_EQ(trained_by_c(masked, 4), trained_by_json(all, R"(, "masks": {"x": "m"}, "weights": "w")")) << "a weight without `of`";

  const auto train = [&](const std::vector<pg::field_info>& more, pg::data_options data) {
    pg::field_info y = pg::field("y", all.y, {kSteps});
    y.dtype = PERIGEE_I64;
    std::vector<pg::field_info> given = {pg::field("x", all.x, {1, kSteps}), y};
    given.insert(given.end(), more.begin(), more.end());
    data.train = pg::arrays(given);
    data.batch = 8;
    return trained(
        pg::experiment{.name = "roles",
                       .network = pg::sequential(pg::conv1d(4, 3, {.padding = "same", .activation = pg::tanh}), pg::conv1d(2, 1)),
                       .loss = pg::losses::cross_entropy,
                       .optimizer = pg::adam({.lr = 0.02}),
                       .data = data,
                       .epochs = 3,
                       .seed = 7,
                       .threads = 1,
                       .deterministic = true});
  };
  EXPECT_EQ(train({pg::length("n", all.n, "x"), pg::weight("w", all.w)}, {}), expected);
  EXPECT_EQ(train({pg::mask("m", all.m, kSteps, "x"), pg::weight("w", all.w, "y")}, {}), trained_by_c(masked, 4));
  pg::field_info n = pg::field("n", all.n);
  n.dtype = PERIGEE_I64;
  EXPECT_EQ(train({n, pg::field("w", all.w)}, {.lengths = pg::options{{"x", "n"}}, .weights = "w"}), expected) << "said by the job";
}

// The struct had 128 bytes, of which the last four were padding with anything in it.
TEST(Roles, StructsThatHadNoneAreReadAsTheyWere) {
  constexpr size_t kOldSize = 128, kOldEnd = offsetof(perigee_field, scale) + sizeof(float);
  static_assert(offsetof(perigee_field, of) >= kOldSize && offsetof(perigee_field, role) >= kOldSize);
  const Signals all;
  Fields c(all);
  alignas(perigee_field) std::byte old[4 * kOldSize];
  std::memset(old, 0x02, sizeof old);
  perigee_field* const fields[] = {&c.x, &c.y, &c.n, &c.w};
  for (size_t i = 0; i < 4; ++i) {
    fields[i]->size = kOldSize;
    std::memcpy(old + i * kOldSize, fields[i], kOldEnd);
  }
  EXPECT_EQ(trained_by_c(old, 4, kRoles), trained_by_json(all, kRoles));
}

TEST(Roles, OfNothingAreRefused) {
  const Signals all;
  const pg::context context;
  const auto refusal = [&](perigee_field field) {
    perigee_source* source = nullptr;
    EXPECT_EQ(perigee_source_from_arrays(context.get(), kExamples, &field, 1, nullptr, nullptr, &source), PERIGEE_USAGE);
    EXPECT_EQ(source, nullptr);
    return std::string(perigee_context_message(context.get()));
  };
  Fields c(all);
  c.n.of = nullptr;
  EXPECT_NE(refusal(c.n).find("field 'n' does not say which field it serves"), std::string::npos);
  c.w.role = 5;
  EXPECT_NE(refusal(c.w).find("field 'w' has an unknown role"), std::string::npos);
}

TEST(Roles, NumbersThatAreNoDtypeAreRefused) {
  const Signals all;
  const pg::context context;
  Fields c(all);
  const int number = 77;  // as C stores it in the enumeration
  for (perigee_dtype perigee_field::*const member : {&perigee_field::dtype, &perigee_field::stored}) {
    perigee_field field = c.x;
    std::memcpy(&(field.*member), &number, sizeof number);
    perigee_source* source = nullptr;
    EXPECT_EQ(perigee_source_from_arrays(context.get(), kExamples, &field, 1, nullptr, nullptr, &source), PERIGEE_USAGE);
    EXPECT_NE(std::string(perigee_context_message(context.get())).find("field 'x' has an unknown dtype"), std::string::npos);
  }
}

}  // namespace
