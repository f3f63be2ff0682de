// The data of a job for a worker that has none: leaves that ask the coordinator, and around them what the job says.
#pragma once

#include <string>

#include "cluster/data/example_client.h"
#include "cluster/data/served_data.h"
#include "src/train/trainer.h"

namespace perigee {

class RemoteOpener final : public SourceOpener {
 public:
  // `manifest` as Welcome brings it; the client outlives all that is opened. Error(data).
  RemoteOpener(const std::string& manifest, ExampleClient& client);
  // Opens no file of this machine, whatever the description says.
  SourcePtr open(const std::string& part, const Config& description, const std::string& folder) override;

 private:
  Manifest manifest_;
  ExampleClient& client_;
};

}  // namespace perigee
