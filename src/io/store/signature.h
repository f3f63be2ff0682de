// AWS Signature Version 4: Authorization headers that S3 and STS accept.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#pragma once

#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace perigee {

struct AwsKeys {
  std::string id, secret, token;
};

struct AwsRequest {
  std::string method, path;                                  // encoded; S3 does not normalise it
  std::vector<std::pair<std::string, std::string>> query;    // not encoded
  std::vector<std::pair<std::string, std::string>> headers;  // to be signed, "host" among them; names in lower case
  std::string payload_hash;                                  // SHA-256 in hexadecimal
  std::string region, service;
  std::string date;  // 20130524T000000Z
};

std::string aws_date(std::time_t time);
std::string canonical_query(std::vector<std::pair<std::string, std::string>> query);
std::string canonical_request(const AwsRequest& request);
std::string aws_string_to_sign(const AwsRequest& request);
// The value of the Authorization header.
std::string aws_authorization(const AwsRequest& request, const AwsKeys& keys);

}  // namespace perigee
