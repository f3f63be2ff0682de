#include "cluster/simulator/partition_node.h"

#include <array>
#include <cassert>

#include "src/data/records/partition.h"

namespace perigee::sim {
namespace {

using PartitionRow = std::array<float, 2>;  // the partition's number, and the row's

SourcePtr open_rows(int partition, int64_t rows, bool computed_anew) {
  Json x = Json::array();
  for (int64_t row = 0; row < rows; ++row) x.push(Json(Json::Array{Json(partition), Json(computed_anew ? rows - 1 - row : row)}));
  return open_source(Config(Json(Json::Object{{"type", "arrays"}, {"x", std::move(x)}}), "scenario"), ".");
}

}  // namespace

PartitionedData::PartitionedData(int64_t examples, int partitions) : examples_(examples), partitions_(partitions) {
  assert(partitions > 0 && examples >= 2 * partitions);  // a partition of one row has no other order
  Json sources = Json::array();
  for (int i = 0; i < partitions; ++i) sources.push(describe_partition(name(i), *rows(i, false)));
  served_.open("train", Config(Json(Json::Object{{"type", "concat"}, {"sources", std::move(sources)}}), "scenario"), ".");
}

SourcePtr PartitionedData::rows(int partition, bool computed_anew) const {
  return open_rows(partition, begin(partition + 1) - begin(partition), computed_anew);
}

std::pair<int, int64_t> PartitionedData::place(int64_t example) const {
  int partition = 0;
  while (begin(partition + 1) <= example) ++partition;
  return {partition, example - begin(partition)};
}

bool PartitionedData::is_row(int partition, int64_t row, std::span<const float> found) const {
  return found[0] == static_cast<float>(partition) && found[1] == static_cast<float>(row);
}

PartitionNode::PartitionNode(const PartitionedData& data, Network& network, int process, const std::vector<int>& held, bool computed_anew,
                             std::function<void(const std::string&)> complain)
    : data_(data), complain_(std::move(complain)), layout_(data.rows(0, false)->fields()) {
  PartitionExchange::Held sources;
  for (const int partition : held) {
    const SourcePtr rows = sources[PartitionedData::name(partition)] = data.rows(partition, computed_anew);
    held_.push_back({.name = PartitionedData::name(partition), .hash = partition_hash(*rows), .rows = rows->size()});
  }
  exchange_ = std::make_unique<PartitionExchange>(
      std::move(sources), network.clock(process), network.transport(process),
      [&network, process](std::function<void()> work) { network.post(process, 0, std::move(work)); },
      PartitionExchangeOptions{.threads = 0});
  network.boot(process, exchange_.get());
}

bool PartitionNode::has(const Range& range) {
  bool all = true;
  for (int64_t at = range.begin; at < range.begin + range.count; ++at) {
    if (here_.contains({range.epoch, at})) continue;
    const auto [partition, row] = data_.place(at);
    if (take({.index = row, .epoch = range.epoch}, partition)) here_.emplace(range.epoch, at);
    else all = false;
  }
  if (all)
    for (int64_t at = range.begin; at < range.begin + range.count; ++at) here_.erase({range.epoch, at});
  return all;
}

bool PartitionNode::take(const ReadKey& key, int partition) {
  PartitionRow found{};
  std::byte* slots[] = {reinterpret_cast<std::byte*>(found.data())};
  if (const SourcePtr own = exchange_->held(PartitionedData::name(partition))) own->read(key, slots);
  else if (const auto leaf = static_cast<uint32_t>(partition); !exchange_->client_of(leaf).take(leaf, layout_, key, slots)) return false;
  if (!data_.is_row(partition, key.index, found))
    complain_("row " + std::to_string(key.index) + " of partition " + std::to_string(partition) + " comes as row " +
              std::to_string(static_cast<int64_t>(found[1])) + " of " + std::to_string(static_cast<int64_t>(found[0])));
  return true;
}

}  // namespace perigee::sim
