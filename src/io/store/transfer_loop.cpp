#include "src/io/store/transfer_loop.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "src/core/error.h"
#include "src/io/store/transfer_curl.h"

namespace perigee {
namespace {

constexpr size_t kMostActive = 32;  // transfers at a time; the others wait
constexpr size_t kMostTransferHeaderBytes = 1 << 16;
constexpr uint64_t kArrivedStep = uint64_t{4} << 20;

// A try on the loop.
struct Active : TransferTry {
  CURL* handle = nullptr;
  curl_slist *headers = nullptr, *before = nullptr, *after = nullptr;
  size_t piece = 0, sent = 0;      // of the body
  const char* host_key = nullptr;  // what is wrong with it
  char message[CURL_ERROR_SIZE] = {};
};

// curl calls these from C: nothing may be thrown through them.
size_t receive(const char* data, size_t size, size_t count, void* user) {
  auto& active = *static_cast<Active*>(user);
  Transfer& transfer = *active.transfer;
  const size_t bytes = size * count;
  long status = 0;
  curl().getinfo(active.handle, CURLINFO_RESPONSE_CODE, &status);
  const bool wanted = !transfer.into.empty() && (status == 0 || (status >= 200 && status < 300));
  if (wanted) {
    try {
      if (transfer.received == 0 && transfer.accepts) transfer.part_fault = transfer.accepts(static_cast<int>(status), transfer);
    } catch (const std::exception&) {
      return 0;
    }
    if (transfer.part_fault != PartFault::none) return 0;
    if (bytes > transfer.into.size() - transfer.received) return transfer.too_long = true, 0;
    std::memcpy(transfer.into.data() + transfer.received, data, bytes);
    const uint64_t steps = transfer.received / kArrivedStep;
    transfer.received += bytes;
    if (active.arrived && transfer.received / kArrivedStep > steps && !(transfer.ranged && status == 200))
      active.arrived(transfer.received);
    return bytes;
  }
  if (bytes > transfer.limit - std::min<uint64_t>(transfer.limit, transfer.content.size())) return transfer.too_long = true, 0;
  try {
    const auto* from = reinterpret_cast<const std::byte*>(data);
    transfer.content.insert(transfer.content.end(), from, from + bytes);
  } catch (const std::exception&) {
    return 0;
  }
  return bytes;
}

size_t receive_header(const char* data, size_t size, size_t count, void* user) {
  std::string& text = static_cast<Active*>(user)->transfer->answer_headers;
  try {
    if (size * count >= 5 && std::memcmp(data, "HTTP/", 5) == 0) text.clear();  // after "100 Continue" or a redirect
    if (text.size() + size * count <= kMostTransferHeaderBytes) text.append(data, size * count);
  } catch (const std::exception&) {
    return 0;
  }
  return size * count;
}

size_t send_body(char* to, size_t size, size_t count, void* user) {
  auto& active = *static_cast<Active*>(user);
  const auto& body = active.transfer->body;
  size_t room = size * count, done = 0;
  while (room > 0 && active.piece < body.size()) {
    const auto rest = body[active.piece].subspan(active.sent);
    const size_t now = std::min(room, rest.size());
    if (now > 0) std::memcpy(to + done, rest.data(), now);
    done += now, room -= now, active.sent += now;
    if (active.sent == body[active.piece].size()) ++active.piece, active.sent = 0;
  }
  return done;
}

int seek_body(void* user, curl_off_t offset, int origin) {
  auto& active = *static_cast<Active*>(user);
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  active.piece = active.sent = 0;
  return CURL_SEEKFUNC_OK;
}

// curl asks about once a second, and whenever bytes come.
int should_stop(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return downloads_stopped() ? 1 : 0; }

// Before a user name is sent to a server of SSH: its key must be the known one.
int check_host_key(CURL*, const curl_khkey*, const curl_khkey*, curl_khmatch match, void* user) {
  if (match == CURLKHMATCH_OK) return CURLKHSTAT_FINE;
  static_cast<Active*>(user)->host_key =
      match == CURLKHMATCH_MISMATCH ? "known_hosts has another key of this host" : "known_hosts has no key of this host";
  return CURLKHSTAT_REJECT;
}

int64_t body_size(const Transfer& transfer) {
  uint64_t size = 0;
  for (const auto& piece : transfer.body) size += piece.size();
  return static_cast<int64_t>(size);
}

bool fault_may_go(CURLcode code) {
  for (const CURLcode lasting :
       {CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_PEER_FAILED_VERIFICATION, CURLE_LOGIN_DENIED, CURLE_REMOTE_ACCESS_DENIED,
        CURLE_REMOTE_FILE_NOT_FOUND, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM, CURLE_TOO_MANY_REDIRECTS, CURLE_QUOTE_ERROR,
        CURLE_BAD_FUNCTION_ARGUMENT, CURLE_NOT_BUILT_IN, CURLE_REMOTE_FILE_EXISTS})
    if (code == lasting) return false;
  return true;
}

class Loop {
 public:
  static Loop& shared() {
    curl();  // destroyed after the loop
    static Loop loop;
    return loop;
  }
  ~Loop() {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    curl().wakeup(multi_);
    thread_.join();
    for (CURL* handle : spare_) curl().cleanup(handle);
    curl().multi_cleanup(multi_);
  }
  void begin(std::unique_ptr<Active> active) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(active));
    }
    curl().wakeup(multi_);
  }

 private:
  Loop() : multi_(curl().multi_init()) {
    if (multi_ == nullptr) throw Error(ErrorKind::resources, {.where = "libcurl", .what = "has no memory"});
    curl().multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 64L);
    thread_ = std::thread([this] { run(); });
  }

  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (quit_) break;
        while (!waiting_.empty() && active_.size() < kMostActive) {
          std::unique_ptr<Active> next = std::move(waiting_.front());
          waiting_.pop_front();
          lock.unlock();
          start(std::move(next));
          lock.lock();
        }
      }
      int running = 0, left = 0;
      curl().multi_perform(multi_, &running);
      while (const CURLMsg* message = curl().info_read(multi_, &left))
        if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
      bool idle;
      {
        const std::lock_guard lock(mutex_);
        idle = waiting_.empty() || active_.size() >= kMostActive;
      }
      if (idle) curl().poll(multi_, nullptr, 0, active_.empty() ? 60000 : 200, nullptr);
    }
    while (!active_.empty()) finish(active_.back()->handle, CURLE_ABORTED_BY_CALLBACK);
  }

  void start(std::unique_ptr<Active> active) {
    active->handle = spare_.empty() ? curl().init() : spare_.back();
    if (!spare_.empty()) spare_.pop_back();
    if (active->handle == nullptr) {
      active->transfer->problem = "libcurl has no memory";
      active->done();
      return;
    }
    set_options(*active);
    CURL* handle = active->handle;
    active_.push_back(std::move(active));
    curl().add(multi_, handle);
  }

  static void set_options(Active& active) {
    Transfer& transfer = *active.transfer;
    const auto set = [&](CURLoption option, auto value) { curl().setopt(active.handle, option, value); };
    set(CURLOPT_URL, transfer.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https,sftp");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, std::min(10000L, static_cast<long>(transfer.stall_ms)));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(transfer.stall_ms / 1000)));
    set(CURLOPT_USERAGENT, "perigee/" PERIGEE_VERSION);
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_ERRORBUFFER, static_cast<char*>(active.message));
    set(CURLOPT_WRITEFUNCTION, &receive);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&active));
    set(CURLOPT_HEADERFUNCTION, &receive_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&active));
    set(CURLOPT_FILETIME, 1L);
    set(CURLOPT_NOPROGRESS, transfer.lasting ? 1L : 0L);
    set(CURLOPT_XFERINFOFUNCTION, &should_stop);
    if (transfer.fresh) set(CURLOPT_FRESH_CONNECT, 1L);
    if (transfer.redirects > 0) {
      set(CURLOPT_FOLLOWLOCATION, 1L);
      set(CURLOPT_MAXREDIRS, static_cast<long>(transfer.redirects));
      set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    }
    if (const char* bundle = std::getenv("AWS_CA_BUNDLE"); bundle != nullptr && *bundle != '\0') set(CURLOPT_CAINFO, bundle);
    if (transfer.total_ms > 0) set(CURLOPT_TIMEOUT_MS, static_cast<long>(transfer.total_ms));
    if (!transfer.ca.empty()) set(CURLOPT_CAINFO, transfer.ca.c_str());
    if (!transfer.certificate.empty()) set(CURLOPT_SSLCERT, transfer.certificate.c_str());
    if (!transfer.key.empty()) set(CURLOPT_SSLKEY, transfer.key.c_str());
    if (!transfer.user.empty()) set(CURLOPT_USERNAME, transfer.user.c_str());
    if (!transfer.password.empty()) set(CURLOPT_PASSWORD, transfer.password.c_str());
    if (!transfer.range.empty()) set(CURLOPT_RANGE, transfer.range.c_str());
    for (const std::string& command : transfer.before) active.before = curl().append(active.before, command.c_str());
    if (active.before != nullptr) set(CURLOPT_QUOTE, active.before);
    for (const std::string& command : transfer.after) active.after = curl().append(active.after, command.c_str());
    if (active.after != nullptr) set(CURLOPT_POSTQUOTE, active.after);
    if (transfer.url.starts_with("sftp:")) {
      set_ssh_options(active.handle);
      set(CURLOPT_SSH_KEYFUNCTION, &check_host_key);
      set(CURLOPT_SSH_KEYDATA, static_cast<void*>(&active));
      if (transfer.upload) set(CURLOPT_FTP_CREATE_MISSING_DIRS, 1L);
    } else {
      set(CURLOPT_CUSTOMREQUEST, transfer.method.c_str());
    }
    if (transfer.method == "HEAD") set(CURLOPT_NOBODY, 1L);
    if (transfer.has_body || transfer.upload) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_READFUNCTION, &send_body);
      set(CURLOPT_READDATA, static_cast<void*>(&active));
      set(CURLOPT_SEEKFUNCTION, &seek_body);
      set(CURLOPT_SEEKDATA, static_cast<void*>(&active));
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_size(transfer)));
    }
    for (const std::string& header : transfer.headers) active.headers = curl().append(active.headers, header.c_str());
    if (active.headers != nullptr) set(CURLOPT_HTTPHEADER, active.headers);
  }

  // Keys from the agent or ~/.ssh; the server's key must be known, as for ssh.
  static void set_ssh_options(CURL* handle) {
    const char* home = std::getenv("HOME");
    const auto given = [](const char* variable) {
      const char* value = std::getenv(variable);
      return std::string(value != nullptr ? value : "");
    };
    std::string known = given("PERIGEE_SSH_KNOWN_HOSTS"), key = given("PERIGEE_SSH_KEY");
    if (known.empty()) known = home != nullptr ? std::string(home) + "/.ssh/known_hosts" : "/dev/null";  // none: any key would do
    curl().setopt(handle, CURLOPT_SSH_KNOWNHOSTS, known.c_str());
    if (!key.empty()) curl().setopt(handle, CURLOPT_SSH_PRIVATE_KEYFILE, key.c_str());
    curl().setopt(handle, CURLOPT_SSH_AUTH_TYPES, static_cast<long>(CURLSSH_AUTH_PUBLICKEY | CURLSSH_AUTH_PASSWORD | CURLSSH_AUTH_AGENT));
  }

  void finish(CURL* handle, CURLcode code) {
    const auto found = std::find_if(active_.begin(), active_.end(), [&](const auto& active) { return active->handle == handle; });
    std::unique_ptr<Active> active = std::move(*found);
    active_.erase(found);
    curl().remove(multi_, handle);
    read_answer(*active, code);
    curl().reset(handle);
    if (spare_.size() < kMostActive) spare_.push_back(handle);
    else curl().cleanup(handle);
    curl().free_all(active->headers);
    curl().free_all(active->before);
    curl().free_all(active->after);
    active->done();
  }

  static void read_answer(Active& active, CURLcode code) {
    Transfer& transfer = *active.transfer;
    long status = 0;
    curl_off_t time = -1, length = -1;
    char *redirect = nullptr, *effective = nullptr;
    curl().getinfo(active.handle, CURLINFO_RESPONSE_CODE, &status);
    curl().getinfo(active.handle, CURLINFO_FILETIME_T, &time);
    curl().getinfo(active.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl().getinfo(active.handle, CURLINFO_REDIRECT_URL, &redirect);
    curl().getinfo(active.handle, CURLINFO_EFFECTIVE_URL, &effective);
    if (effective != nullptr) transfer.effective = effective;
    transfer.file_time = time, transfer.length = length;
    if (redirect != nullptr) transfer.redirect = redirect;
    const bool ssh = transfer.url.starts_with("sftp:");
    if (code == CURLE_OK) {
      transfer.status = ssh ? 200 : static_cast<int>(status);
      return;
    }
    transfer.may_go = fault_may_go(code) && !transfer.too_long && transfer.part_fault == PartFault::none;
    if (transfer.too_long) transfer.status = static_cast<int>(status);
    if (code == CURLE_PEER_FAILED_VERIFICATION) transfer.tls = TlsFault::server;
    if (code == CURLE_SSL_CACERT_BADFILE) transfer.tls = TlsFault::no_authorities;
    transfer.problem = transfer.too_long   ? "more bytes came than were asked for"
                       : active.message[0] ? active.message
                                           : curl().strerror(code);
    if (!ssh) return;
    if (active.host_key != nullptr) transfer.problem = active.host_key, transfer.may_go = false;
    if (code == CURLE_REMOTE_FILE_NOT_FOUND) transfer.status = 404;
    else if (code == CURLE_LOGIN_DENIED) transfer.status = 401;
    else if (code == CURLE_REMOTE_ACCESS_DENIED) transfer.status = 403;
    else if (code == CURLE_QUOTE_ERROR || code == CURLE_REMOTE_FILE_EXISTS) transfer.status = 409;
  }

  CURLM* multi_;
  std::vector<std::unique_ptr<Active>> active_;  // these two are the thread's own
  std::vector<CURL*> spare_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Active>> waiting_;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace

void begin_try(TransferTry attempt) {
  auto active = std::make_unique<Active>();
  static_cast<TransferTry&>(*active) = std::move(attempt);
  Loop::shared().begin(std::move(active));
}

}  // namespace perigee
