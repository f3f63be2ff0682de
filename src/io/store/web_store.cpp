// https://host/path and http://: files of web servers, to read. Folders cannot be listed.
#include <cstdlib>

#include "src/core/error.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

[[noreturn]] void read_only(const StoreUrl& url) {
  throw Error(ErrorKind::usage, {.where = url.text,
                                 .what = "files of web servers can only be read",
                                 .expected = "s3://, hdfs://, sftp:// or a local path to write to"});
}

class WebStore final : public Store {
 public:
  // The first byte is asked for: the answer says how large the file is, and whether the server sends parts of it.
  StoredInfo stat(const StoreUrl& url) override {
    Transfer first = request(url);
    first.headers = {"Range: bytes=0-0"};
    first.limit = 1;
    perform(first, url.text);
    StoredInfo info{StoredKind::file, 0, first.header("etag")};
    if (info.version.empty()) info.version = first.header("last-modified");
    if (info.version.starts_with("W/")) info.version = first.header("last-modified");
    if (first.status == 404 || first.status == 410) return {};
    if (first.status == 416) return info;  // there is no first byte
    if (first.status == 206) {
      const std::string range = first.header("content-range");
      const size_t slash = range.find('/');
      if (slash == std::string::npos || range.find_first_not_of("0123456789", slash + 1) != std::string::npos || slash + 1 == range.size())
        refuse_without_size(url);
      info.size = std::strtoull(range.c_str() + slash + 1, nullptr, 10);
      return info;
    }
    if (first.status != 200) refuse(url, first);
    if (first.header("content-length").empty()) refuse_without_size(url);
    info.size = std::strtoull(first.header("content-length").c_str(), nullptr, 10);
    info.whole = true;
    return info;
  }

  std::shared_ptr<Transfer> reading(const StoreUrl& url, uint64_t offset, uint64_t size, const StoredInfo& info) override {
    auto transfer = std::make_shared<Transfer>(request(url));
    if (!info.whole) {
      transfer->ranged = true;
      transfer->headers = {"Range: bytes=" + std::to_string(offset) + "-" + std::to_string(offset + size - 1)};
      // 412 says that it is another file by now.
      if (info.version.starts_with('"')) transfer->headers.push_back("If-Match: " + info.version);
      else if (!info.version.empty()) transfer->headers.push_back("If-Unmodified-Since: " + info.version);
    }
    return transfer;
  }

  [[noreturn]] void refuse(const StoreUrl& url, Transfer& answer) override {
    if (answer.status == 404 || answer.status == 410) refuse_missing(url);
    if (answer.status == 401 || answer.status == 403)
      throw Error(ErrorKind::authentication, {.where = url.text,
                                              .what = "access is denied",
                                              .got = "HTTP status " + std::to_string(answer.status),
                                              .hint = "https://user:password@host/… logs in; a signed address may have expired"});
    refuse_answer(url, answer);
  }

  std::vector<StoredEntry> list(const StoreUrl& url) override {
    throw Error(ErrorKind::usage, {.where = url.text,
                                   .what = "folders of web servers cannot be listed",
                                   .expected = "the address of one file",
                                   .hint = "folders can be read from s3://, hdfs:// and sftp://"});
  }
  bool put(const StoreUrl& url, std::span<const std::span<const std::byte>>, const PutCondition&) override { read_only(url); }
  void remove(const StoreUrl& url) override { read_only(url); }

 private:
  static Transfer request(const StoreUrl& url) {
    if (url.host.empty())
      throw Error(ErrorKind::usage, {.where = url.text, .what = "names no host", .expected = url.scheme + "://host/path"});
    Transfer transfer;
    transfer.url = url.scheme + "://" + url.host_and_port() + percent_encoded(url.path, "/%?&=+:@!$'()*,;[]");
    transfer.user = url.user, transfer.password = url.password;
    transfer.redirects = 5;
    return transfer;
  }
};

}  // namespace

std::unique_ptr<Store> make_web_store(const StoreUrl&) { return std::make_unique<WebStore>(); }

}  // namespace perigee
