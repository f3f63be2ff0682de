// The coordinator's list of the workers that hold partitions of the data (data.at = "partitions"). A place stays in it when its holder is lost,
// until another worker holds the partition: readers notice the loss themselves, and the holder may only have lost the coordinator.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"

namespace perigee {

class PartitionDesk {
 public:
  explicit PartitionDesk(std::vector<HeldPartition> of_job);

  // A partition that the job does not have, or with other rows than the job's.
  std::optional<Refuse> why_refused(const Join& join) const;
  // The worker may join: the places that changed.
  Holders take(const Join& join);
  Holders all() const;
  std::vector<std::string> absent() const;  // names of those that no worker has held yet

 private:
  std::map<std::string, HeldPartition> job_;
  std::map<std::string, std::string> places_;  // by name
};

}  // namespace perigee
