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

std::string safetensors_refusal(std::span<const std::byte> bytes) {
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
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(safetensors_refusal(std::span(bytes).first(n)), "accepted") << n;
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_NE(safetensors_refusal(longer), "accepted");
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
  EXPECT_EQ(safetensors_refusal(file_of(R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 8)), "accepted");
  struct Hostile {
    std::string header;
    size_t data;
    const char* says;
  };
  for (const auto& [header, data, says] : std::vector<Hostile>{
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,4]}})", 4,
            "has data of another size than its shape; got 4 bytes, expected 8 bytes"},
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[4,12]}})", 12, "leaves a hole before it"},
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 12, "has bytes after the last tensor"},
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 4, "is truncated; got 4 bytes of data, expected 8"},
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]},"b":{)" + f32 + R"([2],"data_offsets":[0,8]}})", 8,
            "overlaps the one before it"},
           {R"({"a":{)" + f32 + R"([2],"data_offsets":[0,8]},"b":{)" + f32 + R"([2],"data_offsets":[4,12]}})", 12,
            "overlaps the one before it"},
           {R"({"a":{)" + f32 + R"([1],"data_offsets":[0,4]},"a":{)" + f32 + R"([1],"data_offsets":[4,8]}})", 8, "'a' appears twice"},
           {R"({"a":{)" + f32 + R"([4611686018427387904,4],"data_offsets":[0,0]}})", 0, "is too large to be"},
           {R"({"a":{)" + f32 + R"([-1],"data_offsets":[0,-4]}})", 0, "has a dimension that is no size; got -1"},
           {R"({"a":{)" + f32 + R"([1],"data_offsets":[4,0]}})", 4, "has data_offsets that are no range"},
           {R"({"a":{)" + f32 + R"([1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "has too many dimensions"},
           {R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,4]}})", 4, "has an unknown dtype; got F8"},
           {R"({"a":{)" + f32 + R"([1],"data_offsets":[0,4],"more":1}})", 4, "must have exactly the keys dtype, shape and data_offsets"},
           {R"({"a":3})", 0, "is no object"},
           {R"({"__metadata__":{"a":1}})", 0, "has a metadata value that is no string"},
           {R"({"__metadata__":[]})", 0, "has metadata that are no object"},
           {R"({"__metadata__":{"xxh3":"0"}})", 0, "has a digest that is none"},
           {R"({"__metadata__":{"xxh3":"00000000000000000000000000000001"}})", 0, "does not match its digest"},
           {R"([])", 0, "has a header that is no object"},
           {R"({} )"
            "\n{}",
            0, "not JSON"}})
    EXPECT_NE(safetensors_refusal(file_of(header, data)).find(says), std::string::npos)
        << header << ": " << safetensors_refusal(file_of(header, data));
  EXPECT_NE(safetensors_refusal({}).find("is too short; got 0 bytes, expected at least 8"), std::string::npos);
  Bytes cut = file_of("{}", 0);
  cut.pop_back();
  EXPECT_NE(safetensors_refusal(cut).find("is truncated inside its header"), std::string::npos);
  EXPECT_NE(safetensors_refusal(cut).find("the file is damaged or no safetensors file; use an older checkpoint or write it again"),
            std::string::npos);
  Bytes huge(64);
  const uint64_t length = uint64_t{1} << 62;
  std::memcpy(huge.data(), &length, 8);
  EXPECT_NE(safetensors_refusal(huge).find("has a header that is too long"), std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 65537; ++i) many += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string too_many = safetensors_refusal(file_of(many + "}", 0));
  EXPECT_NE(too_many.find("has too many tensors"), std::string::npos) << too_many;
  std::string list = "[0";
  for (int i = 0; i < 1'500'000; ++i) list += ",0";
  EXPECT_NE(safetensors_refusal(file_of(list + "]", 0)).find("too many values"), std::string::npos);
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
