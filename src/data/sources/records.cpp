// {"type": "records", "folder": "out/train"}: what `perigee data prepare` has written, mapped into memory. Pictures that were kept as they were
// are decoded by the options of `images`, recordings as they were prepared.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "src/data/records/record_set.h"
#include "src/data/sound/decoder.h"
#include "src/data/sound/rated.h"
#include "src/data/sources/picture_options.h"

namespace perigee {
namespace {

using records::RecordSet;
using records::Shard;
using records::ShardBlock;
using records::StoredField;

constexpr size_t kCacheBytes = size_t{256} << 20;  // of decompressed blocks

// Decompressed blocks, each in the place that its number gives it. A warm one allocates nothing.
struct CachedBlock {
  std::mutex mutex;
  int64_t block = -1;
  Bytes memory;
};

class RecordsSource : public DataSource, public RatedSource {
 public:
  RecordsSource(RecordSet set, Json fitted, std::optional<PictureDecoder> decoder, std::optional<SoundDecoder> sound)
      : set_(std::move(set)), fitted_(std::move(fitted)), decoder_(std::move(decoder)), sound_(sound) {
    for (const StoredField& stored : set_.fields.fields) fields_.push_back(stored.field);
    if (decoder_) fields_[0].shape = decoder_->shape();
    count_blocks();
  }

  int64_t size() const override { return set_.records; }
  double rate() const override { return set_.rate; }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    const bool direct = !any_compressed_ && !decoder_ && !sound_;
    return {.description = "records (" + std::to_string(set_.records) + " examples, " + set_.folder + ")",
            .fitted = fitted_,
            .cheap = direct,
            .fixed = !decoder_ || !decoder_->draws(),
            .touches = direct};
  }

  void expect(std::span<const ReadKey> keys) const override {
    for (const ReadKey& key : keys) set_.shards[static_cast<size_t>(key.index / set_.per_shard)]->expect(key.index % set_.per_shard);
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    assert(key.index >= 0 && key.index < set_.records && slots.size() == fields_.size());
    const int64_t shard_number = key.index / set_.per_shard, record = key.index % set_.per_shard;
    const Shard& shard = *set_.shards[static_cast<size_t>(shard_number)];
    const int64_t per_block = set_.fields.layout.per_block, block = record / per_block, row = record % per_block;
    if (!shard.compressed(block)) return take(shard.block(block), row, key, slots, nullptr);
    thread_local Bytes encoded;
    const int64_t number = shard_number * blocks_per_shard_ + block;
    CachedBlock& cached = cache_[static_cast<size_t>(number) % cached_];
    {
      const std::lock_guard lock(cached.mutex);
      if (cached.block != number) cached.block = -1;  // stays so where the block turns out to be damaged
      const ShardBlock found = cached.block == number
                                   ? ShardBlock({cached.memory.data(), shard.block_bytes(block)}, shard.rows(block), shard.layout())
                                   : shard.block(block, cached.memory);
      cached.block = number;
      take(found, row, key, slots, &encoded);
    }
    if (decoder_ || sound_) decode(encoded, key, slots[0]);
  }

 private:
  void decode(std::span<const std::byte> piece, const ReadKey& key, std::byte* to) const {
    if (sound_) sound_->decode(piece, place(key.index), reinterpret_cast<float*>(to));
    else decoder_->decode(piece, place(key.index), key, reinterpret_cast<float*>(to));
  }

  void count_blocks() {
    size_t largest = 1;
    int64_t blocks = 0;
    for (const auto& shard : set_.shards) {
      blocks_per_shard_ = std::max(blocks_per_shard_, shard->blocks());
      for (int64_t b = 0; b < shard->blocks(); ++b)
        if (shard->compressed(b)) any_compressed_ = true, ++blocks, largest = std::max(largest, shard->block_bytes(b));
    }
    cached_ = std::clamp<size_t>(kCacheBytes / largest, 1, static_cast<size_t>(std::max<int64_t>(blocks, 1)));
    if (any_compressed_) cache_ = std::make_unique<CachedBlock[]>(cached_);
  }

  std::string place(int64_t index) const {
    return path_in(set_.folder, records::shard_name(index / set_.per_shard)) + ": record " + std::to_string(index % set_.per_shard);
  }

  // `encoded`: where the bytes of the first field go when their memory does not last; null: they are decoded here.
  void take(const ShardBlock& block, int64_t row, const ReadKey& key, std::span<std::byte* const> slots, Bytes* encoded) const {
    const std::byte* from = block.row(row);
    for (size_t i = 0; i < slots.size(); ++i) {
      const StoredField& stored = set_.fields.fields[i];
      if (!stored.encoded) {
        std::memcpy(slots[i], from + stored.offset, stored.bytes);
        if (stored.field.classes > 0) check_labels(stored.field, slots[i], key.index);
        continue;
      }
      const std::span<const std::byte> piece = block.piece(row, stored.offset);
      if (encoded != nullptr) encoded->assign(piece.begin(), piece.end());
      else decode(piece, key, slots[i]);
    }
  }

  // A label becomes an index: it is a class, or -1, which counts for nothing.
  void check_labels(const Field& field, const std::byte* values, int64_t index) const {
    const auto check = [&](int64_t label) {
      if (label < -1 || label >= field.classes)
        throw Error(ErrorKind::data, {.where = place(index),
                                      .what = "the label '" + field.name + "' is out of range",
                                      .got = std::to_string(label),
                                      .expected = "0 to " + std::to_string(field.classes - 1)});
    };
    for (int64_t i = 0; i < field.shape.elements(); ++i) {
      if (field.dtype == Dtype::i64) check(reinterpret_cast<const int64_t*>(values)[i]);
      else if (field.dtype == Dtype::i32) check(reinterpret_cast<const int32_t*>(values)[i]);
    }
  }

  RecordSet set_;
  Json fitted_;
  std::optional<PictureDecoder> decoder_;
  std::optional<SoundDecoder> sound_;
  std::vector<Field> fields_;
  int64_t blocks_per_shard_ = 0;
  bool any_compressed_ = false;
  size_t cached_ = 1;
  std::unique_ptr<CachedBlock[]> cache_;
};

// The recordings' form is that of the field; none where the records hold pictures.
std::optional<SoundDecoder> sound_decoder(const RecordSet& set) {
  const Json* source = &set.prepared;
  while (const Json* inner = source->find("source")) source = inner;
  const Json* type = source->find("type");
  if (!set.fields.fields[0].encoded || type == nullptr || !type->is_string() || type->as_string() != "audio") return std::nullopt;
  const Field& x = set.fields.fields[0].field;
  if (x.shape.rank() != 2 || x.shape.elements() == 0 || set.rate < 1)
    throw Error(ErrorKind::data,
                {.where = set.folder, .what = "the records of recordings do not say their rate and length", .got = x.shape.text()});
  return SoundDecoder{.rate = std::llround(set.rate), .channels = x.shape[0], .steps = x.shape[1]};
}

// The options that the pictures' source had, with those of this one instead where it has them.
Json picture_options(const Config& config, const RecordSet& set) {
  Json options = Json::object();
  const Json* source = &set.prepared;
  while (const Json* inner = source->find("source")) source = inner;
  for (const Option& option : kPictureOptions) {
    if (const Json* before = source->find(option.name); before != nullptr) options.set(option.name, *before);
    if (config.has(option.name)) options.set(option.name, *config.raw(option.name));
  }
  return options;
}

void expect_classes(const Config& config, const RecordSet& set) {
  const Json* known = config.raw("fitted")->find("fields");
  if (known == nullptr) config.fail("fitted", "has no fields");
  const records::RecordFields fitted = records::fields_of(*known, config.where() + ": fitted");
  for (const StoredField& stored : set.fields.fields)
    for (const StoredField& other : fitted.fields)
      if (stored.field.name == other.field.name && stored.field.class_names != other.field.class_names)
        throw Error(ErrorKind::data, {.where = set.folder,
                                      .what = "the classes of '" + stored.field.name + "' are not those of the training records",
                                      .hint = "prepare both parts from one job, so that they have the same classes"});
}

SourcePtr open_records_source(const Config& config, const std::string& folder) {
  RecordSet set = records::open_records(path_in(folder, config.string("folder")));
  std::optional<PictureDecoder> decoder;
  const std::optional<SoundDecoder> sound = sound_decoder(set);
  Json prepared = set.prepared;
  if (set.fields.fields[0].encoded && !sound) {
    const Json options = picture_options(config, set);
    decoder.emplace(Config(options, config.where(), ErrorKind::data));
    for (const auto& [key, value] : options.as_object()) prepared.set(key, value);
  } else {
    for (const Option& option : kPictureOptions)
      if (config.has(option.name))
        config.fail(option.name,
                    sound ? "is of pictures, and these records hold recordings" : "is of pictures, and these records hold arrays", "", "",
                    "`perigee data prepare --encoded` keeps pictures as they are");
  }
  for (size_t i = 1; i < set.fields.fields.size(); ++i)
    if (set.fields.fields[i].encoded) throw Error(ErrorKind::data, {.where = set.folder, .what = "only the first field may be encoded"});
  Json fitted(Json::Object{{"type", "records"}, {"fields", records::fields_json(set.fields)}, {"prepared", std::move(prepared)}});
  if (config.has("fitted")) {
    expect_classes(config, set);
    fitted = *config.raw("fitted");
  }
  return std::make_shared<RecordsSource>(std::move(set), std::move(fitted), std::move(decoder), sound);
}

constexpr const char* kRecordsPositional[] = {"folder"};
constexpr std::array<Option, std::size(kPictureOptions) + 2> kRecordsOptions = [] {
  std::array<Option, std::size(kPictureOptions) + 2> all{};
  all[0] = {"folder", "file", nullptr, "what `perigee data prepare` has written"};
  for (size_t i = 0; i < std::size(kPictureOptions); ++i) {
    all[i + 1] = kPictureOptions[i];
    all[i + 1].fallback = "as prepared";
  }
  all.back() = {"fitted", "table", "none", "what was learned from the training part"};
  return all;
}();

}  // namespace

extern const SourceDef source_records;
const SourceDef source_records{
    .type = "records",
    .doc =
        "Records that `perigee data prepare` has written, from 'folder'. Options, of pictures kept as they were: "
        "those of images",
    .schema = {.options = kRecordsOptions, .positional = kRecordsPositional},
    .open = open_records_source};

}  // namespace perigee
