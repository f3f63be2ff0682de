// Fetches whole documents by HTTP and HTTPS, with libcurl, which is loaded on first use.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "src/io/file.h"

namespace perigee {

struct HttpOptions {
  int64_t give_up_ms = 3000;  // without connection, or without a byte arriving
  uint64_t limit_bytes = uint64_t{1} << 30;
};

struct HttpAnswer {
  int status = 0;       // 200, 404...; 0: there was no complete answer
  std::string problem;  // why not 200; empty otherwise
  Bytes body;           // of a 200
};

// While `*stop` is true, downloads end at once and none begins; null: nothing ends them. For the whole program.
void stop_downloads_by(const std::atomic<bool>* stop);

// Never throws for what the network does. Error(resources) when libcurl is not installed.
HttpAnswer http_get(const std::string& url, const HttpOptions& options = {});

}  // namespace perigee
