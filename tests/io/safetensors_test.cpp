#include "src/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "src/core/error.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::vector<NamedTensor> tensors() {
  return {{"conv1.weight", Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
          {"empty", Tensor(Dtype::f64, {0, 7})},
          {"step", Tensor::from<int64_t>({}, {42})},
          {"mask", Tensor::from<uint8_t>({5}, {1, 0, 1, 1, 0})}};
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    parse_safetensors(bytes, "m.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::model) << error.what();
    return error.what();
  }
  return "accepted";
}

Bytes file_of(const std::string& header, size_t data) {
  Bytes bytes(8 + header.size() + data);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

TEST(Safetensors, RoundTrips) {
  const Bytes bytes = safetensors_bytes(tensors(), {{"job", "{\"name\": \"é\"}"}});
  const Safetensors file = parse_safetensors(bytes, "t");
  ASSERT_EQ(file.tensors.size(), 4u);
  EXPECT_EQ(file.metadata.at("job"), "{\"name\": \"é\"}");
  EXPECT_EQ(file.find("conv1.weight")->data<float>()[5], 6.f);
  EXPECT_EQ(file.find("step")->data<int64_t>()[0], 42);
  EXPECT_EQ(file.find("empty")->shape(), (Shape{0, 7}));
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST(Safetensors, EveryTruncationAndEveryFlippedBitIsNoticed) {
  const Bytes bytes = safetensors_bytes(tensors(), {{"a", "b"}});
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(refusal(std::span(bytes).first(n)), "accepted") << n;
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal(longer), "accepted");
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    Bytes damaged = bytes;
    damaged[i / 8] ^= std::byte(1 << (i % 8));
    // A flip in the digest's own key leaves a file without a digest: what needs one (models, checkpoints) asks for it.
    try {
      EXPECT_FALSE(parse_safetensors(damaged, "t").metadata.contains("xxh3")) << "bit " << i;
    } catch (const Error&) {}
  }
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string f32 = R"("dtype":"F32","shape":)";
  EXPECT_EQ(refusal(file_of(R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 8)), "accepted");
  for (const auto& [header, data] : std::vector<std::pair<std::string, size_t>>{
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,4]}})", 4},                                                 // another size
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[4,12]}})", 12},                                               // a hole
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 12},                                                // trailing bytes
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]},"b":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 8},    // overlap
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]},"b":{)" + f32 + R"([2],"data_offsets":[4,12]}})", 12},  // overlap
           {R"({"a":{)" + f32 + R"([1],"data_offsets":[0,4]},"a":{)" + f32 + R"([1],"data_offsets":[4,8]}})", 8},    // duplicate
           {R"({"a":{)" + f32 + R"([4611686018427387904,4],"data_offsets":[0,0]}})", 0},                             // overflow
           {R"({"a":{)" + f32 + R"([-1],"data_offsets":[0,-4]}})", 0},                                               // negative
           {R"({"a":{)" + f32 + R"([1],"data_offsets":[4,0]}})", 4},                                                 // backwards
           {R"({"a":{)" + f32 + R"([1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4},                                 // rank
           {R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,4]}})", 4},                                          // type
           {R"({"a":{)" + f32 + R"([1],"data_offsets":[0,4],"more":1}})", 4},                                        // key
           {R"({"__metadata__":{"a":1}})", 0},                                                                       // metadata
           {R"([])", 0},
           {R"({} )"
            "\n{}",
            0}})
    EXPECT_NE(refusal(file_of(header, data)), "accepted") << header;
  Bytes huge(64);
  const uint64_t length = uint64_t{1} << 62;
  std::memcpy(huge.data(), &length, 8);
  EXPECT_NE(refusal(huge), "accepted");
  std::string many = "{";
  for (int i = 0; i < 65537; ++i) many += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string too_many = refusal(file_of(many + "}", 0));
  EXPECT_NE(too_many.find("too many"), std::string::npos) << too_many;
  std::string list = "[0";
  for (int i = 0; i < 1'500'000; ++i) list += ",0";
  EXPECT_NE(refusal(file_of(list + "]", 0)).find("too many values"), std::string::npos);
}

// A limit on the size of files makes a write fail half-way, as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(Safetensors, AFullDiskLeavesTheOldFileIntact) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  write_safetensors(path, tensors(), {});
  const std::vector<NamedTensor> large = {{"x", Tensor(Dtype::f32, {1000, 100})}};
  {
    const FileSizeLimit limit(4096);
    try {
      write_safetensors(path, large, {});
      ADD_FAILURE() << "written past the limit";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::resources);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
  EXPECT_EQ(read_safetensors(path).tensors.size(), 4u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "no temporary file stays behind";
  write_safetensors(path, large, {});
  EXPECT_EQ(read_safetensors(path).tensors.size(), 1u);
}

}  // namespace
}  // namespace perigee
