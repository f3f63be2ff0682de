#include "cluster/cloud/aws_api.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>

#include "src/core/error.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/store/signature.h"
#include "src/io/store/transfer.h"

namespace perigee {
namespace {

constexpr uint64_t kMostBytes = 8 << 20;

std::string endpoint_of(std::string service, const std::string& host) {
  std::transform(service.begin(), service.end(), service.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const std::string& name : {"AWS_ENDPOINT_URL_" + service, std::string("AWS_ENDPOINT_URL")}) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    std::string endpoint = value;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://"))
      throw Error(ErrorKind::usage,
                  {.where = name, .what = "is no address", .got = "'" + endpoint + "'", .expected = "https://host or http://host:port"});
    return endpoint;
  }
  return "https://" + host;
}

}  // namespace

AwsApi::AwsApi(std::string service, std::string host, std::string region)
    : service_(std::move(service)), region_(std::move(region)), endpoint_(endpoint_of(service_, host)) {}

AwsApi::Answer AwsApi::post(const std::string& body, const Headers& headers) {
  Transfer transfer;
  transfer.method = "POST", transfer.has_body = true, transfer.limit = kMostBytes;
  transfer.body = {as_bytes(body)};
  transfer.url = endpoint_ + "/";
  const std::string hash = sha256_hex(as_bytes(body));
  transfer.prepare = [&](Transfer& t) {
    const AwsKeys keys = credentials_.keys();
    AwsRequest request{.method = "POST",
                       .path = "/",
                       .query = {},
                       .headers = headers,
                       .payload_hash = hash,
                       .region = region_,
                       .service = service_,
                       .date = aws_date(std::time(nullptr))};
    request.headers.emplace_back("host", endpoint_.substr(endpoint_.find("://") + 3));
    request.headers.emplace_back("x-amz-date", request.date);
    if (!keys.token.empty()) request.headers.emplace_back("x-amz-security-token", keys.token);
    t.headers = {"Expect:"};
    for (const auto& [name, value] : request.headers)
      if (name != "host") t.headers.push_back(name + ": " + value);
    t.headers.push_back("Authorization: " + aws_authorization(request, keys));
  };
  transfer.again = [](Transfer& t) {
    return as_text(t.content).find("RequestLimitExceeded") != std::string_view::npos;  // too many calls, not too many machines
  };
  perform(transfer, endpoint_);
  return {transfer.problem.empty() ? transfer.status : 0, std::string(as_text(transfer.content)), transfer.problem};
}

}  // namespace perigee
