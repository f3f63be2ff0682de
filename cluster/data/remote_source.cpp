#include "cluster/data/remote_source.h"

#include <utility>

namespace perigee {
namespace {

class RemoteSource final : public DataSource {
 public:
  RemoteSource(uint32_t number, Manifest::Source about, ExampleClient& client)
      : number_(number), about_(std::move(about)), client_(client) {}

  int64_t size() const override { return about_.size; }
  const std::vector<Field>& fields() const override { return about_.fields; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override { client_.read(number_, about_.layout, key, slots); }
  void expect(std::span<const ReadKey> keys) const override { client_.expect(number_, about_.layout, keys); }
  SourceTraits traits() const override {
    return {.description = about_.describe, .fitted = about_.fitted, .read_ahead = client_.room_for(about_.layout)};
  }

 private:
  const uint32_t number_;
  const Manifest::Source about_;
  ExampleClient& client_;
};

}  // namespace

RemoteOpener::RemoteOpener(const std::string& manifest, ExampleClient& client, PartitionExchange* partitions)
    : manifest_(read_manifest(manifest)), client_(client), partitions_(partitions) {}

// A worker reads its own partitions where they lie.
SourcePtr RemoteOpener::open_leaf(size_t leaf, const std::string& where) {
  const Manifest::Source& about = manifest_.sources[leaf];
  if (about.partition.empty()) return std::make_shared<RemoteSource>(static_cast<uint32_t>(leaf), about, client_);
  if (!partitions_)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "workers hold this part of the data, and this process cannot ask them",
                                  .got = "partition '" + about.partition + "'",
                                  .hint = "start it as `perigee worker --join`"});
  if (const SourcePtr own = partitions_->held(about.partition)) return own;
  return std::make_shared<RemoteSource>(static_cast<uint32_t>(leaf), about, partitions_->client_of(leaf));
}

SourcePtr RemoteOpener::open(const std::string& part, const Config& description, const std::string& folder) {
  const auto found = manifest_.parts.find(part);
  if (found == manifest_.parts.end())
    throw Error(ErrorKind::data, {.where = description.where(),
                                  .what = "the coordinator does not serve the part '" + part + "'",
                                  .hint = "start its workers with the run's own job"});
  const std::vector<size_t>& leaves = found->second.leaves;
  size_t next = 0;
  const auto mismatch = [&] {
    return Error(ErrorKind::data, {.where = description.where(),
                                   .what = "the coordinator serves other sources than the job names",
                                   .got = std::to_string(leaves.size())});
  };
  const LeafScope scope([&](const Config&, const std::string&) -> SourcePtr {
    if (next == leaves.size()) throw mismatch();
    return open_leaf(leaves[next++], description.where());
  });
  // Transforms that are fitted to the data were fitted by the coordinator: to do it here would fetch every example. Those that are fitted to
  // partitions were not: each worker reads the rows once for it, in their order, and so all have the same values, to the bit.
  const Json fitted = with_fitted(description.json(), found->second.fitted);
  SourcePtr source = open_source(Config(fitted, description.where(), ErrorKind::data), folder);
  if (next != leaves.size()) throw mismatch();
  return source;
}

}  // namespace perigee
