#include "src/data/records/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "src/core/thread_team.h"
#include "src/data/fingerprint.h"
#include "src/data/records/encoded.h"
#include "src/data/sound/rated.h"
#include "src/data/streams.h"
#include "src/io/digest.h"
#include "src/io/record/shard_writer.h"

namespace perigee::records {
namespace {

constexpr const char* kWhere = "perigee data prepare";
constexpr size_t kShardBytes = size_t{256} << 20, kBlockBytes = size_t{64} << 10, kWaveBytes = size_t{4} << 20;
constexpr int64_t kEncodedRows = 16;  // of a block
constexpr int64_t kPrepareSamples = 64, kMostPrepareShards = 1'000'000;

// A folder that one process at a time prepares.
class Lock {
 public:
  explicit Lock(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    file_ = ::open((folder + "/plan.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) throw Error(ErrorKind::resources, {.where = folder, .what = std::string("cannot be written: ") + std::strerror(errno)});
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      ::close(file_);
      throw Error(ErrorKind::usage, {.where = folder, .what = "another process prepares records here", .hint = "wait for it, or stop it"});
    }
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_ = -1;
};

// Memory for the fields of one example.
class Slots {
 public:
  explicit Slots(const RecordFields& fields) {
    for (const StoredField& stored : fields.fields) {
      const size_t bytes = static_cast<size_t>(stored.field.shape.elements()) * dtype_bytes(stored.field.dtype);
      memory_.emplace_back(stored.encoded ? 0 : bytes);
      slots_.push_back(memory_.back().data());
    }
  }
  std::span<std::byte* const> all() const { return slots_; }

 private:
  std::vector<Bytes> memory_;
  std::vector<std::byte*> slots_;
};

class Preparation {
 public:
  Preparation(const DataSource& source, const Json& description, const std::string& folder, const PrepareOptions& options)
      : source_(source),
        encoded_(options.encoded ? dynamic_cast<const EncodedSource*>(&source) : nullptr),
        folder_(folder),
        options_(options),
        fields_(lay_out(source.fields(), options.encoded)),
        prepared_(description) {
    if (options.encoded && encoded_ == nullptr)
      throw Error(ErrorKind::usage, {.where = kWhere,
                                     .what = "the examples of this source are not made of encoded files",
                                     .got = source.traits().description,
                                     .expected = "images or audio",
                                     .hint = "leave out --encoded"});
    expect_same_in_each_epoch();
    choose_sizes();
  }

  PreparedRecords run() {
    const Lock lock(folder_);
    keep_plan();
    PreparedRecords result{.records = source_.size(), .shards = shards_};
    Json hashes = Json::array();
    statistics_.assign(fields_.fields.size(), {});
    for (int64_t s = 0; s < shards_; ++s) {
      const std::string path = path_in(folder_, shard_name(s));
      const bool kept = is_whole(path, s);
      result.kept += kept;
      if (!kept) write_shard(path, s);
      const Shard shard(path);
      result.bytes += shard.bytes();
      hashes.push(hex_digest(shard.hash()));
      const Json* statistics = shard.about().find("statistics");
      for (size_t f = 0; f < statistics_.size(); ++f) statistics_[f].merge(statistics_of(statistics->as_array().at(f), path));
      done_ = std::min((s + 1) * per_shard_, source_.size());
      tell();
    }
    write_manifest(std::move(hashes));
    return result;
  }

 private:
  int64_t rows_of(int64_t shard) const { return std::min(per_shard_, source_.size() - shard * per_shard_); }
  void tell() const {
    if (options_.progress) options_.progress(done_, source_.size());
  }

  void read(const ReadKey& key, const Slots& slots, Bytes& piece) const {
    if (encoded_ != nullptr) encoded_->encoded(key.index, piece, slots.all());
    else source_.read(key, slots.all());
  }

  void expect_same_in_each_epoch() const {
    if (source_.traits().live || streams_of(source_) > 0)
      throw Error(ErrorKind::usage, {.where = kWhere,
                                     .what = "these examples go on from one to the next, or appear while a program runs",
                                     .got = source_.traits().description,
                                     .expected = "examples that stand alone"});
    if (encoded_ != nullptr) return;
    const Slots a(fields_), b(fields_);
    Bytes none;
    const int64_t count = std::min<int64_t>(16, source_.size());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = i * (source_.size() / count);
      read({.index = index, .epoch = 0, .seed = 1}, a, none);
      read({.index = index, .epoch = 1, .seed = 2}, b, none);
      for (size_t f = 0; f < fields_.fields.size(); ++f)
        if (std::memcmp(a.all()[f], b.all()[f], fields_.fields[f].bytes) != 0)
          throw Error(ErrorKind::usage,
                      {.where = kWhere,
                       .what = "the examples are others in each epoch, so that they cannot be made once",
                       .got = source_.traits().description,
                       .hint = "--encoded keeps pictures as they are, and training draws from them; else leave out what draws"});
    }
  }

  void choose_sizes() {
    const size_t stride = std::max<size_t>(fields_.layout.stride, 8);
    fields_.layout.per_block =
        fields_.layout.variable > 0 ? kEncodedRows : static_cast<int64_t>(std::clamp<size_t>(kBlockBytes / stride, 1, 65536));
    size_t record = stride;
    if (fields_.layout.variable > 0) {
      const Slots slots(fields_);
      Bytes piece;
      size_t sum = 0;
      const int64_t count = std::min(kPrepareSamples, source_.size());
      for (int64_t i = 0; i < count; ++i) {
        read({.index = i * (source_.size() / count)}, slots, piece);
        sum += piece.size();
      }
      record += sum / static_cast<size_t>(count) + 8;
    }
    block_bytes_ = record * static_cast<size_t>(fields_.layout.per_block);
    const auto fitting = static_cast<int64_t>(std::max<size_t>(kShardBytes / block_bytes_, 1));
    const int64_t wanted = options_.shard_records > 0 ? options_.shard_records : fitting * fields_.layout.per_block;
    per_shard_ = std::max<int64_t>(1, std::min(wanted, source_.size()));
    fields_.layout.per_block = std::min(fields_.layout.per_block, per_shard_);
    shards_ = (source_.size() - 1) / per_shard_ + 1;
    if (shards_ > kMostPrepareShards)
      throw Error(ErrorKind::usage, {.where = kWhere,
                                     .what = "there would be too many files",
                                     .got = std::to_string(shards_),
                                     .expected = "at most a million",
                                     .hint = "more records in each: --shard-records"});
  }

  // The plan is all that decides the bytes. A folder has one.
  void keep_plan() {
    Json plan(Json::Object{{"format", kFormat},
                           {"data", prepared_},
                           {"fields", fields_json(fields_)},
                           {"records", source_.size()},
                           {"per_shard", per_shard_},
                           {"per_block", fields_.layout.per_block},
                           {"compression", options_.level},
                           {"fingerprint", options_.encoded ? encoded_fingerprint() : hex_digest(fingerprint(source_, 0))}});
    plan_ = hex_digest(xxh3_64(as_bytes(plan.dump())));
    const std::string path = path_in(folder_, "plan.json");
    if (file_exists(path)) {
      const Json found = Json::parse(as_text(read_file(path, uint64_t{64} << 20)), path);
      if (found.dump() == plan.dump()) return;
      std::string differs;
      for (const auto& [key, value] : plan.as_object())
        if (const Json* other = found.find(key); other == nullptr || *other != value) differs += (differs.empty() ? "" : ", ") + key;
      throw Error(ErrorKind::usage, {.where = folder_,
                                     .what = "the folder holds records of another preparation",
                                     .got = "another " + differs,
                                     .hint = "take another folder, or delete this one"});
    }
    if (file_exists(path_in(folder_, shard_name(0))))
      throw Error(ErrorKind::usage, {.where = folder_, .what = "the folder holds records without a plan", .hint = "take another folder"});
    write_file(path, as_bytes(plan.dump(1) + "\n"));
  }

  std::string encoded_fingerprint() const {
    const Slots slots(fields_);
    Bytes piece;
    uint64_t hash = 0;
    const int64_t count = std::min(kPrepareSamples, source_.size());
    for (int64_t i = 0; i < count; ++i) {
      read({.index = i * (source_.size() / count)}, slots, piece);
      hash = xxh3_64(piece, hash);
    }
    return hex_digest(hash);
  }

  bool is_whole(const std::string& path, int64_t number) const {
    if (!file_exists(path)) return false;
    const Shard shard(path);
    const Json *plan = shard.about().find("plan"), *index = shard.about().find("shard"), *statistics = shard.about().find("statistics");
    const bool ours = plan != nullptr && *plan == Json(plan_) && index != nullptr && *index == Json(number) && statistics != nullptr &&
                      statistics->is_array() && statistics->as_array().size() == fields_.fields.size() &&
                      shard.records() == rows_of(number);
    if (!ours)
      throw Error(ErrorKind::usage,
                  {.where = path, .what = "the record file is of another preparation", .hint = "delete it, or take another folder"});
    return true;
  }

  struct Made {
    BlockBuilder::Encoded block;
    std::vector<FieldStatistics> statistics;
  };

  void make_block(int64_t first, int64_t rows, BlockBuilder& builder, const Slots& slots, Bytes& piece, Made& made) const {
    builder.clear();
    made.statistics.assign(fields_.fields.size(), {});
    for (int64_t r = 0; r < rows; ++r) {
      read({.index = first + r}, slots, piece);
      std::byte* row = builder.add_row();
      for (size_t f = 0; f < fields_.fields.size(); ++f) {
        const StoredField& stored = fields_.fields[f];
        if (stored.encoded) {
          builder.add_piece(piece);
          continue;
        }
        std::memcpy(row + stored.offset, slots.all()[f], stored.bytes);
        made.statistics[f].add(stored, slots.all()[f]);
      }
    }
    made.block = builder.encode();
  }

  // A wave of blocks is made on all threads, then written in order.
  void write_shard(const std::string& path, int64_t number) {
    const int64_t rows = rows_of(number), per_block = fields_.layout.per_block, blocks = (rows - 1) / per_block + 1;
    const auto wave = static_cast<int64_t>(std::clamp<size_t>(kWaveBytes / block_bytes_, 1, 64)) * options_.threads;
    ShardWriter writer(path, fields_.layout);
    std::vector<FieldStatistics> statistics(fields_.fields.size());
    std::vector<Made> made(static_cast<size_t>(std::min(wave, blocks)));
    ThreadTeam team(options_.threads);
    for (int64_t begin = 0; begin < blocks; begin += wave) {
      const int64_t end = std::min(begin + wave, blocks);
      expect(number * per_shard_ + begin * per_block, number * per_shard_ + std::min(end * per_block, rows));
      std::atomic<int64_t> next{begin};
      team.run([&](Team&) {
        BlockBuilder builder(fields_.layout, options_.level);
        const Slots slots(fields_);
        Bytes piece;
        for (int64_t b = next++; b < end; b = next++)
          make_block(number * per_shard_ + b * per_block, std::min(per_block, rows - b * per_block), builder, slots, piece,
                     made[static_cast<size_t>(b - begin)]);
      });
      for (int64_t b = begin; b < end; ++b) {
        const Made& each = made[static_cast<size_t>(b - begin)];
        writer.add(each.block);
        for (size_t f = 0; f < statistics.size(); ++f) statistics[f].merge(each.statistics[f]);
      }
      done_ = number * per_shard_ + std::min(end * per_block, rows);
      tell();
    }
    Json list = Json::array();
    for (const FieldStatistics& each : statistics) list.push(each.json());
    Json about(Json::Object{{"shard", number},
                            {"first", number * per_shard_},
                            {"plan", plan_},
                            {"fields", fields_json(fields_)},
                            {"statistics", std::move(list)},
                            {"prepared", prepared_}});
    writer.finish(rows, about);
  }

  void expect(int64_t begin, int64_t end) const {
    if (source_.traits().read_ahead == 0) return;
    std::vector<ReadKey> keys;
    for (int64_t i = begin; i < end; ++i) keys.push_back({.index = i});
    source_.expect(keys);
  }

  void write_manifest(Json hashes) const {
    Json list = Json::array();
    for (const FieldStatistics& each : statistics_) list.push(each.json());
    Json manifest(Json::Object{{"format", kFormat},
                               {"records", source_.size()},
                               {"per_shard", per_shard_},
                               {"fields", fields_json(fields_)},
                               {"statistics", std::move(list)}});
    if (const double rate = rate_of(source_); rate > 0) manifest.set("rate", rate);
    manifest.set("prepared", prepared_);
    manifest.set("shards", std::move(hashes));
    write_file(path_in(folder_, kManifest), as_bytes(manifest.dump(1) + "\n"));
  }

  const DataSource& source_;
  const EncodedSource* encoded_;
  std::string folder_;
  PrepareOptions options_;
  RecordFields fields_;
  Json prepared_;
  int64_t per_shard_ = 1, shards_ = 1, done_ = 0;
  size_t block_bytes_ = 1;
  std::string plan_;
  std::vector<FieldStatistics> statistics_;
};

// The description as others read it: numbers that stand in it are not kept twice.
Json without_numbers(const Json& description) {
  const Json* type = description.find("type");
  if (type != nullptr && *type == Json("arrays")) return Json(Json::Object{{"type", "arrays"}});
  Json result = description;
  if (Json* inner = result.find("source"); inner != nullptr) *inner = without_numbers(*inner);
  if (Json* list = result.find("sources"); list != nullptr && list->is_array())
    for (Json& each : list->as_array()) each = without_numbers(each);
  return result;
}

}  // namespace

PreparedRecords prepare_records(const DataSource& source, const Json& description, const std::string& folder,
                                const PrepareOptions& options) {
  return Preparation(source, without_numbers(description), folder, options).run();
}

}  // namespace perigee::records
