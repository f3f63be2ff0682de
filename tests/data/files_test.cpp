// Sources that read files: what they infer, and what damage does to them.
#include <gtest/gtest.h>

#include <cstring>

#include "src/data/loader.h"
#include "src/io/archive/tar.h"
#include "src/io/codec/compress.h"
#include "src/io/npy.h"
#include "tests/data/fixtures.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::string file_refusal(const std::string& json, const std::string& folder) {
  try {
    open_parsed(json, folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    return error.what();
  }
  return "accepted";
}

std::pair<std::vector<float>, int64_t> read_labelled(const DataSource& source, int64_t index) {
  std::vector<float> x(static_cast<size_t>(source.fields()[0].shape.elements()));
  int64_t y = -1;
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y)};
  source.read({.index = index}, std::span(slots, source.fields().size()));
  return {x, y};
}

TEST(CsvSource, InfersTypesAndKeepsThemForOtherParts) {
  const TemporaryFolder folder;
  source_examples(folder.path());
  const SourcePtr train = open_parsed(R"({"type":"csv","file":"t.csv","missing":"mean"})", folder.path());
  ASSERT_EQ(train->size(), 4);
  EXPECT_EQ(train->fields()[0].shape, (Shape{5}));
  EXPECT_EQ(train->fields()[1].class_names, (std::vector<std::string>{"cat", "dog", "emu"}));
  EXPECT_EQ(read_labelled(*train, 0).first, (std::vector<float>{1, 0, 0, 1, .5f}));  // age, blue, green, red, weight
  EXPECT_EQ(read_labelled(*train, 1).first[4], 4.f / 3) << "the mean of the others";
  EXPECT_EQ(read_labelled(*train, 3).second, 2);
  write_file(folder / "test.csv", as_bytes("age,colour,weight,kind\n7,pink,NA,emu\n"));
  const Json test = Json::parse(R"({"type":"csv","file":"test.csv","missing":"mean"})", "t");
  const SourcePtr other = open_json(with_fitted(test, train->traits().fitted), folder.path());
  EXPECT_EQ(read_labelled(*other, 0).first, (std::vector<float>{7, 0, 0, 0, 4.f / 3})) << "an unknown colour is none";
  EXPECT_EQ(read_labelled(*other, 0).second, 2);
  write_file(folder / "test.csv", as_bytes("age,colour,weight,kind\n7,pink,1,camel\n"));
  EXPECT_THROW(open_json(with_fitted(test, train->traits().fitted), folder.path()), Error);
}

TEST(CsvSource, NamesRowAndColumn) {
  const TemporaryFolder folder;
  source_examples(folder.path());
  EXPECT_NE(file_refusal(R"({"type":"csv","file":"t.csv"})", folder.path()).find("t.csv:3: column 'weight'"), std::string::npos);
  EXPECT_EQ(open_parsed(R"({"type":"csv","file":"t.csv","missing":"skip"})", folder.path())->size(), 3);
  EXPECT_NE(file_refusal(R"({"type":"csv","file":"t.csv","target":"knid","missing":"mean"})", folder.path()).find("did you mean 'kind'"),
            std::string::npos);
  EXPECT_EQ(open_parsed(R"({"type":"csv","file":"t.csv","target":"age","task":"regress","drop":["kind","colour"],"missing":"mean"})",
                        folder.path())
                ->fields()[1]
                .dtype,
            Dtype::f32);
  EXPECT_EQ(open_parsed(R"({"type":"csv","file":"t.csv","target":false,"features":["age"]})", folder.path())->fields().size(), 1u);
  EXPECT_NE(file_refusal(R"({"type":"csv","file":"t.csv","target":9})", folder.path()), "accepted");
  write_file(folder / "bad.csv", as_bytes("1,2\n3\n"));
  EXPECT_NE(file_refusal(R"({"type":"csv","file":"bad.csv"})", folder.path()).find("bad.csv:2"), std::string::npos);
}

// Cut at every length, a file gives an Error that names it, or (text) a shorter table; never anything else.
TEST(EveryFile, CutShortAnywhereIsACleanError) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const auto examples = source_examples(folder.path());
  const std::pair<const char*, const char*> files[] = {{"idx", "x.idx.gz"}, {"idx", "y.idx"},
                                                       {"npy", "x.npy"},    {"npy", "y.npy"},
                                                       {"npz", "d.npz"},    {"cifar10", "cifar/cifar-10-batches-bin/data_batch_2.bin"}};
  for (const auto& [type, name] : files) {
    const Bytes whole = read_file(folder / name);
    const Json& json = examples.at(type);
    for (size_t n = 0; n<whole.size(); n += whole.size()> 2000 ? 97 : 1) {
      const std::span<const std::byte> part = std::span(whole).first(n);
      write_file(folder / name, std::span(&part, 1), false);
      if (std::string(type) == "cifar10" && n % 3073 == 0 && n > 0) continue;
      try {
        open_json(json, folder.path());
        ADD_FAILURE() << name << " cut to " << n << " bytes was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
        EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      }
    }
    write_file(folder / name, whole);
    EXPECT_NO_THROW(open_json(json, folder.path()));
  }
}

TEST(ImageSource, NamesTheDamagedFileWhenItIsRead) {
  const TemporaryFolder folder;
  source_examples(folder.path());
  const SourcePtr source = open_parsed(R"({"type":"images","folder":"pets","size":8,"channels":1})", folder.path());
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->fields()[1].class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(read_labelled(*source, 2).second, 1);
  write_file(folder / "pets/cat/2.jpg", as_bytes("\xff\xd8\xff nonsense"));
  Loader loader(source, {.batch = 3, .shuffle = false, .threads = 1});
  try {
    loader.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pets/cat/2.jpg"), std::string::npos) << error.what();
  }
  EXPECT_NE(file_refusal(R"({"type":"images","folder":"absent","size":8})", folder.path()), "accepted");
  EXPECT_NE(file_refusal(R"({"type":"images","folder":"pets"})", folder.path()).find("'size' is missing"), std::string::npos);
}

std::string real_data() {
  const char* folder = std::getenv("PERIGEE_DATA");
  return folder == nullptr ? "" : folder;
}

#define NEEDS_REAL_DATA() \
  if (real_data().empty()) GTEST_SKIP() << "PERIGEE_DATA is not set: no real data"

TEST(RealData, Cifar10) {
  NEEDS_REAL_DATA();
  const TemporaryFolder folder;
  const CacheFolder cache(folder.path());
  const SourcePtr test = open_parsed(R"({"type":"cifar10","part":"test"})", ".");
  EXPECT_EQ(test->size(), 1000);
  EXPECT_TRUE(test->traits().cheap);
  EXPECT_EQ(test->fields()[1].class_names[read_labelled(*test, 0).second], "cat");
  const SourcePtr train = open_parsed(R"({"type":"cifar10"})", ".");
  EXPECT_GE(train->size(), 10000);
  const SourcePtr standardized =
      open_parsed(R"({"type":"map","source":{"type":"cifar10","part":"test"},"transforms":[{"type":"standardize"}]})", ".");
  const Json fitted = standardized->traits().fitted.find("transforms")->as_array()[0];
  EXPECT_NEAR(fitted.find("mean")->as_array()[0].as_number(), .4914, .01);
  EXPECT_NEAR(fitted.find("std")->as_array()[2].as_number(), .2616, .01);
}

TEST(RealData, Tables) {
  NEEDS_REAL_DATA();
  const std::string tables = real_data() + "/tabular";
  const SourcePtr iris = open_parsed(R"({"type":"csv","file":"iris.csv"})", tables);
  EXPECT_EQ(iris->size(), 150);
  EXPECT_EQ(iris->fields()[0].shape, (Shape{4}));
  EXPECT_EQ(iris->fields()[1].class_names, (std::vector<std::string>{"Iris-setosa", "Iris-versicolor", "Iris-virginica"}));
  const SourcePtr housing = open_parsed(R"({"type":"csv","file":"housing.csv"})", tables);
  EXPECT_EQ(housing->size(), 506);
  EXPECT_EQ(housing->fields()[1].shape, (Shape{1}));
  const SourcePtr covtype = open_parsed(R"({"type":"csv","file":"covtype.20k.data.gz"})", tables);
  EXPECT_EQ(covtype->size(), 20000);
  EXPECT_EQ(covtype->fields()[1].classes, 7);
  const SourcePtr adult = open_parsed(R"({"type":"csv","file":"adult-train.csv.gz","missing":"skip"})", tables);
  EXPECT_EQ(adult->size(), 30162);
  EXPECT_EQ(adult->fields()[1].class_names, (std::vector<std::string>{"<=50K", ">50K"}));
}

TEST(RealData, FolderOfJpegs) {
  NEEDS_REAL_DATA();
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::string tar = real_data() + "/cifar10/cifar10_jpeg_subset.tar.gz";
  const Bytes archive = gunzip(read_file(tar), tar, uint64_t{1} << 30);
  for (const TarEntry& entry : tar_entries(archive, tar))
    if (entry.name.starts_with("cifar10_jpeg/test/") && entry.name.find("..") == std::string::npos)
      write_file(folder / entry.name, std::span(&entry.content, 1), false);
  const SourcePtr source = open_parsed(R"({"type":"images","folder":"cifar10_jpeg/test","size":32})", folder.path());
  EXPECT_EQ(source->size(), 300);
  EXPECT_EQ(source->fields()[1].classes, 10);
  Loader loader(source, {.batch = 50, .threads = 2});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(loader.next().size, 50);
}

TEST(RealData, NumpyFiles) {
  NEEDS_REAL_DATA();
  int arrays = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(real_data() + "/models/numpy")) {
    const std::string path = entry.path().string();
    if (path.ends_with(".npy")) arrays += parse_npy(read_file(path), path).defined();
    if (path.ends_with(".npz")) arrays += static_cast<int>(parse_npz(read_file(path), path).size());
  }
  EXPECT_GT(arrays, 20);
}

}  // namespace
}  // namespace perigee
