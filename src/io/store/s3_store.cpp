// s3://bucket/key: Amazon S3 and servers that speak its protocol (AWS_ENDPOINT_URL).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/io/store/credentials.h"
#include "src/io/store/s3_listing.h"
#include "src/io/store/signature.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

using Query = std::vector<std::pair<std::string, std::string>>;
using S3StorePieces = std::vector<std::span<const std::byte>>;

constexpr uint64_t kMultipartFrom = uint64_t{64} << 20, kLeastPart = uint64_t{16} << 20, kMostParts = 10000;
constexpr const char* kEmptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr size_t kPageBytes = 8 << 20;

uint64_t size_of(std::span<const std::span<const std::byte>> pieces) {
  uint64_t size = 0;
  for (const auto& piece : pieces) size += piece.size();
  return size;
}

// Bytes [begin, begin + size) of the pieces.
S3StorePieces s3_store_part_of(std::span<const std::span<const std::byte>> pieces, uint64_t begin, uint64_t size) {
  S3StorePieces part;
  for (const auto& piece : pieces) {
    if (begin >= piece.size()) {
      begin -= piece.size();
      continue;
    }
    const uint64_t count = std::min<uint64_t>(size, piece.size() - begin);
    if (count > 0) part.push_back(piece.subspan(begin, count));
    begin = 0, size -= count;
  }
  return part;
}

class S3Store final : public Store {
 public:
  explicit S3Store(const StoreUrl& url) : bucket_(url.host), settings_(aws_settings()), now_{settings_.region} {
    if (bucket_.empty()) throw Error(ErrorKind::usage, {.where = url.text, .what = "names no bucket", .expected = "s3://bucket/key"});
    if (url.port != 0 || !url.user.empty())
      throw Error(ErrorKind::usage, {.where = url.text,
                                     .what = "has a port or a user where the bucket stands",
                                     .expected = "s3://bucket/key",
                                     .hint = "AWS_ENDPOINT_URL=http://host:port names another server than Amazon's"});
    if (!settings_.endpoint.empty() && !settings_.endpoint.starts_with("http://") && !settings_.endpoint.starts_with("https://"))
      throw Error(ErrorKind::usage, {.where = "AWS_ENDPOINT_URL",
                                     .what = "is no address",
                                     .got = settings_.endpoint,
                                     .expected = "https://host or http://host:port"});
    const char* style = std::getenv("PERIGEE_S3_STYLE");
    const std::string given = style != nullptr ? style : "";
    if (!given.empty() && given != "path" && given != "virtual")
      throw Error(ErrorKind::usage,
                  {.where = "PERIGEE_S3_STYLE", .what = "is unknown", .got = "'" + given + "'", .expected = "path or virtual"});
    // A bucket's name with a dot fits no certificate.
    path_style_ = given.empty() ? !settings_.endpoint.empty() || bucket_.find('.') != std::string::npos : given == "path";
  }

  StoredInfo stat(const StoreUrl& url) override {
    if (url.key().empty()) return stat_bucket(url);
    Transfer head = request("HEAD", key_of(url));
    perform(head, url.text);
    if (!head.ok() && head.status != 404) ask_why(url, head);
    if (head.status == 200 && head.problem.empty()) {
      if (head.length < 0) refuse_without_size(url);
      return {StoredKind::file, static_cast<uint64_t>(head.length), version_of(head)};
    }
    if (head.status != 404) refuse(url, head);
    Query query = listing_query(url.key() + "/");
    query.emplace_back("max-keys", "1");
    Transfer page = request("GET", "", query);
    perform(page, url.text);
    check_page(url, page);
    const std::string_view xml = as_text(page.content);
    return {xml.find("<Key>") != std::string_view::npos || xml.find("<CommonPrefixes>") != std::string_view::npos ? StoredKind::folder
                                                                                                                  : StoredKind::none};
  }

  std::shared_ptr<Transfer> reading(const StoreUrl& url, uint64_t offset, uint64_t size, const StoredInfo& info) override {
    std::vector<std::string> headers = {"Range: bytes=" + std::to_string(offset) + "-" + std::to_string(offset + size - 1)};
    if (!info.version.empty()) headers.push_back("If-Match: " + info.version);
    auto transfer = std::make_shared<Transfer>(request("GET", key_of(url), {}, std::move(headers)));
    transfer->ranged = true;
    return transfer;
  }

  std::vector<StoredEntry> list(const StoreUrl& url) override {
    const std::string prefix = url.key().empty() ? "" : url.key() + "/";
    std::vector<StoredEntry> entries;
    std::string token;
    do {
      Query query = listing_query(prefix);
      if (!token.empty()) query.emplace_back("continuation-token", token);
      Transfer page = request("GET", "", query);
      page.limit = kPageBytes;
      perform(page, url.text);
      check_page(url, page);
      read_s3_page(as_text(page.content), prefix, entries);
      check_listing(url, entries.size());
      const std::string next = xml_text(as_text(page.content), "NextContinuationToken");
      const bool more = xml_text(as_text(page.content), "IsTruncated") == "true";
      if (more && (next.empty() || next == token)) refuse_listing(url, "a part of it, and no way to the rest");
      token = more ? next : "";
    } while (!token.empty());
    return entries;
  }

  std::optional<std::vector<StoredEntry>> list_from(const StoreUrl& url, size_t most) override {
    const std::string key = key_of(url), prefix = key.substr(0, key.rfind('/') + 1);
    if (key.size() == prefix.size()) return std::nullopt;
    Query query = listing_query(prefix);
    query.emplace_back("max-keys", std::to_string(most));
    query.emplace_back("start-after", key.substr(0, key.size() - 1));  // sorts just before it
    Transfer page = request("GET", "", query);
    page.limit = kPageBytes;
    page.tries = 1;
    perform(page, url.text);
    std::vector<StoredEntry> entries;
    const std::string code = xml_text(as_text(page.content), "Code");
    if (page.too_long || (page.status == 403 && (code.empty() || code == "AccessDenied"))) return std::nullopt;
    if (!page.ok() || !page.problem.empty()) return entries;  // keys, clock or region may be mended by then
    read_s3_page(as_text(page.content), prefix, entries);
    return entries;
  }

  bool put(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces, const PutCondition& condition) override {
    if (url.key().empty()) throw Error(ErrorKind::usage, {.where = url.text, .what = "names no file in the bucket"});
    std::vector<std::string> headers;
    if (condition.absent) headers.emplace_back("If-None-Match: *");
    if (!condition.version.empty()) headers.push_back("If-Match: " + condition.version);
    const uint64_t size = size_of(pieces);
    if (size >= kMultipartFrom) return put_parts(url, pieces, size, std::move(headers));
    Transfer transfer = request("PUT", key_of(url), {}, std::move(headers), S3StorePieces(pieces.begin(), pieces.end()), true);
    transfer.fresh = condition.absent || !condition.version.empty();
    perform(transfer, url.text);
    return written(url, transfer, condition, pieces);
  }

  void remove(const StoreUrl& url) override {
    Transfer transfer = request("DELETE", key_of(url));
    perform(transfer, url.text);
    if (!transfer.ok() && transfer.status != 404) refuse(url, transfer);
  }

  [[noreturn]] void refuse(const StoreUrl& url, Transfer& answer) override {
    if (answer.status == 0 || answer.status == 429 || answer.status >= 500 || !answer.problem.empty()) refuse_answer(url, answer);
    const std::string_view xml = as_text(answer.content);
    const std::string code = xml_text(xml, "Code"), message = xml_text(xml, "Message").substr(0, 300);
    struct Meaning {
      const char *code, *what, *hint;
      ErrorKind kind;
    };
    static constexpr Meaning kMeanings[] = {
        {"InvalidAccessKeyId", "the store does not know this access key", "check the keys, and AWS_ENDPOINT_URL",
         ErrorKind::authentication},
        {"SignatureDoesNotMatch", "the secret key is not that of the access key", "check AWS_SECRET_ACCESS_KEY", ErrorKind::authentication},
        {"ExpiredToken", "the session's credentials have expired",
         "get new ones: `aws sso login`, `aws sts assume-role`, or a role of the machine", ErrorKind::authentication},
        {"InvalidToken", "the session token is not valid", "check AWS_SESSION_TOKEN; leave it away with lasting keys",
         ErrorKind::authentication},
        {"RequestTimeTooSkewed", "this machine's clock is too far from the store's", "set the clock: `timedatectl set-ntp true`",
         ErrorKind::authentication},
        {"AccessDenied", "access is denied", "the credentials need s3:GetObject, s3:ListBucket (and s3:PutObject to write) for this bucket",
         ErrorKind::authentication},
        {"NoSuchBucket", "there is no bucket of this name", "check the bucket's name and AWS_ENDPOINT_URL", ErrorKind::data},
        {"NoSuchKey", "there is no such file in the store", "", ErrorKind::data},
        {"InvalidObjectState", "the file lies in the archive", "fetch it from there first: `aws s3api restore-object`", ErrorKind::data},
    };
    for (const Meaning& meaning : kMeanings) {
      if (code != meaning.code && !(code.empty() && answer.status == 403 && std::strcmp(meaning.code, "AccessDenied") == 0)) continue;
      const bool about_keys = meaning.kind == ErrorKind::authentication && !settings_.unsigned_requests;
      std::string hint = meaning.hint;
      if (about_keys) hint += (hint.empty() ? "" : "; ") + std::string("they come from ") + credentials_.source();
      if (settings_.unsigned_requests && meaning.kind == ErrorKind::authentication)
        hint = "it is no public bucket: leave AWS_NO_SIGN_REQUEST away";
      throw Error(meaning.kind, {.where = url.text, .what = meaning.what, .got = message, .hint = hint});
    }
    if (answer.status == 404) refuse_missing(url);
    if (const std::string region = region_of(answer); !region.empty() && (answer.status == 301 || answer.status == 307))
      throw Error(ErrorKind::usage, {.where = url.text,
                                     .what = "the bucket lies in another region than its endpoint",
                                     .got = settings_.endpoint,
                                     .expected = "the endpoint of " + region,
                                     .hint = "leave AWS_ENDPOINT_URL away, or name that region's"});
    if (code.empty()) refuse_answer(url, answer);
    throw Error(ErrorKind::resources, {.where = url.text, .what = "the store refuses the request", .got = code + ": " + message});
  }

 private:
  // As which requests are signed.
  struct Signed {
    std::string region;
    int64_t skew_s = 0;  // of the store's clock
  };
  static constexpr int64_t kSkewSeconds = 60;

  Signed current() {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  std::string key_of(const StoreUrl& url) const {
    std::string key = url.path.substr(1);
    while (key.ends_with('/')) key.pop_back();
    return key;
  }
  std::string version_of(const Transfer& answer) const { return answer.header("etag"); }

  static Query listing_query(const std::string& prefix) {
    return {{"list-type", "2"}, {"prefix", prefix}, {"delimiter", "/"}, {"encoding-type", "url"}};
  }

  // The address of a key, and what the signature says of host and path.
  void place(const std::string& key, const std::string& region, std::string& base, std::string& host, std::string& path) {
    const std::string endpoint = settings_.endpoint.empty() ? "https://s3." + region + ".amazonaws.com" : settings_.endpoint;
    const size_t at = endpoint.find("://") + 3;
    std::string scheme = endpoint.substr(0, at);
    host = endpoint.substr(at);
    path = "/" + percent_encoded(key, "/");
    if (path_style_) path = "/" + percent_encoded(bucket_) + (key.empty() ? "" : path);
    else host = bucket_ + "." + host;
    base = scheme + host + path;
  }

  Transfer request(const std::string& method, const std::string& key, Query query = {}, std::vector<std::string> headers = {},
                   S3StorePieces body = {}, bool has_body = false) {
    Transfer transfer;
    transfer.method = method;
    transfer.has_body = has_body;
    transfer.body = std::move(body);
    const std::string hash = transfer.body.empty() ? kEmptyHash : sha256_hex(transfer.body);
    const auto as = std::make_shared<Signed>();
    transfer.prepare = [this, key, query = std::move(query), headers = std::move(headers), hash, as](Transfer& t) {
      *as = current();
      sign(t, key, query, headers, hash, *as);
    };
    transfer.again = [this, as](Transfer& t) { return mend(t, *as); };
    return transfer;
  }

  void sign(Transfer& transfer, const std::string& key, const Query& query, const std::vector<std::string>& headers,
            const std::string& hash, const Signed& as) {
    std::string base, host, path;
    place(key, as.region, base, host, path);
    const std::string text = canonical_query(query);
    transfer.url = base + (text.empty() ? "" : "?" + text);
    transfer.headers = headers;
    if (transfer.has_body) transfer.headers.emplace_back("Expect:");
    if (settings_.unsigned_requests) return;
    const AwsKeys keys = credentials_.keys();
    AwsRequest request{.method = transfer.method, .path = path, .query = query, .payload_hash = hash, .service = "s3"};
    request.date = aws_date(std::time(nullptr) + as.skew_s);
    request.region = as.region;
    request.headers = {{"host", host}, {"x-amz-content-sha256", hash}, {"x-amz-date", request.date}};
    if (!keys.token.empty()) request.headers.emplace_back("x-amz-security-token", keys.token);
    for (const auto& [name, value] : request.headers)
      if (name != "host") transfer.headers.push_back(name + ": " + value);
    transfer.headers.push_back("Authorization: " + aws_authorization(request, keys));
  }

  // Faults that another signature may mend: each once for a request. An answer to another request may have told of them before.
  bool mend(Transfer& answer, const Signed& as) {
    const std::string code = xml_text(as_text(answer.content), "Code");
    if (code == "RequestTimeout" || code == "ConditionalRequestConflict" || code == "SlowDown") return true;
    if (answer.attempts > 1) return false;
    if (code == "ExpiredToken") return credentials_.renew();
    if (code == "RequestTimeTooSkewed") return follow_clock(answer, as);
    const std::string region = region_of(answer);
    const bool elsewhere = answer.status == 301 || answer.status == 307 || answer.status == 400 || answer.status == 403;
    if (!elsewhere || region.empty() || region == as.region) return false;
    const std::lock_guard lock(mutex_);
    now_.region = region;
    return true;
  }

  // Where the bucket lies, as an answer tells; empty where it does not.
  static std::string region_of(const Transfer& answer) {
    const std::string_view xml = as_text(answer.content);
    const std::string told = answer.header("x-amz-bucket-region");
    return !told.empty() || xml_text(xml, "Code") != "AuthorizationHeaderMalformed" ? told : xml_text(xml, "Region");
  }

  bool follow_clock(const Transfer& answer, const Signed& as) {
    std::tm utc = {};
    if (strptime(answer.header("date").c_str(), "%a, %d %b %Y %H:%M:%S", &utc) == nullptr) return false;
    const int64_t skew = timegm(&utc) - std::time(nullptr);
    if (std::abs(skew - as.skew_s) < kSkewSeconds) return false;
    {
      const std::lock_guard lock(mutex_);
      if (std::abs(skew - now_.skew_s) < kSkewSeconds) return true;
      now_.skew_s = skew;
    }
    warn("s3://" + bucket_ + ": this machine's clock is " + std::to_string(std::abs(skew)) + " s " + (skew > 0 ? "behind" : "ahead of") +
         " the store's; requests are dated by the store's");
    return true;
  }

  // An answer to HEAD has no body: a GET of the first byte tells what is wrong. Where that mended it (a region, a clock, keys that had ended),
  // HEAD is asked again.
  void ask_why(const StoreUrl& url, Transfer& head) {
    if (head.status == 0 || head.status >= 500) refuse(url, head);
    Transfer get = request("GET", key_of(url), {}, {"Range: bytes=0-0"});
    perform(get, url.text);
    if (!get.ok() && get.status != 404 && get.status != 416) refuse(url, get);
    perform(head, url.text);
  }

  [[noreturn]] void refuse_listing(const StoreUrl& url, const char* got) {
    throw Error(ErrorKind::resources, {.where = url.text,
                                       .what = "the server does not list the folder as S3 does",
                                       .got = got,
                                       .expected = "a ListBucketResult of ListObjectsV2",
                                       .hint = "is AWS_ENDPOINT_URL the address of an S3 server?"});
  }

  void check_page(const StoreUrl& url, Transfer& page) {
    if (!page.ok() || !page.problem.empty()) refuse(url, page);
    const S3Page kind = s3_page(as_text(page.content));
    if (kind != S3Page::whole) refuse_listing(url, kind == S3Page::cut ? "a page that breaks off" : "another document");
  }

  StoredInfo stat_bucket(const StoreUrl& url) {
    Query query = listing_query("");
    query.emplace_back("max-keys", "1");
    Transfer page = request("GET", "", query);
    perform(page, url.text);
    check_page(url, page);
    return {StoredKind::folder};
  }

  bool written(const StoreUrl& url, Transfer& answer, const PutCondition& condition, std::span<const std::span<const std::byte>> pieces) {
    if (answer.ok() && answer.problem.empty()) return true;
    const bool conditional = condition.absent || !condition.version.empty();
    if (!conditional || (answer.status != 412 && answer.status != 404)) refuse(url, answer);
    // The answer to an earlier try may have been lost: what lies there may be ours.
    return answer.attempts > 1 && holds(url, pieces);
  }

  bool holds(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces) {
    const StoredInfo info = stat(url);
    if (info.kind != StoredKind::file || info.size != size_of(pieces) || info.size > kMultipartFrom) return false;
    Bytes there(info.size);
    if (info.size > 0) {
      const auto transfer = reading(url, 0, info.size, info);
      transfer->into = there;
      perform(*transfer, url.text);
      if (!transfer->ok() || transfer->received != info.size) refuse(url, *transfer);
    }
    size_t at = 0;
    for (const auto& piece : pieces) {
      if (!piece.empty() && std::memcmp(there.data() + at, piece.data(), piece.size()) != 0) return false;
      at += piece.size();
    }
    return true;
  }

  bool put_parts(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces, uint64_t size, std::vector<std::string> headers) {
    Transfer begin = request("POST", key_of(url), {{"uploads", ""}}, {}, {}, true);
    perform(begin, url.text);
    const std::string id = xml_text(as_text(begin.content), "UploadId");
    if (!begin.ok() || id.empty()) refuse(url, begin);
    try {
      const std::string list = upload_parts(url, pieces, size, id);
      Transfer end = request("POST", key_of(url), {{"uploadId", id}}, std::move(headers), {as_bytes(list)}, true);
      end.fresh = true;
      perform(end, url.text);
      // S3 may say 200 before it knows, and put the error into the body.
      const bool good = end.ok() && end.problem.empty() && xml_text(as_text(end.content), "Code").empty();
      if (!good && end.status == 412) return abort(url, id), false;
      if (!good && !(end.attempts > 1 && xml_text(as_text(end.content), "Code") == "NoSuchUpload")) refuse(url, end);
      return true;
    } catch (const Error&) {
      abort(url, id);
      throw;
    }
  }

  std::string upload_parts(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces, uint64_t size, const std::string& id) {
    constexpr size_t kAtOnce = 8;
    const uint64_t part = std::max(kLeastPart, (size + kMostParts - 1) / kMostParts);
    std::string list = "<CompleteMultipartUpload>";
    for (uint64_t offset = 0, number = 1; offset < size;) {
      std::vector<Transfer> transfers;
      for (size_t i = 0; i < kAtOnce && offset < size; ++i, ++number, offset += part)
        transfers.push_back(request("PUT", key_of(url), {{"partNumber", std::to_string(number)}, {"uploadId", id}}, {},
                                    s3_store_part_of(pieces, offset, std::min(part, size - offset)), true));
      std::vector<Transfer*> all;
      for (Transfer& transfer : transfers) all.push_back(&transfer);
      perform(all, url.text);
      const uint64_t first = number - transfers.size();
      for (size_t i = 0; i < transfers.size(); ++i) {
        const std::string tag = transfers[i].header("etag");
        if (!transfers[i].ok() || !transfers[i].problem.empty() || tag.empty()) refuse(url, transfers[i]);
        list += "<Part><PartNumber>" + std::to_string(first + i) + "</PartNumber><ETag>" + tag + "</ETag></Part>";
      }
    }
    return list + "</CompleteMultipartUpload>";
  }

  // The rest of an upload costs its owner money; a lifecycle rule of the bucket removes what no abort reaches.
  void abort(const StoreUrl& url, const std::string& id) {
    Transfer transfer = request("DELETE", key_of(url), {{"uploadId", id}});
    transfer.tries = 2;
    perform(transfer, url.text);
  }

  std::string bucket_;
  AwsSettings settings_;
  bool path_style_ = false;
  AwsCredentials credentials_;
  std::mutex mutex_;
  Signed now_;
};

}  // namespace

std::unique_ptr<Store> make_s3_store(const StoreUrl& url) { return std::make_unique<S3Store>(url); }

}  // namespace perigee
