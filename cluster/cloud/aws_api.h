// Calls of AWS's services beside S3: signed, and tried again while the fault may go away.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/io/store/credentials.h"

namespace perigee {

class AwsApi {
 public:
  // `service` as signatures name it ("ec2"); `host` where AWS has it. AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL names another server.
  AwsApi(std::string service, std::string host, std::string region);

  struct Answer {
    int status = 0;    // of HTTP; 0: none came
    std::string body;  // at most 8 MiB
    std::string problem;
    bool ok() const { return status == 200; }
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case
  // A POST to "/". Error(authentication) without credentials.
  Answer post(const std::string& body, const Headers& headers);

  const std::string& region() const { return region_; }
  std::string source() { return credentials_.source(); }

 private:
  const std::string service_, region_;
  std::string endpoint_;
  AwsCredentials credentials_;
};

}  // namespace perigee
