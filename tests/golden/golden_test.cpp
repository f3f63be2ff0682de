// Ten steps of small networks give PyTorch's losses: layers, gradients and optimiser together. make_golden.py wrote the numbers and
// says how weights and batches are made.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/io/file.h"
#include "src/train/trainer.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

constexpr double kTolerance = 5e-5;  // relative; PyTorch's own float32 strays by 2e-7 from its float64

// Element i of stream s, in [0, 1): the formula of make_golden.py.
double uniform(uint32_t stream, uint32_t i) {
  uint32_t h = (i + 1) * 0x9E3779B9u + (stream + 1) * 0x85EBCA6Bu;
  h ^= h >> 16;
  h *= 0x7FEB352Du;
  h ^= h >> 15;
  h *= 0x846CA68Bu;
  h ^= h >> 16;
  return h / 4294967296.0;
}

void append_big_endian(Bytes* bytes, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes->push_back(static_cast<std::byte>(value >> shift));
}

enum class IdxType : uint32_t { u8 = 0x08, i32 = 0x0C, f32 = 0x0D };

Bytes idx_header(IdxType type, const std::vector<int64_t>& dims) {
  Bytes bytes;
  append_big_endian(&bytes, static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(dims.size()));
  for (const int64_t dim : dims) append_big_endian(&bytes, static_cast<uint32_t>(dim));
  return bytes;
}

struct Case {
  const Json& description;
  const Json& at(const char* key) const { return *description.find(key); }
  const Json::Array& losses() const { return at("losses").as_array(); }
  int64_t examples() const { return static_cast<int64_t>(losses().size()) * at("batch").as_int(); }
};

Bytes inputs_of(const Case& golden) {
  std::vector<int64_t> dims{golden.examples()};
  int64_t elements = golden.examples();
  for (const Json& dim : golden.at("input").as_array()) {
    dims.push_back(dim.as_int());
    elements *= dim.as_int();
  }
  const Json& vocabulary = golden.at("vocabulary");
  Bytes bytes = idx_header(vocabulary.is_null() ? IdxType::f32 : IdxType::i32, dims);
  for (int64_t i = 0; i < elements; ++i) {
    const double u = uniform(100, static_cast<uint32_t>(i));
    if (!vocabulary.is_null()) {
      append_big_endian(&bytes, static_cast<uint32_t>(u * vocabulary.as_number()));
      continue;
    }
    const auto value = static_cast<float>(2 * u - 1);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    append_big_endian(&bytes, bits);
  }
  return bytes;
}

Bytes labels_of(const Case& golden) {
  Bytes bytes = idx_header(IdxType::u8, {golden.examples()});
  const double classes = golden.at("classes").as_number();
  for (int64_t i = 0; i < golden.examples(); ++i) bytes.push_back(static_cast<std::byte>(uniform(101, static_cast<uint32_t>(i)) * classes));
  return bytes;
}

Job job_of(const Case& golden, const std::string& folder) {
  write_file(folder + "/x.idx", inputs_of(golden));
  write_file(folder + "/y.idx", labels_of(golden));
  const Json source(Json::Object{{"type", "idx"}, {"x", "x.idx"}, {"y", "y.idx"}, {"classes", golden.at("classes")}});
  const Json data(Json::Object{{"train", source}, {"batch", golden.at("batch")}, {"shuffle", false}});
  const Json job(Json::Object{{"perigee", 1},
                              {"name", golden.at("name")},
                              {"network", golden.at("network")},
                              {"loss", "cross_entropy"},
                              {"optimizer", golden.at("optimizer")},
                              {"data", data},
                              {"epochs", 1},
                              {"seed", 1}});
  return Job(job, golden.at("name").as_string(), folder);
}

void fill(const Case& golden, Params* params) {
  const Json::Array& wanted = golden.at("parameters").as_array();
  ASSERT_EQ(params->specs().size(), wanted.size());
  for (size_t k = 0; k < wanted.size(); ++k) {
    const Json& entry = wanted[k];
    std::vector<int64_t> dims;
    for (const Json& dim : entry.find("shape")->as_array()) dims.push_back(dim.as_int());
    ASSERT_EQ(params->specs()[k].shape.vector(), dims) << params->specs()[k].name << " is " << entry.find("torch_name")->as_string();
    const double scale = entry.find("scale")->as_number(), offset = entry.find("offset")->as_number();
    const auto stream = static_cast<uint32_t>(entry.find("stream")->as_int());
    float* to = params->parameter_tensor(static_cast<int>(k)).data<float>();
    for (int64_t i = 0; i < params->specs()[k].shape.elements(); ++i)
      to[i] = static_cast<float>(offset + scale * (2 * uniform(stream, static_cast<uint32_t>(i)) - 1));
  }
}

Json read_golden() {
  const Bytes bytes = read_file(PERIGEE_TEST_FOLDER "/golden.json");
  return Json::parse(as_text(bytes), "golden.json");
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void compare(const TrainerOptions& options) {
    const Json file = read_golden();
    for (const Json& description : file.find("cases")->as_array()) {
      const Case golden{description};
      if (golden.at("name").as_string() != GetParam()) continue;
      const TemporaryFolder folder;
      Trainer trainer(job_of(golden, folder.path()), options);
      ASSERT_NO_FATAL_FAILURE(fill(golden, &trainer.model().params()));
      for (size_t step = 0; step < golden.losses().size(); ++step) {
        const double expected = golden.losses()[step].as_number();
        EXPECT_NEAR(trainer.step().loss, expected, kTolerance * std::abs(expected)) << "step " << step + 1;
      }
      return;
    }
    FAIL() << "golden.json has no case " << GetParam();
  }
};

TEST_P(Golden, FirstLossesArePyTorchs) { compare({.threads = 1}); }
TEST_P(Golden, TwoThreadsGiveThemToo) { compare({.threads = 2}); }
TEST_P(Golden, ReferenceKernelsGiveThemToo) { compare({.threads = 1, .backend = Backend::ref}); }

INSTANTIATE_TEST_SUITE_P(Networks, Golden, testing::Values("mlp", "lenet", "residual", "tokens"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace perigee
