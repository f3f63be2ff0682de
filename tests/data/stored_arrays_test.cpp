// Arrays that a job names instead of holding: where they lie, and that nothing else is opened in their place.
#include "src/data/stored_arrays.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "src/data/source.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/job/job.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

Tensor number_tensor(const Shape& shape, float first = 0) {
  Tensor values(Dtype::f32, shape);
  for (int64_t i = 0; i < values.elements(); ++i) values.data<float>()[i] = first + 0.5f * static_cast<float>(i);
  return values;
}

Json arrays_job(const Json& x, const Json& y) {
  Json source = Json(Json::Object{{"type", "arrays"}, {"x", x}, {"y", y}});
  Json inner = Json(Json::Object{{"type", "take"}, {"count", 4}, {"source", source}});
  return Json(Json::Object{{"network", Json::parse(R"([{"type": "dense", "out": 2}])", "network")},
                           {"data", Json(Json::Object{{"train", source}, {"test", inner}, {"batch", 2}})}});
}

const Json& x_of(const Json& job) { return *job.find("data")->find("train")->find("x"); }

Tensor opened(const Json& name, const std::string& folder = ".") {
  return open_named_array(Config(name, "job: x", ErrorKind::data), folder);
}

std::string failure(const Json& name, const std::string& folder = ".") {
  try {
    opened(name, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.view().data, b.view().data, a.bytes()) == 0;
}

SourcePtr joined(const std::string& first, const std::string& second) {
  const Json json = Json::parse(R"({"type": "concat", "sources": [)" + first + "," + second + "]}", "joined");
  return open_source(Config(json, "joined"), ".");
}

// Each part of a data set counts classes by the labels that it happens to have, unless they have names.
TEST(JoinedArrays, HaveAllClassesOfTheirParts) {
  const std::string two = R"({"type": "arrays", "x": [[1], [2]], "y": [0, 1]})", one = R"({"type": "arrays", "x": [[3]], "y": [0]})";
  EXPECT_EQ(joined(two, one)->fields()[1].classes, 2);
  EXPECT_EQ(joined(one, two)->fields()[1].classes, 2);
  const auto named = [](const char* names) {
    return std::string(R"({"type": "arrays", "x": [[1], [2]], "y": [0, 1], "class_names": [)") + names + "]}";
  };
  EXPECT_EQ(joined(named(R"("cat", "dog")"), named(R"("cat", "dog")"))->fields()[1].classes, 2);
  for (const std::string& other : {named(R"("cat", "fox")"), named(R"("cat", "dog", "fox")"), two})
    EXPECT_THROW(joined(named(R"("cat", "dog")"), other), Error) << other;
}

TEST(StoredArrays, AreFoundInMemoryWhileSomebodyHoldsThem) {
  auto held = std::make_unique<HeldArrays>();
  const Json name = held->hold(number_tensor({6, 3}));
  EXPECT_TRUE(names_array(name));
  EXPECT_TRUE(same(opened(name), number_tensor({6, 3})));
  EXPECT_EQ(held->hold(number_tensor({6, 3})), name) << "a name says the content and nothing else";
  EXPECT_NE(held->hold(number_tensor({3, 6})), name);
  EXPECT_EQ(opened(name).storage(), opened(name).storage()) << "the same numbers lie in memory once";
  HeldArrays later;
  later.hold_named(arrays_job(name, name));
  held.reset();
  EXPECT_TRUE(same(opened(name), number_tensor({6, 3})));
  later = {};
  EXPECT_NE(failure(name).find("neither in memory nor in a file"), std::string::npos) << failure(name);
}

TEST(StoredArrays, AWindowIsHeldWithoutItsTensor) {
  HeldArrays held;
  const Json name = held.hold(number_tensor({8, 2}).rows(2, 4));
  EXPECT_TRUE(same(opened(name), number_tensor({2, 2}, 2)));
}

TEST(StoredArrays, LieInTheRunFolderOnce) {
  const TemporaryFolder folder;
  Json job;
  std::string file;
  {
    HeldArrays held;
    job = arrays_job(held.hold(number_tensor({6, 3})), held.hold(number_tensor({6})));
    store_arrays(job, ".", folder.path());
    file = folder.path() + "/arrays/" + x_of(job).find("hash")->as_string() + ".npy";
    ASSERT_TRUE(file_exists(file));
    EXPECT_TRUE(same(parse_npy(read_file(file), file), number_tensor({6, 3}))) << "a file that NumPy reads";
    struct stat first {
    }, second{};
    ::stat(file.c_str(), &first);
    store_arrays(job, ".", folder.path());
    ::stat(file.c_str(), &second);
    EXPECT_EQ(first.st_ino, second.st_ino) << "it is not written again";
    write_file(file, as_bytes("damaged"));
    store_arrays(job, ".", folder.path());
    EXPECT_TRUE(same(parse_npy(read_file(file), file), number_tensor({6, 3}))) << "a damaged one is";
  }
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() + "/arrays")) files += entry.is_regular_file();
  EXPECT_EQ(files, 2u) << "and no temporary file stays";

  const Json written = with_relative_array_files(job);
  EXPECT_TRUE(same(opened(x_of(written), folder.path()), number_tensor({6, 3}))) << "a job.json beside them";
  fs::rename(folder.path() + "/arrays", folder.path() + "/moved");
  fs::create_directory(folder.path() + "/elsewhere");
  fs::rename(folder.path() + "/moved", folder.path() + "/elsewhere/arrays");
  const Json found = with_array_files(written, folder.path() + "/elsewhere");
  EXPECT_TRUE(same(opened(x_of(found), "/nowhere"), number_tensor({6, 3}))) << "another folder's data, and a run that was moved";
  EXPECT_EQ(with_relative_array_files(found), written) << "where a run lies is not part of its job";
}

TEST(StoredArrays, NothingElseIsOpenedInTheirPlace) {
  const TemporaryFolder folder;
  Json name;
  {
    HeldArrays held;
    name = held.hold(number_tensor({6, 3}));
    store_arrays(arrays_job(name, name), ".", folder.path());
  }
  const std::string hash = name.find("hash")->as_string(), usual = "arrays/" + hash + ".npy", file = folder / usual;
  const auto with = [&](const char* key, Json value) {
    Json changed = name;
    changed.set("file", usual);
    changed.set(key, std::move(value));
    return changed;
  };
  ASSERT_EQ(failure(with("file", usual), folder.path()), "");
  for (const std::string& path : {"../" + usual, "arrays/../../" + usual, std::string("/etc/passwd"), std::string("x.npy"), "sub/" + usual})
    EXPECT_NE(failure(with("file", path), folder.path()).find("leads elsewhere than to an array of a run"), std::string::npos) << path;
  for (const std::string& wrong : {std::string("../../../etc/passwd"), hash.substr(1), hash + "0", "G" + hash.substr(1)})
    EXPECT_NE(failure(with("hash", wrong), folder.path()).find("names no array"), std::string::npos) << wrong;
  EXPECT_NE(failure(with("shape", Json::parse("[6, 4]", "shape")), folder.path()).find("has another size"), std::string::npos);
  EXPECT_NE(failure(with("shape", Json::parse("[3, 6]", "shape")), folder.path()).find("has another type"), std::string::npos);
  EXPECT_NE(failure(with("shape", Json::parse("[4611686018427387904, 4]", "shape")), folder.path()), "");
  EXPECT_NE(failure(with("extra", 1), folder.path()).find("extra"), std::string::npos);

  Bytes bytes = read_file(file);
  bytes.back() ^= std::byte{1};
  write_file(file, bytes);
  const std::string damaged = failure(with("file", usual), folder.path());
  EXPECT_NE(damaged.find("is not the array that the job names"), std::string::npos) << damaged;
  EXPECT_NE(damaged.find(hash), std::string::npos) << damaged;
  EXPECT_NE(damaged.find(file), std::string::npos) << damaged;
  bytes.pop_back();
  write_file(file, bytes);
  EXPECT_NE(failure(with("file", usual), folder.path()).find("has another size"), std::string::npos);
  fs::remove(file);
  EXPECT_NE(failure(with("file", usual), folder.path()).find(file), std::string::npos);
}

// Lists as a JSON or YAML job has them.
Json rows(int64_t count, int64_t width) {
  Json list = Json::array();
  for (int64_t i = 0; i < count; ++i) {
    Json row = Json::array();
    for (int64_t j = 0; j < width; ++j) row.push(0.25 * static_cast<double>(i - j));
    list.push(std::move(row));
  }
  return list;
}

Json class_column(int64_t count) {
  Json list = Json::array();
  for (int64_t i = 0; i < count; ++i) list.push(i % 3);
  return list;
}

TEST(StoredArrays, OfAJobThatHoldsManyNumbersBecomeNames) {
  const Job few(arrays_job(rows(1000, 7), class_column(1000)), "job");
  EXPECT_TRUE(x_of(few.json()).is_array()) << "people can read it";
  const Job many(arrays_job(rows(2000, 7), class_column(2000)), "job");
  EXPECT_TRUE(names_array(x_of(many.json())));
  EXPECT_LT(many.canonical().dump().size(), 2048u);
  const Json train = *many.json().find("data")->find("train");
  const SourcePtr source = open_source(Config(train, "train", ErrorKind::data), ".");
  EXPECT_EQ(source->size(), 2000);
  ASSERT_EQ(source->fields().size(), 2u);
  EXPECT_EQ(source->fields()[1].classes, 3) << "labels stay labels";
  float x[7];
  int64_t y = 0;
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(&y)};
  source->read({.index = 1999}, slots);
  EXPECT_EQ(x[6], 0.25f * (1999 - 6));
  EXPECT_EQ(y, 1999 % 3);

  Job copy = many;
  copy.set("data.batch", "4");
  EXPECT_EQ(x_of(copy.json()), x_of(many.json()));
  Json ragged = rows(2000, 7);
  ragged.as_array()[1234].push(1);
  try {
    Job(arrays_job(ragged, class_column(2000)), "job");
    ADD_FAILURE() << "rows of unequal length";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("job: data.train: 'x' has rows of unequal length"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace perigee
