// A simulated run whose workers hold partitions of the data (data.at = "partitions"): the data, and one worker's part in it, which is the real
// PartitionExchange on a simulated process of its own. What the simulated trainer reads is compared with what the job's partition has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/data/partition_exchange.h"
#include "cluster/data/served_data.h"
#include "cluster/ledger/ranges.h"
#include "cluster/simulator/network/network.h"

namespace perigee::sim {

class PartitionedData {
 public:
  PartitionedData(int64_t examples, int partitions);

  int partitions() const { return partitions_; }
  std::string manifest() const { return served_.manifest(); }
  const std::vector<HeldPartition>& of_job() const { return served_.partitions(); }
  std::pair<int, int64_t> place(int64_t example) const;  // the partition that has it, and its row there
  static std::string name(int partition) { return "train/" + std::to_string(partition); }
  // `computed_anew`: the same rows in another order, as after a shuffle that is made again.
  SourcePtr rows(int partition, bool computed_anew) const;
  // One row as the job's partition has it.
  bool is_row(int partition, int64_t row, std::span<const float> found) const;

 private:
  int64_t begin(int partition) const { return examples_ * partition / partitions_; }

  int64_t examples_;
  int partitions_;
  ServedData served_;
};

class PartitionNode {
 public:
  // `complain` hears of a row that is not the job's.
  PartitionNode(const PartitionedData& data, Network& network, int process, const std::vector<int>& held, bool computed_anew,
                std::function<void(const std::string&)> complain);

  PartitionExchange& exchange() { return *exchange_; }
  const std::vector<HeldPartition>& held() const { return held_; }
  // All rows of this range are here, once. False: they have been asked for.
  bool has(const Range& range);

 private:
  bool take(const ReadKey& key, int partition);

  const PartitionedData& data_;
  std::function<void(const std::string&)> complain_;
  std::vector<HeldPartition> held_;
  std::unique_ptr<PartitionExchange> exchange_;
  RecordLayout layout_;
  std::set<std::pair<uint64_t, int64_t>> here_;  // epoch and example: of ranges whose other rows have not come
};

}  // namespace perigee::sim
