// sftp://user@host/path by libcurl's SSH. Keys come from the agent or ~/.ssh (PERIGEE_SSH_KEY), and the host's key must be in known_hosts.
#include <cstdlib>
#include <random>

#include "src/core/error.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

constexpr size_t kSftpStoreListingBytes = size_t{256} << 20;

std::string sftp_store_quoted(const std::string& path) {
  std::string text = "\"";
  for (const char c : path) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

class SftpStore final : public Store {
 public:
  // The folder's listing tells the size: libcurl asks for no attributes alone.
  StoredInfo stat(const StoreUrl& url) override {
    if (url.key().empty()) return {StoredKind::folder};
    StoreUrl folder = url;
    std::string path = url.path;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    const size_t slash = path.rfind('/');
    const std::string name = path.substr(slash + 1);
    folder.path = path.substr(0, slash + 1);
    Transfer answer = listing(folder);
    if (answer.status == 404) return {};
    for (const StoredEntry& entry : entries_of(folder, answer)) {
      if (entry.name != name) continue;
      if (entry.folder) return {StoredKind::folder};
      return {StoredKind::file, entry.size, entry.version};
    }
    return {};
  }

  std::shared_ptr<Transfer> reading(const StoreUrl& url, uint64_t offset, uint64_t size, const StoredInfo& info) override {
    auto transfer = std::make_shared<Transfer>(request(url));
    transfer->range = std::to_string(offset) + "-" + std::to_string(offset + size - (offset + size == info.size ? 0 : 1));
    return transfer;
  }

  bool answers_tell_version() const override { return false; }
  bool still_is(const StoreUrl& url, const StoredInfo& info) override { return stat(url).version == info.version; }

  std::vector<StoredEntry> list(const StoreUrl& url) override {
    StoreUrl folder = url;
    if (!folder.path.ends_with('/')) folder.path += '/';
    Transfer answer = listing(folder);
    return entries_of(folder, answer);
  }

  // A temporary name and a rename, which the server refuses where there is a file: it is taken away before, unless it must be absent.
  bool put(const StoreUrl& url, std::span<const std::span<const std::byte>> pieces, const PutCondition& condition) override {
    if (url.key().empty()) throw Error(ErrorKind::usage, {.where = url.text, .what = "names no file"});
    if (!condition.version.empty() && stat(url).version != condition.version) return false;
    const std::string temporary = url.path + ".tmp-" + std::to_string(std::random_device{}());
    StoreUrl there = url;
    there.path = temporary;
    Transfer transfer = request(there);
    transfer.upload = true;
    transfer.body.assign(pieces.begin(), pieces.end());
    if (!condition.absent) transfer.after.push_back("*rm " + sftp_store_quoted(url.path));
    transfer.after.push_back("rename " + sftp_store_quoted(temporary) + " " + sftp_store_quoted(url.path));
    perform(transfer, url.text);
    if (transfer.ok() && transfer.problem.empty()) return true;
    const bool taken = transfer.status == 409 && condition.absent;
    remove(there);
    if (taken && stat(url).kind != StoredKind::none) return false;
    refuse(url, transfer);
  }

  void remove(const StoreUrl& url) override {
    StoreUrl root = url;
    root.path = "/";
    Transfer transfer = request(root);
    transfer.method = "HEAD";
    transfer.before = {"*rm " + sftp_store_quoted(url.path)};
    perform(transfer, url.text);
  }

  [[noreturn]] void refuse(const StoreUrl& url, Transfer& answer) override {
    const std::string& problem = answer.problem;
    if (answer.status == 404) refuse_missing(url);
    if (answer.status == 401)
      throw Error(ErrorKind::authentication, {.where = url.text,
                                              .what = "the server does not let this user in",
                                              .got = problem,
                                              .hint = "`sftp " + (url.user.empty() ? "" : url.user + "@") + url.host +
                                                      "` must work without a password; PERIGEE_SSH_KEY=FILE names a key"});
    if (problem.find("known_hosts") != std::string::npos) {
      const bool changed = problem.find("another key") != std::string::npos;
      const std::string port = url.port > 0 ? " -p " + std::to_string(url.port) : "";
      const std::string name = url.port > 0 && url.port != 22 ? "'[" + url.host + "]:" + std::to_string(url.port) + "'" : url.host;
      const char* given = std::getenv("PERIGEE_SSH_KNOWN_HOSTS");
      const std::string file = given != nullptr && *given != '\0' ? given : "~/.ssh/known_hosts";
      throw Error(ErrorKind::authentication, {.where = url.text,
                                              .what = "the server's key is not the known one",
                                              .got = problem,
                                              .hint = "once you have compared it: " +
                                                      (changed ? "`ssh-keygen -f " + file + " -R " + name + "`, then " : std::string()) +
                                                      "`ssh-keyscan" + port + " " + url.host + " >> " + file + "`"});
    }
    if (answer.status == 403) throw Error(ErrorKind::authentication, {.where = url.text, .what = "access is denied", .got = problem});
    refuse_answer(url, answer);
  }

 private:
  static Transfer request(const StoreUrl& url) {
    if (url.host.empty()) throw Error(ErrorKind::usage, {.where = url.text, .what = "names no host", .expected = "sftp://user@host/path"});
    Transfer transfer;
    transfer.url = "sftp://" + url.host_and_port() + percent_encoded(url.path, "/");
    transfer.user = url.user, transfer.password = url.password;
    if (transfer.user.empty())
      if (const char* user = std::getenv("USER")) transfer.user = user;
    return transfer;
  }

  Transfer listing(const StoreUrl& folder) {
    Transfer transfer = request(folder);
    transfer.limit = kSftpStoreListingBytes;
    perform(transfer, folder.text);
    return transfer;
  }

  // Lines as of `ls -l`: mode, links, owner, group, size, month, day, time or year, name.
  std::vector<StoredEntry> entries_of(const StoreUrl& folder, Transfer& answer) {
    if (!answer.ok() || !answer.problem.empty()) refuse(folder, answer);
    const std::string_view text = as_text(answer.content);
    std::vector<StoredEntry> entries;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      size_t begin = 0;
      std::string_view words[8];
      for (std::string_view& word : words) {
        begin = std::min(line.find_first_not_of(' ', begin), line.size());
        const size_t stop = std::min(line.find(' ', begin), line.size());
        word = line.substr(begin, stop - begin);
        begin = stop;
      }
      if (begin + 1 >= line.size() || line[0] == 'l') continue;
      StoredEntry entry{.name = std::string(line.substr(begin + 1)), .folder = line[0] == 'd'};
      if (entry.name == "." || entry.name == ".." || entry.name.find('/') != std::string::npos) continue;
      entry.size = std::strtoull(std::string(words[4]).c_str(), nullptr, 10);
      // Minutes are all that a listing tells of the time; with the size they are the version.
      entry.version = std::string(words[4]) + " " + std::string(words[5]) + " " + std::string(words[6]) + " " + std::string(words[7]);
      entries.push_back(std::move(entry));
      check_listing(folder, entries.size());
    }
    return entries;
  }
};

}  // namespace

std::unique_ptr<Store> make_sftp_store(const StoreUrl&) { return std::make_unique<SftpStore>(); }

}  // namespace perigee
