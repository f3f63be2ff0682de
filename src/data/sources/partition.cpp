#include "src/data/records/partition.h"

#include <utility>

#include "src/data/fingerprint.h"
#include "src/data/records/field_json.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 52;
constexpr size_t kMostPartitionName = 200;

// Known by what it is, and held by another process.
class AbsentPartition final : public DataSource {
 public:
  explicit AbsentPartition(PartitionAbout about) : about_(std::move(about)) {}
  int64_t size() const override { return about_.rows; }
  const std::vector<Field>& fields() const override { return about_.fields; }
  void read(const ReadKey&, std::span<std::byte* const>) const override {
    throw AbsentRows(ErrorKind::data, {.where = "partition '" + about_.name + "'",
                                       .what = "lies with a worker, and this process has to read its examples",
                                       .expected = "workers alone that read them, under data.at = \"partitions\"",
                                       .hint = "give weights of classes as numbers, and train with --listen"});
  }
  SourceTraits traits() const override {
    return {.description = "partition " + about_.name + " (" + std::to_string(about_.rows) + " rows)", .fixed = true, .read_ahead = 1};
  }

 private:
  const PartitionAbout about_;
};

SourcePtr open_partition(const Config& config, const std::string& folder) {
  PartitionAbout about = read_partition(config);
  const Json* given = config.raw("source");
  if (!given || given->is_null()) return std::make_shared<AbsentPartition>(std::move(about));
  SourcePtr source = open_source(config.element(*given, "source"), folder);
  if (const std::string hash = partition_hash(*source); hash != about.hash)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "the source of the partition '" + about.name + "' has other rows than the partition",
                                  .got = std::to_string(source->size()) + " rows with hash " + hash,
                                  .expected = std::to_string(about.rows) + " rows with hash " + about.hash});
  return source;
}

constexpr Option kPartitionOptions[] = {
    {"name", "string", nullptr, "what the worker that holds it calls it"},
    {"rows", "integer", nullptr, "examples in it", {1, 4503599627370496.0}},
    {"hash", "string", nullptr, "of all its bytes, as `perigee data partition` prints it"},
    {"fields", "any", nullptr, "each field's name, dtype, shape and classes, as `perigee data partition` prints them"},
    {"source", "source", "none", "where this process has it; else a worker holds it"}};

}  // namespace

namespace {
thread_local FitsLater* fits_later = nullptr;
}  // namespace

FitsLater::FitsLater() : outer_(std::exchange(fits_later, this)) {}
FitsLater::~FitsLater() { fits_later = outer_; }
bool FitsLater::postpone() { return fits_later != nullptr && (fits_later->any_ = true); }

PartitionAbout read_partition(const Config& config) {
  PartitionAbout about{.name = config.string("name"),
                       .hash = config.string("hash"),
                       .rows = config.integer_in("rows", 1, kMostRows),
                       .fields = fields_from_json(config)};
  if (about.name.empty() || about.name.size() > kMostPartitionName)
    config.fail("name", "must be a name", about.name.substr(0, 32), "1 to " + std::to_string(kMostPartitionName) + " bytes");
  return about;
}

std::string partition_hash(const DataSource& source) { return hex_digest(fingerprint(source, 0, true)); }

Json describe_partition(const std::string& name, const DataSource& source) {
  const SourceTraits traits = source.traits();
  if (traits.live || !traits.fixed)
    throw Error(ErrorKind::data, {.where = "partition '" + name + "'",
                                  .what = "its examples are other ones in each epoch, and so have no hash",
                                  .got = traits.description,
                                  .expected = "a source that reads what is stored",
                                  .hint = "put random transforms around the partition in the job"});
  Json fields = Json::array();
  for (const Field& field : source.fields()) fields.push(field_to_json(field));
  return Json(Json::Object{
      {"type", "partition"}, {"name", name}, {"rows", source.size()}, {"hash", partition_hash(source)}, {"fields", std::move(fields)}});
}

bool is_partition(const Json& description) {
  const Json* type = description.find("type");
  return type && type->is_string() && type->as_string() == "partition";
}

extern const SourceDef source_partition;
const SourceDef source_partition{.type = "partition",
                                 .doc = "Rows that one worker of a cluster holds and serves to the others, under data.at = \"partitions\"",
                                 .schema = {.options = kPartitionOptions},
                                 .open = open_partition};

}  // namespace perigee
