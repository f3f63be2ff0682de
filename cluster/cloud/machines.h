// Machines of Amazon EC2 that a run rents: started all or none, found by their tags, ended.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cloud/aws_api.h"

namespace perigee {

inline constexpr const char* kRunTag = "perigee-run";      // of a machine: which run it belongs to
inline constexpr const char* kUntilTag = "perigee-until";  // when it ends at the latest, as 2026-11-27T04:00:00Z

struct MachineOrder {
  std::string run;    // its name, unique: the same order twice starts machines once
  std::string until;  // for the tag
  int count = 1;
  std::vector<std::string> types;  // the first that AWS has is taken
  bool spot = false;
  std::string image;                        // "ami-…" or "resolve:ssm:PARAMETER"
  std::string role;                         // name of the instance profile
  std::string subnet, security_group, key;  // empty: AWS's defaults, no key
  std::string user_data;
};

struct Machine {
  std::string id, run, type, state, address, started, until;
  bool spot = false;
  bool ends() const { return state == "shutting-down" || state == "terminated"; }
};

class Machines {
 public:
  explicit Machines(const std::string& region);

  // The type that was started. Error(resources) when AWS has none of the types, Error(authentication), Error(usage) as AWS refuses it. An answer
  // that is lost starts nothing twice: each type's order has a token.
  std::string start(const MachineOrder& order);
  // Those of a run that are not terminated; of all runs when it is empty.
  std::vector<Machine> list(const std::string& run);
  void end(const std::vector<Machine>& machines);

  // US dollars an hour of one machine; nothing when AWS does not say.
  std::optional<double> spot_price(const std::string& type);
  std::optional<double> price(const std::string& type);

 private:
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  std::string call(const std::string& action, Parameters parameters);  // the answer in XML
  [[noreturn]] void refuse(const std::string& action, const AwsApi::Answer& answer);

  AwsApi ec2_;
};

}  // namespace perigee
