#include "src/io/http.h"

#include "src/io/store/transfer.h"

namespace perigee {
namespace {

std::atomic<const std::atomic<bool>*> stopped_by{nullptr};

}  // namespace

void stop_downloads_by(const std::atomic<bool>* stop) { stopped_by = stop; }

bool downloads_stopped() {
  const std::atomic<bool>* stop = stopped_by;
  return stop && *stop;
}

HttpAnswer http_get(const std::string& url, const HttpOptions& options) {
  HttpAnswer answer;
  Transfer transfer;
  transfer.url = url;
  transfer.limit = options.limit_bytes;
  transfer.stall_ms = options.give_up_ms;
  transfer.redirects = 5;
  transfer.tries = 1;
  perform(transfer, url);
  answer.problem = transfer.problem;
  if (!answer.problem.empty()) return answer;
  answer.status = transfer.status;
  if (answer.status == 200) answer.body = std::move(transfer.content);
  else answer.problem = "HTTP status " + std::to_string(answer.status);
  return answer;
}

}  // namespace perigee
