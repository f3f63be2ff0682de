// Facts that a machine of EC2 can ask about itself, by version 2 of the service, which wants a token. AWS_EC2_METADATA_SERVICE_ENDPOINT names
// another place than 169.254.169.254.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
#pragma once

#include <string>

namespace perigee {

class InstanceMetadata {
 public:
  InstanceMetadata();
  // "local-ipv4" and the like, with the blanks at its ends taken away. Empty: there is no such fact, or this is no machine of EC2.
  std::string get(const std::string& name);
  const std::string& endpoint() const { return endpoint_; }

 private:
  std::string endpoint_, token_;
};

}  // namespace perigee
