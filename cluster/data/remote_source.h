// The data of a job for a worker that has none: leaves that ask the coordinator, and around them what the job says.
#pragma once

#include <string>

#include "cluster/data/example_client.h"
#include "cluster/data/partition_exchange.h"
#include "cluster/data/served_data.h"
#include "src/train/trainer.h"

namespace perigee {

class RemoteOpener final : public SourceOpener {
 public:
  // `manifest` as Welcome brings it; client and partitions outlive all that is opened. `partitions`: where what workers hold is read, this
  // worker among them; null: there is no such. Error(data).
  RemoteOpener(const std::string& manifest, ExampleClient& client, PartitionExchange* partitions = nullptr);
  // Opens no file of this machine, whatever the description says.
  SourcePtr open(const std::string& part, const Config& description, const std::string& folder) override;

 private:
  SourcePtr open_leaf(size_t leaf, const std::string& where);

  Manifest manifest_;
  ExampleClient& client_;
  PartitionExchange* const partitions_;
};

}  // namespace perigee
