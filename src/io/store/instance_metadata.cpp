#include "src/io/store/instance_metadata.h"

#include <cstdlib>

#include "src/io/store/transfer.h"

namespace perigee {
namespace {

// The service is near: it answers soon, or not at all.
bool answered(Transfer& transfer, int64_t stall_ms, int tries) {
  transfer.stall_ms = stall_ms, transfer.tries = tries;
  perform(transfer, transfer.url);
  return transfer.status == 200 && transfer.problem.empty();
}

std::string without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos ? "" : std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin));
}

}  // namespace

InstanceMetadata::InstanceMetadata() {
  const char* given = std::getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  endpoint_ = given != nullptr && *given != '\0' ? given : "http://169.254.169.254";
  while (endpoint_.ends_with('/')) endpoint_.pop_back();
}

std::string InstanceMetadata::get(const std::string& name) {
  if (token_.empty()) {
    Transfer token;
    token.method = "PUT", token.has_body = true, token.url = endpoint_ + "/latest/api/token";
    token.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", "Expect:"};
    if (!answered(token, 1000, 1)) return "";
    token_ = without_blanks(as_text(token.content));
  }
  Transfer fact;
  fact.url = endpoint_ + "/latest/meta-data/" + name;
  fact.headers = {"X-aws-ec2-metadata-token: " + token_};
  const bool good = answered(fact, 2000, 3);
  if (fact.status == 401) token_.clear();  // it has ended: the next question gets another
  return good ? without_blanks(as_text(fact.content)) : "";
}

}  // namespace perigee
