#include "src/data/table/columnar/records/tfrecord.h"

#include "src/core/error.h"
#include "src/data/table/columnar/records/record_table.h"
#include "src/data/table/columnar/records/wire.h"
#include "src/io/damaged.h"
#include "src/io/plot/tensorboard.h"

namespace perigee::tables {
namespace {

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
T tfrecord_little(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

// One list of a feature: bytes_list 1, float_list 2, int64_list 3. False: damage.
bool read_tfrecord_list(uint64_t field, std::string_view bytes, RecordField& out) {
  WireReader list(bytes);
  size_t count = 0;
  while (list.next()) {
    if (list.field != 1) continue;
    if (field == 1) {
      if (list.kind != 2) return false;
      if (++count > 1) out.refusal = "a record has several texts in it";
      out.cell = {.kind = Cell::Kind::text, .text = list.bytes};
    } else if (field == 2) {
      if (list.kind == 5) out.list.push_back(static_cast<double>(wire_float(list.bytes)));
      else if (list.kind != 2 || list.bytes.size() % 4 != 0) return false;
      else
        for (size_t i = 0; i < list.bytes.size(); i += 4) out.list.push_back(static_cast<double>(wire_float(list.bytes.substr(i, 4))));
    } else {
      if (list.kind == 0) out.cell.whole = static_cast<int64_t>(list.number), out.list.push_back(static_cast<double>(out.cell.whole));
      else if (list.kind != 2) return false;
      for (WireReader packed(list.kind == 2 ? list.bytes : std::string_view()); !packed.empty();) {
        uint64_t value = 0;
        if (!packed.varint(value)) return false;
        out.cell.whole = static_cast<int64_t>(value);
        out.list.push_back(static_cast<double>(out.cell.whole));
      }
    }
  }
  if (!list.ok()) return false;
  if (field == 1) return true;
  // One number is no list.
  out.is_list = out.list.size() > 1;
  if (out.list.size() == 1 && field == 2) out.cell = {.kind = Cell::Kind::real, .real = out.list[0]};
  if (out.list.size() == 1 && field == 3) out.cell.kind = Cell::Kind::whole;
  if (!out.is_list) out.list.clear();
  return true;
}

// The features of an Example. False: it is none.
bool read_example(std::string_view record, std::vector<RecordField>& fields) {
  fields.clear();
  WireReader example(record);
  while (example.next()) {
    if (example.field != 1 || example.kind != 2) return false;
    WireReader features(example.bytes);
    while (features.next()) {
      if (features.field != 1 || features.kind != 2) return false;
      WireReader entry(features.bytes);
      RecordField field;
      std::string_view value;
      while (entry.next()) {
        if (entry.kind != 2) return false;
        if (entry.field == 1) field.name = entry.bytes;
        if (entry.field == 2) value = entry.bytes;
      }
      WireReader feature(value);
      while (feature.next())
        if (feature.kind != 2 || feature.field < 1 || feature.field > 3 || !read_tfrecord_list(feature.field, feature.bytes, field))
          return false;
      if (!entry.ok() || !feature.ok()) return false;
      fields.push_back(std::move(field));
    }
    if (!features.ok()) return false;
  }
  return example.ok();
}

class TfRecordFile : public RecordTable {
 public:
  explicit TfRecordFile(const ColumnarInput& input) : name_(input.name), bytes_(as_text(input.content)), owner_(input.owner) {
    for (size_t at = 0; at < bytes_.size();) {
      if (bytes_.size() - at < 12) damaged("the head of a record is cut short", at);
      const auto size = tfrecord_little<uint64_t>(bytes_.substr(at));
      if (tfrecord_little<uint32_t>(bytes_.substr(at + 8)) != masked_crc(bytes_.substr(at, 8)))
        damaged("the checksum of a record's length differs: the file is damaged", at);
      if (bytes_.size() - at - 12 < 4 || size > bytes_.size() - at - 16) damaged("a record is cut short", at);
      places_.emplace_back(at + 12, size);
      at += 16 + size;
    }
    std::vector<RecordField> fields;
    example_ = !places_.empty() && read_example(record(0), fields) && !fields.empty();
    find_columns(name_, bytes_.size());
  }

 protected:
  uint64_t records() const override { return places_.size(); }
  void each(uint64_t first, uint64_t count, const Use& use) const override {
    std::vector<RecordField> fields;
    for (uint64_t r = first; r < first + count; ++r) {
      const auto [at, size] = places_[r];
      if (tfrecord_little<uint32_t>(bytes_.substr(at + size)) != masked_crc(record(r)))
        damaged("the checksum of a record differs: the file is damaged", at);
      if (!example_) fields = {{.name = "record", .cell = {.kind = Cell::Kind::text, .text = record(r)}}};
      else if (!read_example(record(r), fields)) damaged("a record is no tf.train.Example", at);
      use(fields);
    }
  }

 private:
  [[noreturn]] void damaged(const char* what, uint64_t at, const char* hint = kGetAnew) const {
    throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(at), .what = what, .hint = hint});
  }
  std::string_view record(uint64_t number) const { return bytes_.substr(places_[number].first, places_[number].second); }

  std::string name_;
  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  std::vector<std::pair<uint64_t, uint64_t>> places_;
  bool example_ = false;
};

}  // namespace

bool begins_as_tfrecord(std::string_view head) {
  return head.size() >= 12 && tfrecord_little<uint32_t>(head.substr(8)) == masked_crc(head.substr(0, 8));
}

std::unique_ptr<ColumnarFile> open_tfrecord(const ColumnarInput& input) { return std::make_unique<TfRecordFile>(input); }

}  // namespace perigee::tables
