#include "src/io/store/signature.h"

#include <algorithm>

#include "src/io/digest.h"
#include "src/io/store/url.h"

namespace perigee {
namespace {

std::string scope_of(const AwsRequest& request) {
  return request.date.substr(0, 8) + "/" + request.region + "/" + request.service + "/aws4_request";
}

std::string hash_of(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text.data(), text.size()))); }

std::vector<std::pair<std::string, std::string>> sorted_headers(const AwsRequest& request) {
  auto headers = request.headers;
  std::stable_sort(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return headers;
}

std::string signed_names(const AwsRequest& request) {
  std::string names, last;
  for (const auto& [name, value] : sorted_headers(request)) {
    if (name != last) names += (names.empty() ? "" : ";") + name;
    last = name;
  }
  return names;
}

// Blanks around are left out, several become one.
std::string signature_trimmed(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' || (!result.empty() && result.back() != ' ')) result += c;
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace

std::string aws_date(std::time_t time) {
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

std::string canonical_query(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) name = percent_encoded(name), value = percent_encoded(value);
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::string canonical_request(const AwsRequest& request) {
  std::string text = request.method + "\n" + request.path + "\n" + canonical_query(request.query) + "\n", last;
  for (const auto& [name, value] : sorted_headers(request)) {
    if (name == last) text.back() = ',', text += signature_trimmed(value) + "\n";
    else text += name + ":" + signature_trimmed(value) + "\n";
    last = name;
  }
  return text + "\n" + signed_names(request) + "\n" + request.payload_hash;
}

std::string aws_string_to_sign(const AwsRequest& request) {
  return "AWS4-HMAC-SHA256\n" + request.date + "\n" + scope_of(request) + "\n" + hash_of(canonical_request(request));
}

std::string aws_authorization(const AwsRequest& request, const AwsKeys& keys) {
  std::string key = hmac_sha256("AWS4" + keys.secret, request.date.substr(0, 8));
  for (const std::string& part : {request.region, request.service, std::string("aws4_request")}) key = hmac_sha256(key, part);
  return "AWS4-HMAC-SHA256 Credential=" + keys.id + "/" + scope_of(request) + ", SignedHeaders=" + signed_names(request) +
         ", Signature=" + hex_text(hmac_sha256(key, aws_string_to_sign(request)));
}

}  // namespace perigee
