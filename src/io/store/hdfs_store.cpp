// hdfs://host/path by WebHDFS, the HTTP protocol of every NameNode: https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

constexpr int kHttpPort = 9870;  // Hadoop 3; 50070 of Hadoop 2
constexpr size_t kHdfsStoreListingBytes = size_t{256} << 20, kListingValues = 64'000'000;
constexpr size_t kNeighbourBytes = size_t{16} << 20, kNeighbourValues = 4'000'000;

std::string hdfs_store_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

const Json* hdfs_store_member(const Json& json, std::initializer_list<const char*> names) {
  const Json* found = &json;
  for (const char* name : names)
    if (found != nullptr) found = found->find(name);
  return found;
}
std::string hdfs_store_text_of(const Json* value) { return value != nullptr && value->is_string() ? value->as_string() : ""; }
int64_t hdfs_store_number_of(const Json* value) { return value != nullptr && value->is_int() && value->as_int() > 0 ? value->as_int() : 0; }

struct RemoteException {
  std::string name, message;
};
RemoteException exception_of(const Transfer& answer) {
  try {
    const Json json = Json::parse(as_text(answer.content), "WebHDFS", 1000);
    const std::string message = hdfs_store_text_of(hdfs_store_member(json, {"RemoteException", "message"}));
    return {hdfs_store_text_of(hdfs_store_member(json, {"RemoteException", "exception"})),
            message.substr(0, std::min<size_t>(300, message.find('\n')))};
  } catch (const Error&) {
    return {};
  }
}

// A path that NameNodes and DataNodes of all versions decode alike. Some decode '+' and '%' twice on a DataNode, or break what is not ASCII there.
bool is_plain(const std::string& path) { return percent_encoded(path, "/=") == path; }

// The parts of a text between commas.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// With the slash at its end.
std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// In the file's folder, or in the nearest one above whose path is plain: the bytes go through a DataNode, the new name through the NameNode
// alone.
std::string temporary_for(const std::string& path) {
  std::string folder = parent_of(path);
  while (!is_plain(folder)) folder = parent_of(folder.substr(0, folder.size() - 1));
  const std::string name = path.substr(parent_of(path).size());
  return folder + "." + (is_plain(name) ? name : "perigee") + ".tmp-" + std::to_string(std::random_device{}());
}

// The address that a NameNode redirects to, with the path as it must be. A gateway's own path stays.
std::string with_path(const std::string& address, const std::string& path, bool twice) {
  const size_t scheme = address.find("://"), begin = address.find('/', scheme == std::string::npos ? 0 : scheme + 3);
  if (begin == std::string::npos || address.compare(begin, 12, "/webhdfs/v1/") != 0) return address;
  const std::string once = percent_encoded(path, "/");
  return address.substr(0, begin) + "/webhdfs/v1" + (twice ? percent_encoded(once, "/") : once) +
         address.substr(std::min(address.find('?', begin), address.size()));
}

class HdfsStore final : public Store {
 public:
  explicit HdfsStore(const StoreUrl& url) {
    const std::vector<std::string> nodes = parts_of(url.host_and_port());
    if (nodes.empty()) throw Error(ErrorKind::usage, {.where = url.text, .what = "names no NameNode", .expected = "hdfs://namenode/path"});
    // hdfs:// in Hadoop's own files names the port of its RPC; what is spoken here is HTTP.
    bool rpc = url.scheme == "hdfs";
    for (const std::string& node : nodes) {
      StoreUrl each = parse_store_url(url.scheme + "://" + node + "/");
      const bool of_rpc = url.scheme == "hdfs" && (each.port == 0 || each.port == 8020 || each.port == 9000);
      rpc = rpc && of_rpc;
      const int port = of_rpc || each.port == 0 ? kHttpPort : each.port;
      bases_.push_back((url.scheme == "swebhdfs" ? "https://" : "http://") + each.host + ":" + std::to_string(port));
    }
    const std::vector<std::string> given = parts_of(hdfs_store_variable("PERIGEE_WEBHDFS"));
    if (!given.empty() && rpc) bases_ = given;
    for (std::string& base : bases_)
      while (base.ends_with('/')) base.pop_back();
    user_ = url.user;
    for (const char* name : {"HADOOP_USER_NAME", "USER"})
      if (user_.empty()) user_ = hdfs_store_variable(name);
    token_ = hdfs_store_variable("PERIGEE_HDFS_TOKEN");
  }

  StoredInfo stat(const StoreUrl& url) override {
    Transfer answer = request("GET", url.path, "GETFILESTATUS");
    perform(answer, url.text);
    if (answer.status == 404 && exception_of(answer).name == "FileNotFoundException") return {};
    const Json json = read(url, answer);
    const Json* status = json.find("FileStatus");
    if (status == nullptr) refuse_answer(url, answer);
    const StoredEntry entry = entry_of(*status);
    if (entry.folder) return {StoredKind::folder};
    return {StoredKind::file, entry.size, entry.version};
  }

  std::shared_ptr<Transfer> reading(const StoreUrl& url, uint64_t offset, uint64_t size, const StoredInfo& info) override {
    const uint64_t length = size + (offset + size == info.size ? 1 : 0);
    const std::string more = "&offset=" + std::to_string(offset) + "&length=" + std::to_string(length);
    if (!is_plain(url.path)) return reading_of_odd_name(url, more, info);
    auto transfer = std::make_shared<Transfer>(request("GET", url.path, "OPEN", more));
    transfer->redirects = 3;
    // A DataNode that did not serve it is left out in every second try: the others may have the block, or only this one.
    transfer->prepare = [this, place = transfer->prepare](Transfer& t) {
      const size_t host = t.effective.find("://");
      const std::string node = host == std::string::npos ? "" : t.effective.substr(host + 3, t.effective.find('/', host + 3) - host - 3);
      const bool other = t.attempts % 2 == 1 && !node.empty() && !is_name_node(node);
      place(t);
      if (other) t.url += "&excludedatanodes=" + percent_encoded(node);
    };
    return transfer;
  }

  bool answers_tell_version() const override { return false; }
  bool still_is(const StoreUrl& url, const StoredInfo& info) override { return stat(url).version == info.version; }

  std::vector<StoredEntry> list(const StoreUrl& url) override {
    Transfer answer = request("GET", url.path, "LISTSTATUS");
    answer.limit = kHdfsStoreListingBytes;
    perform(answer, url.text);
    const Json json = read(url, answer, kListingValues);
    const Json* statuses = hdfs_store_member(json, {"FileStatuses", "FileStatus"});
    if (statuses == nullptr || !statuses->is_array()) refuse_answer(url, answer);
    std::vector<StoredEntry> entries = entries_of(*statuses);
    check_listing(url, entries.size());
    return entries;
  }

  // A page as long as the NameNode likes. Before Hadoop 2.8 it has no pages: then the whole folder, unless it is a very large one.
  std::optional<std::vector<StoredEntry>> list_from(const StoreUrl& url, size_t /*most*/) override {
    const std::string folder = parent_of(url.path), name = url.path.substr(folder.size());
    if (name.empty()) return std::nullopt;
    if (has_pages_) {  // what begins as the name does but is shorter sorts before it
      const Transfer page = neighbours(url, folder, "LISTSTATUS_BATCH", "&startAfter=" + percent_encoded(name.substr(0, name.size() - 1)));
      if (!is_unknown_operation(page)) return entries_in(page, {"DirectoryListing", "partialListing", "FileStatuses", "FileStatus"});
      has_pages_ = false;
    }
    return entries_in(neighbours(url, folder, "LISTSTATUS"), {"FileStatuses", "FileStatus"});
  }

  // A temporary name, whose length is checked, and a rename that does what the condition says. A plain rename onto a folder would move the
  // file into it.
  bool put(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces, const PutCondition& condition) override {
    if (url.key().empty()) throw Error(ErrorKind::usage, {.where = url.text, .what = "names no file"});
    if (!condition.version.empty() && stat(url).version != condition.version) return false;
    const std::string temporary = temporary_for(url.path);
    uint64_t size = 0;
    for (const auto& piece : pieces) size += piece.size();
    try {
      create(url, temporary, pieces);
      StoreUrl there = url;
      there.path = temporary;
      StoredInfo info = stat(there);
      // The NameNode may learn of the last block a little later than the writer.
      for (int look = 0; look < 8 && info.size != size; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10 << look));
        info = stat(there);
      }
      if (info.kind != StoredKind::file || info.size != size)
        throw Error(ErrorKind::resources, {.where = url.text,
                                           .what = "the store has another length of the file than was written",
                                           .got = std::to_string(info.size),
                                           .expected = std::to_string(size)});
      if (parent_of(temporary) != parent_of(url.path)) make_folder(url, parent_of(url.path));
      if (rename(url, temporary, condition.absent, size)) return true;
      remove_path(temporary);
      return false;
    } catch (const Error&) {
      remove_path(temporary);
      throw;
    }
  }

  void remove(const StoreUrl& url) override {
    Transfer answer = request("DELETE", url.path, "DELETE");
    perform(answer, url.text);
    if (!answer.ok() && answer.status != 404) refuse(url, answer);
  }

  [[noreturn]] void refuse(const StoreUrl& url, Transfer& answer) override {
    const RemoteException exception = exception_of(answer);
    // The port of the NameNode's RPC answers with no HTTP, or with a sentence and status 404.
    const bool no_http = answer.status == 0 && answer.problem.find("HTTP/0.9") != std::string::npos;
    if (no_http || (answer.status == 404 && exception.name.empty()))
      throw Error(ErrorKind::usage, {.where = url.text,
                                     .what = "this port does not speak WebHDFS",
                                     .got = bases_[active_],
                                     .hint = "PERIGEE_WEBHDFS=http://namenode:9870 names the port of the NameNode's web pages"});
    if (answer.status == 0 && answer.problem.find("resolve host") != std::string::npos) refuse_name(url, answer);
    if (answer.status == 0 || !answer.problem.empty()) refuse_answer(url, answer);
    if (answer.status == 401)
      throw Error(ErrorKind::authentication,
                  {.where = url.text,
                   .what = "the NameNode asks for Kerberos",
                   .got = exception.message,
                   .hint = "PERIGEE_HDFS_TOKEN=… is a delegation token: `hdfs fetchdt --webservice`, or GETDELEGATIONTOKEN"});
    if (exception.name == "AccessControlException" || exception.name == "SecurityException")
      throw Error(ErrorKind::authentication, {.where = url.text,
                                              .what = "access is denied to the user '" + user_ + "'",
                                              .got = exception.message,
                                              .hint = "HADOOP_USER_NAME=… or hdfs://user@host/… names another user"});
    if (exception.name == "FileNotFoundException") refuse_missing(url);
    if (exception.name.empty()) refuse_answer(url, answer);
    std::string hint;
    if (exception.name == "StandbyException")
      hint = "it is on standby: name both, hdfs://first,second/… or PERIGEE_WEBHDFS=http://first:9870,http://second:9870";
    if (exception.name == "SafeModeException") hint = "`hdfs dfsadmin -safemode get` says why; it ends when enough DataNodes have reported";
    throw Error(
        ErrorKind::resources,
        {.where = url.text, .what = "the NameNode refuses the request", .got = exception.name + ": " + exception.message, .hint = hint});
  }

 private:
  Transfer request(const std::string& method, const std::string& path, const std::string& operation, const std::string& more = "") {
    Transfer transfer;
    transfer.method = method;
    transfer.prepare = [this, rest = "/webhdfs/v1" + percent_encoded(path, "/") + "?op=" + operation +
                                     (token_.empty() ? "&user.name=" + percent_encoded(user_) : "&delegation=" + percent_encoded(token_)) +
                                     more](Transfer& t) { t.url = base_after(t) + rest; };
    transfer.again = [](Transfer& answer) { return is_passing(answer); };
    return transfer;
  }

  [[noreturn]] void refuse_name(const StoreUrl& url, const Transfer& answer) {
    const bool there =
        std::any_of(bases_.begin(), bases_.end(), [&](const std::string& b) { return answer.effective.starts_with(b + "/"); });
    if (!there)
      throw Error(ErrorKind::resources,
                  {.where = url.text,
                   .what = "the NameNode names a DataNode that this machine does not find",
                   .got = answer.problem,
                   .hint = "put its address into /etc/hosts, or have dfs.datanode.hostname be a name that clients find"});
    throw Error(ErrorKind::usage,
                {.where = url.text,
                 .what = "no machine has the name of this NameNode",
                 .got = answer.problem,
                 .hint = "a name service's NameNodes are named one by one: PERIGEE_WEBHDFS=http://first:9870,http://second:9870"});
  }

  static bool is_passing(const Transfer& answer) {
    if (answer.status != 403 && answer.status != 400) return false;
    const std::string name = exception_of(answer).name;
    return name == "SafeModeException" || name == "RetriableException" || name == "StandbyException";
  }

  // The NameNode to ask: the next of several, where the one that is in use could not be reached or is on standby.
  std::string base_after(const Transfer& last) {
    size_t now = active_;
    const bool asked_it = last.attempts > 0 && last.effective.starts_with(bases_[now] + "/");
    if (asked_it && (last.status == 0 || exception_of(last).name == "StandbyException"))
      active_.compare_exchange_strong(now, (now + 1) % bases_.size());
    return bases_[active_];
  }

  bool is_name_node(const std::string& node) const {
    return std::any_of(bases_.begin(), bases_.end(), [&](const std::string& base) { return base.ends_with("://" + node); });
  }

  Transfer neighbours(const StoreUrl& url, const std::string& folder, const std::string& operation, const std::string& more = "") {
    Transfer page = request("GET", folder, operation, more);
    page.limit = kNeighbourBytes, page.tries = 1;
    perform(page, url.text);
    return page;
  }

  // A NameNode that is too old for it, or a gateway that does not have it.
  static bool is_unknown_operation(const Transfer& page) {
    const std::string name = exception_of(page).name;
    return name == "UnsupportedOperationException" || (page.status == 400 && (name.empty() || name == "IllegalArgumentException"));
  }

  // Nothing: this user may not list the folder, or it is too large; each file is asked about then.
  static std::optional<std::vector<StoredEntry>> entries_in(const Transfer& page, std::initializer_list<const char*> members) {
    if (page.status == 0 || page.status == 429 || page.status >= 500 || is_passing(page)) return std::vector<StoredEntry>();
    if (!page.ok() || !page.problem.empty()) return std::nullopt;
    try {
      const Json json = Json::parse(as_text(page.content), "WebHDFS", kNeighbourValues);
      const Json* statuses = hdfs_store_member(json, members);
      if (statuses != nullptr && statuses->is_array()) return entries_of(*statuses);
    } catch (const Error&) {
      // As where it is too large.
    }
    return std::nullopt;
  }

  // The DataNode's address is asked for, so that its path can be written as it decodes it: first as every server should, and where that one
  // finds no file which the NameNode has, encoded once more.
  std::shared_ptr<Transfer> reading_of_odd_name(const StoreUrl& url, const std::string& more, const StoredInfo& info) {
    auto transfer = std::make_shared<Transfer>(request("GET", url.path, "OPEN", more));
    const auto twice = std::make_shared<bool>(false);
    transfer->prepare = [this, url, more, twice](Transfer& t) {
      Transfer ask = request("GET", url.path, "OPEN", more);
      perform(ask, url.text);
      const bool redirected = ask.status == 307 && ask.redirect.starts_with("http");
      t.url = redirected ? with_path(ask.redirect, url.path, *twice) : ask.url;
      t.redirects = redirected ? 0 : 3;
    };
    transfer->again = [this, url, twice, version = info.version, usual = transfer->again](Transfer& t) {
      const bool not_found = t.status == 404 || t.status == 400;  // 400: what it has decoded once too often is no path
      if (not_found && !*twice && stat(url).version == version) return *twice = true;
      return usual(t);
    };
    return transfer;
  }

  void make_folder(const StoreUrl& url, const std::string& path) {
    Transfer answer = request("PUT", path, "MKDIRS");
    perform(answer, url.text);
    if (!answer.ok() || !answer.problem.empty()) refuse(url, answer);
  }

  Json read(const StoreUrl& url, Transfer& answer, size_t values = 100'000) {
    if (!answer.ok() || !answer.problem.empty()) refuse(url, answer);
    try {
      return Json::parse(as_text(answer.content), url.text, values);
    } catch (const Error& error) {
      throw Error(ErrorKind::resources, {.where = url.text,
                                         .what = "the NameNode's answer is no JSON",
                                         .got = error.parts().what,
                                         .hint = "is the address that of WebHDFS? " + bases_[active_]});
    }
  }

  static std::vector<StoredEntry> entries_of(const Json& statuses) {
    std::vector<StoredEntry> entries;
    for (const Json& status : statuses.as_array()) {
      StoredEntry entry = entry_of(status);
      if (entry.name.empty() || entry.name == "." || entry.name == ".." || entry.name.find('/') != std::string::npos) continue;
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  static StoredEntry entry_of(const Json& status) {
    const int64_t size = hdfs_store_number_of(status.find("length"));
    return {.name = hdfs_store_text_of(status.find("pathSuffix")),
            .folder = hdfs_store_text_of(status.find("type")) == "DIRECTORY",
            .size = static_cast<uint64_t>(size),
            .version = std::to_string(hdfs_store_number_of(status.find("modificationTime"))) + "-" + std::to_string(size) + "-" +
                       std::to_string(hdfs_store_number_of(status.find("fileId")))};
  }

  // The NameNode says which DataNode takes the bytes; every try asks it anew.
  void create(const StoreUrl& url, const std::string& path, std::span<const std::span<const std::byte>> pieces) {
    Transfer transfer;
    transfer.method = "PUT", transfer.has_body = true, transfer.body.assign(pieces.begin(), pieces.end());
    transfer.headers = {"Content-Type: application/octet-stream", "Expect:"};
    transfer.prepare = [&](Transfer& t) {
      const size_t host = t.effective.find("://");
      const bool other = t.attempts % 2 == 1 && host != std::string::npos;
      const std::string node = other ? t.effective.substr(host + 3, t.effective.find('/', host + 3) - host - 3) : "";
      Transfer ask = request("PUT", path, "CREATE", "&overwrite=true" + (other ? "&excludedatanodes=" + percent_encoded(node) : ""));
      perform(ask, url.text);
      if (ask.status != 307 || !ask.redirect.starts_with("http")) refuse(url, ask);
      t.url = ask.redirect;
    };
    perform(transfer, url.text);
    if (transfer.status != 201 && transfer.status != 200) refuse(url, transfer);
  }

  bool rename(const StoreUrl& url, const std::string& from, bool absent, uint64_t size) {
    Transfer answer = request("PUT", from, "RENAME",
                              "&destination=" + percent_encoded(url.path, "/") + "&renameoptions=" + (absent ? "NONE" : "OVERWRITE"));
    answer.fresh = true;
    perform(answer, url.text);
    if (answer.ok() && answer.problem.empty()) return true;
    const std::string name = exception_of(answer).name;
    if (answer.attempts > 1) {  // the answer to an earlier try may have been lost
      StoreUrl temporary = url;
      temporary.path = from;
      const StoredInfo there = stat(url);
      if (stat(temporary).kind == StoredKind::none && there.kind == StoredKind::file && there.size == size) return true;
    }
    if (absent && (name == "FileAlreadyExistsException" || stat(url).kind != StoredKind::none)) return false;
    refuse(url, answer);
  }

  void remove_path(const std::string& path) {
    Transfer answer = request("DELETE", path, "DELETE");
    answer.tries = 2;
    perform(answer, bases_[active_]);
  }

  std::vector<std::string> bases_;  // of the NameNodes
  std::atomic<size_t> active_{0};   // the one that is asked
  std::string user_, token_;
  std::atomic<bool> has_pages_{true};
};

}  // namespace

std::unique_ptr<Store> make_hdfs_store(const StoreUrl& url) { return std::make_unique<HdfsStore>(url); }

}  // namespace perigee
