// The parts of the stores that need no server: addresses, signatures, answers in XML. tests/stores has the servers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "src/core/error.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/store/blocks.h"
#include "src/io/store/cached_file.h"
#include "src/io/store/credentials.h"
#include "src/io/store/signature.h"
#include "src/io/store/store.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::string problem_of(const std::string& path) {
  try {
    stat_stored(path);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(StoreUrl, Parts) {
  const StoreUrl url = parse_store_url("SFTP://an%40n:se%3Acret@host.example:2222/a b/c%20d");
  EXPECT_EQ(url.scheme, "sftp");
  EXPECT_EQ(url.user, "an@n");
  EXPECT_EQ(url.password, "se:cret");
  EXPECT_EQ(url.host_and_port(), "host.example:2222");
  EXPECT_EQ(url.path, "/a b/c%20d");
  EXPECT_EQ(url.text.find("cret"), std::string::npos);  // errors show the text
  EXPECT_EQ(parse_store_url("s3://bucket//x/y/").key(), "x/y");
}

TEST(StoreUrl, WhatIsNone) {
  for (const char* path : {"data/x.csv", "/data/x", "c://x", "host:80", "://x", "a b://x"}) EXPECT_FALSE(is_store_path(path)) << path;
  for (const char* path : {"s3://b", "file:///x", "gs://b/k"}) EXPECT_TRUE(is_store_path(path)) << path;
  EXPECT_NE(problem_of("s4://b/k").find("this kind of store is not known; got 's4://'"), std::string::npos) << problem_of("s4://b/k");
  EXPECT_NE(problem_of("s3:///k").find("names no bucket"), std::string::npos);
  EXPECT_NE(problem_of("s3://b:80/k").find("has a port or a user where the bucket stands"), std::string::npos);
  EXPECT_NE(problem_of("https://h:99999/k").find("has a port that is none"), std::string::npos);
  EXPECT_NE(problem_of("https://h x/k").find("has a host that is no name; expected NAME://host/path"), std::string::npos);
  EXPECT_NE(problem_of("https:///k").find("names no host; expected https://host/path"), std::string::npos);
  EXPECT_NE(problem_of("sftp:///k").find("names no host"), std::string::npos);
  EXPECT_NE(problem_of("hdfs:///k").find("names no NameNode"), std::string::npos);
  EXPECT_NE(problem_of("https://h/a\nb").find("has control characters"), std::string::npos);
  EXPECT_NE(problem_of("https://h/" + std::string(5000, 'x')).find("is no address of a file"), std::string::npos);
  EXPECT_NE(problem_of("s3://b/a/../c").find("has '..' in its path; give the path without"), std::string::npos);
  EXPECT_THROW(local_path("file://elsewhere/x"), Error);
  EXPECT_THROW(put_stored("https://h/x", {}), Error);
  EXPECT_THROW(list_stored("https://h/"), Error);
}

TEST(Stores, ListingsHaveABound) {
  const StoreUrl folder = parse_store_url("s3://b/many");
  EXPECT_NO_THROW(check_listing(folder, 4'000'000));
  try {
    check_listing(folder, 4'000'001);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "s3://b/many: the folder has too many entries; expected at most 4000000; put them into folders of fewer files");
  }
}

TEST(Stores, MissingAuthoritiesAreNoBadCertificate) {
  Transfer answer;
  answer.tls = TlsFault::no_authorities, answer.problem = "error setting certificate file: /none.pem";
  try {
    refuse_answer(parse_store_url("https://h/x"), answer);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "https://h/x: the certificates of authorities cannot be read; got error setting certificate file: /none.pem; "
                 "AWS_CA_BUNDLE=FILE names them, as PEM; without it, the system's: apt install ca-certificates");
  }
}

TEST(StoreUrl, PathsWithin) {
  EXPECT_EQ(path_in("/data", "s3://b/k"), "s3://b/k");
  EXPECT_EQ(path_in("s3://b/data/", "./mnist//x.gz"), "s3://b/data/mnist/x.gz");
  EXPECT_EQ(path_in("s3://b", "a/../c"), "s3://b/c");
  EXPECT_EQ(path_in("s3://b", "/local/x"), "/local/x");
  EXPECT_EQ(path_in("/data", "file:///x%20y"), "/x y");
  EXPECT_EQ(path_in("file:///data", "x"), "/data/x");
  EXPECT_THROW(path_in("s3://b/data", "../secret"), Error);
}

TEST(StoreUrl, Escapes) {
  EXPECT_EQ(percent_encoded("a b/c=d~\xc3\xa9", "/"), "a%20b/c%3Dd~%C3%A9");
  EXPECT_EQ(percent_decoded("a%20b%2fc%zz%4"), "a b/c%zz%4");
  EXPECT_EQ(percent_decoded("%41"), "A");
}

TEST(StoreUrl, FilesByAddress) {
  TemporaryFolder folder;
  const std::string address = "file://" + (folder / "x.txt");
  write_file(address, as_bytes("two"));
  EXPECT_TRUE(file_exists(address));
  EXPECT_EQ(as_text(read_file(address)), "two");
  EXPECT_EQ(as_text(MappedFile(address).bytes()), "two");
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, "Examples: Signature calculations".
TEST(AwsSignature, DocumentedByS3) {
  const AwsKeys keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const std::string empty = sha256_hex(std::span<const std::byte>()), body = sha256_hex(as_bytes("Welcome to Amazon S3."));
  const auto signature = [&](const char* method, const char* path, decltype(AwsRequest::query) query, decltype(AwsRequest::headers) headers,
                             const std::string& hash) {
    headers.insert(headers.end(),
                   {{"host", "examplebucket.s3.amazonaws.com"}, {"x-amz-content-sha256", hash}, {"x-amz-date", "20130524T000000Z"}});
    const std::string text = aws_authorization({.method = method,
                                                .path = path,
                                                .query = std::move(query),
                                                .headers = std::move(headers),
                                                .payload_hash = hash,
                                                .region = "us-east-1",
                                                .service = "s3",
                                                .date = "20130524T000000Z"},
                                               keys);
    return text.substr(text.find("Signature=") + 10);
  };
  EXPECT_EQ(signature("GET", "/test.txt", {}, {{"range", "bytes=0-9"}}, empty),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature("PUT", "/test%24file.text", {},
                      {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}, body),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(signature("GET", "/", {{"lifecycle", ""}}, {}, empty), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, empty),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// The suite of test vectors of AWS (aws4_testsuite): names are those of its folders.
TEST(AwsSignature, PublishedSuite) {
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
  const auto signature = [&](const char* method, decltype(AwsRequest::query) query, decltype(AwsRequest::headers) headers) {
    headers.insert(headers.begin(), {"host", "example.amazonaws.com"});
    headers.emplace_back("x-amz-date", "20150830T123600Z");
    const std::string text = aws_authorization({.method = method,
                                                .path = "/",
                                                .query = std::move(query),
                                                .headers = std::move(headers),
                                                .payload_hash = sha256_hex(std::span<const std::byte>()),
                                                .region = "us-east-1",
                                                .service = "service",
                                                .date = "20150830T123600Z"},
                                               keys);
    return text.substr(text.find("Signature=") + 10);
  };
  EXPECT_EQ(signature("GET", {}, {}), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31") << "get-vanilla";
  EXPECT_EQ(signature("POST", {}, {}), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b") << "post-vanilla";
  EXPECT_EQ(signature("GET", {{"Param2", "value2"}, {"Param1", "value1"}}, {}),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500")
      << "get-vanilla-query-order-key-case";
  EXPECT_EQ(signature("GET", {{"Param1", ""}}, {}).size(), 64u);
  EXPECT_EQ(signature("GET", {}, {{"my-header1", "value1"}, {"my-header2", "\"a   b   c\""}}),
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736")
      << "get-header-value-trim";
}

TEST(AwsCredentials, Xml) {
  EXPECT_EQ(xml_text("<Error><Code>NoSuchKey</Code><Message>a &lt;b&gt; &amp;amp;</Message></Error>", "Message"), "a <b> &amp;");
  EXPECT_EQ(xml_text("<Code>x", "Code"), "");
  size_t at = 0;
  std::string text;
  int count = 0;
  while (xml_text("<K>1</K><K>2</K>", "K", at, text)) ++count;
  EXPECT_EQ(count, 2);
}

TEST(CachedFile, DamageIsNoContent) {
  TemporaryFolder folder;
  const std::string path = (folder / "x");
  keep_cached(path, as_bytes("content"));
  Bytes bytes(7);
  EXPECT_TRUE(read_cached(path, bytes));
  EXPECT_EQ(as_text(bytes), "content");
  Bytes other(6);
  EXPECT_FALSE(read_cached(path, other)) << "another size";
  Bytes file = read_file(path);
  file[2] ^= std::byte{1};
  write_file(path, file);
  EXPECT_FALSE(read_cached(path, bytes));
  std::span<const std::byte> content;
  EXPECT_EQ(map_cached(path, 100, &content), nullptr);
}

// Changes a byte and leaves the time as it was, which nothing but a fault of the disk does.
void damage_unseen(const std::string& path, uint64_t offset, char value) {
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, &value, 1, static_cast<off_t>(offset)), 1);
  const timespec times[] = {info.st_atim, info.st_mtim};
  ::futimens(fd, times);
  ::close(fd);
}

TEST(CachedFile, ComparedOnceABoot) {
  TemporaryFolder folder;
  const std::string path = (folder / "x");
  keep_cached(path, as_bytes("content"));
  const size_t boot = read_file(path).size() - 40;
  Bytes bytes(7);
  damage_unseen(path, 1, 'O');
  ASSERT_TRUE(read_cached(path, bytes)) << "this boot has written it: as quick as a local file, and as trusting";
  EXPECT_EQ(as_text(bytes), "cOntent");
  damage_unseen(path, boot, '-');  // another boot: a power cut lies between
  EXPECT_FALSE(read_cached(path, bytes));
  damage_unseen(path, 1, 'o');
  EXPECT_TRUE(read_cached(path, bytes));
  EXPECT_NE(read_file(path)[boot], std::byte{'-'}) << "compared: not again before the next boot";
  damage_unseen(path, 1, 'O');
  EXPECT_TRUE(read_cached(path, bytes));
}

TEST(CachedFile, MapsOverTheCallersPages) {
  TemporaryFolder folder;
  const std::string path = (folder / "x");
  Bytes content(10'000, std::byte{7});
  keep_cached(path, content);
  void* pages = ::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::span<std::byte> into{static_cast<std::byte*>(pages), content.size()};
  EXPECT_FALSE(map_cached_over(path, into.first(9'999))) << "another size";
  EXPECT_FALSE(map_cached_over(folder / "none", into));
  into[0] = std::byte{1};  // still the caller's
  ASSERT_TRUE(map_cached_over(path, into));
  EXPECT_TRUE(std::ranges::equal(into, content));
  ::madvise(pages, 3 * 4096, MADV_DONTNEED);
  EXPECT_TRUE(std::ranges::equal(into, content)) << "a file stands behind it";
  Bytes file = read_file(path);
  file[5] ^= std::byte{1};
  write_file(path, file);
  EXPECT_FALSE(map_cached_over(path, into.first(content.size())));
  ::munmap(pages, 3 * 4096);
}

TEST(CachedFile, Shrinks) {
  TemporaryFolder folder;
  for (int i = 0; i < 10; ++i) keep_cached(folder / ("d/" + std::to_string(i)), Bytes(1000));
  shrink_cache((folder / "d"), 5000);
  int left = 0;
  for (int i = 0; i < 10; ++i) left += file_exists(folder / ("d/" + std::to_string(i)));
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 5);
}

}  // namespace
}  // namespace perigee
