// Where the keys for S3 come from, in the order of AWS's own tools: environment, web identity, profile files, container, instance. Keys that
// end are got anew in time.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "src/io/store/signature.h"

namespace perigee {

struct AwsSettings {
  std::string profile, region, endpoint;  // endpoint: empty: AWS
  bool unsigned_requests = false;         // AWS_NO_SIGN_REQUEST: public buckets
};
// AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL_S3…, then the profile's own.
AwsSettings aws_settings();

class AwsCredentials {
 public:
  // Error(authentication) when there are none anywhere, saying where they were looked for.
  AwsKeys keys();
  // The store says that they have ended. False: they cannot be got anew.
  bool renew();
  std::string source();  // "the environment (AWS_ACCESS_KEY_ID)", for errors

 private:
  void load();
  bool from_environment();
  bool from_profile();
  bool from_web_identity();
  bool from_container();
  bool from_instance();
  void read_json(const std::string& text, const std::string& where);

  std::mutex mutex_;
  AwsKeys keys_;
  std::string source_;
  int64_t expires_ = 0;  // seconds since 1970; 0: never
  bool renewable_ = false;
};

// The text between <name> and </name> from `at` on, entities resolved; `at` moves behind it. False: there is none.
bool xml_text(std::string_view xml, std::string_view name, size_t& at, std::string& text);
std::string xml_text(std::string_view xml, std::string_view name);  // the first; empty: none

}  // namespace perigee
