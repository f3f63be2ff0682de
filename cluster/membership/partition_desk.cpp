#include "cluster/membership/partition_desk.h"

#include <cassert>
#include <utility>

#include "cluster/planted.h"

namespace perigee {
namespace {

std::string rows_text(const HeldPartition& held) { return std::to_string(held.rows) + " rows with hash " + held.hash; }

}  // namespace

PartitionDesk::PartitionDesk(std::vector<HeldPartition> of_job) {
  for (HeldPartition& partition : of_job) {
    const std::string name = partition.name;
    [[maybe_unused]] const bool fresh = job_.emplace(name, std::move(partition)).second;
    assert(fresh);  // ServedData refuses two of a name
  }
}

std::optional<Refuse> PartitionDesk::why_refused(const Join& join) const {
  for (const HeldPartition& held : join.held) {
    const auto known = job_.find(held.name);
    if (known == job_.end())
      return Refuse{.kind = 3,
                    .what = "the worker holds the partition '" + held.name + "', which this run's data do not have",
                    .got = rows_text(held),
                    .expected = job_.empty() ? "none: data.at is not \"partitions\"" : std::to_string(job_.size()) + " others",
                    .hint = "name it in the job as `perigee data partition` prints it"};
    if (known->second != held && !planted(Bug::partition_unchecked))
      return Refuse{.kind = 3,
                    .what = "the partition '" + held.name + "' has other rows than when the run began",
                    .got = rows_text(held),
                    .expected = rows_text(known->second),
                    .hint =
                        "rows that come out of a shuffle have another order when they are computed again: sort each partition "
                        "(sortWithinPartitions), or persist() the data"};
  }
  if (!join.held.empty() && join.serves.empty()) return Refuse{.kind = 5, .what = "the worker holds partitions and does not say where"};
  return std::nullopt;
}

Holders PartitionDesk::take(const Join& join) {
  Holders changed;
  for (const HeldPartition& held : join.held) {
    std::string& place = places_[held.name];
    if (place == join.serves) continue;
    place = join.serves;
    changed.places.push_back({held.name, place});
  }
  return changed;
}

Holders PartitionDesk::all() const {
  Holders all;
  for (const auto& [name, address] : places_) all.places.push_back({name, address});
  return all;
}

std::vector<std::string> PartitionDesk::absent() const {
  std::vector<std::string> names;
  for (const auto& [name, partition] : job_)
    if (!places_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace perigee
