#include "src/io/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee {
namespace {

struct Curl {
  Curl() : module({"libcurl.so.4", "libcurl-gnutls.so.4"}, "downloads", "libcurl4") {
    module.symbol("curl_global_init", global_init);
    module.symbol("curl_easy_init", init);
    module.symbol("curl_easy_setopt", setopt);
    module.symbol("curl_easy_perform", perform);
    module.symbol("curl_easy_getinfo", getinfo);
    module.symbol("curl_easy_cleanup", cleanup);
    module.symbol("curl_easy_strerror", strerror);
    global_init(CURL_GLOBAL_DEFAULT);
  }
  Module module;
  CURLcode (*global_init)(long);
  CURL* (*init)();
  CURLcode (*setopt)(CURL*, CURLoption, ...);
  CURLcode (*perform)(CURL*);
  CURLcode (*getinfo)(CURL*, CURLINFO, ...);
  void (*cleanup)(CURL*);
  const char* (*strerror)(CURLcode);
};

struct Receiver {
  Bytes body;
  uint64_t limit;
};

// curl calls this from C: nothing may be thrown through it; a short count ends the transfer.
size_t receive(const char* data, size_t size, size_t count, void* user) {
  auto& receiver = *static_cast<Receiver*>(user);
  const size_t bytes = size * count;
  if (bytes > receiver.limit - receiver.body.size()) return 0;
  try {
    const auto* from = reinterpret_cast<const std::byte*>(data);
    receiver.body.insert(receiver.body.end(), from, from + bytes);
  } catch (const std::exception&) {
    return 0;
  }
  return bytes;
}

std::atomic<const std::atomic<bool>*> stopped_by{nullptr};

// curl asks often, and whenever a signal has ended its wait.
int should_stop(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const std::atomic<bool>* stop = stopped_by;
  return stop && *stop ? 1 : 0;
}

}  // namespace

void stop_downloads_by(const std::atomic<bool>* stop) { stopped_by = stop; }

HttpAnswer http_get(const std::string& url, const HttpOptions& options) {
  static const Curl curl;
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl.init(), curl.cleanup);
  HttpAnswer answer;
  if (!handle) {
    answer.problem = "libcurl has no memory";
    return answer;
  }
  Receiver receiver{{}, options.limit_bytes};
  const auto set = [&](CURLoption option, auto value) { curl.setopt(handle.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.give_up_ms));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options.give_up_ms / 1000)));
  set(CURLOPT_USERAGENT, "perigee/" PERIGEE_VERSION);
  set(CURLOPT_WRITEFUNCTION, &receive);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&receiver));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &should_stop);
  const CURLcode code = curl.perform(handle.get());
  long status = 0;
  curl.getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (code != CURLE_OK) {
    answer.problem = curl.strerror(code);
    return answer;
  }
  answer.status = static_cast<int>(status);
  if (status == 200) answer.body = std::move(receiver.body);
  else answer.problem = "HTTP status " + std::to_string(status);
  return answer;
}

}  // namespace perigee
