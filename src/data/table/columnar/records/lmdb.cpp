#include "src/data/table/columnar/records/lmdb.h"

#include <algorithm>
#include <bit>

#include "src/core/error.h"
#include "src/data/table/columnar/records/record_table.h"
#include "src/data/table/columnar/records/wire.h"
#include "src/io/damaged.h"

namespace perigee::tables {
namespace {

constexpr uint32_t kMagic = 0xbeefc0de;
constexpr size_t kLmdbHead = 16;  // of a page
constexpr int kMostLmdbDepth = 64;
enum PageKind : unsigned { kBranch = 1, kLeaf = 2, kOverflow = 4, kMeta = 8 };
enum NodeKind : unsigned { kBigData = 1, kSubData = 2, kDuplicates = 4 };

template <class T>
T lmdb_little(std::string_view bytes, uint64_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i));
  return value;
}

struct Record {
  std::string_view key, value;
};

// The records of a database's main tree, in the order of their keys.
class Tree {
 public:
  Tree(const std::string& name, std::string_view bytes) : name_(name), bytes_(bytes) {
    if (bytes.size() < 4096) damaged("the database is cut short", bytes.size());
    page_size_ = lmdb_little<uint32_t>(bytes, kLmdbHead + 24);
    if (page_size_ < 512 || page_size_ > 65536 || !std::has_single_bit(page_size_))
      damaged("the database has pages of an impossible size", kLmdbHead + 24);
    if (bytes.size() < 2 * uint64_t{page_size_}) damaged("the database is cut short", bytes.size());
    // The younger of the two first pages counts.
    uint64_t meta = kLmdbHead, newest = 0;
    for (const uint64_t at : {uint64_t{kLmdbHead}, kLmdbHead + uint64_t{page_size_}}) {
      if (lmdb_little<uint32_t>(bytes, at) != kMagic) continue;
      const auto number = lmdb_little<uint64_t>(bytes, at + 128);
      if (at == kLmdbHead || number > newest) meta = at, newest = number;
    }
    if (lmdb_little<uint32_t>(bytes, meta + 4) != 1) damaged("the database has an unknown version", meta + 4);
    const auto flags = lmdb_little<uint16_t>(bytes, meta + 24 + 48 + 4);
    if ((flags & kDuplicates) != 0)
      damaged("the database has several values of a key, which is not read", meta + 24 + 48 + 4, "write it without MDB_DUPSORT");
    const auto root = lmdb_little<uint64_t>(bytes, meta + 24 + 48 + 40);
    met_.resize(bytes.size() / page_size_);
    if (root != ~uint64_t{0}) visit(root, 0);
  }
  std::vector<Record> records;

 private:
  [[noreturn]] void damaged(const char* what, uint64_t at, const char* hint = kGetAnew) const {
    throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(at), .what = what, .hint = hint});
  }

  uint64_t place(uint64_t page, uint64_t from) const {
    if (page >= bytes_.size() / page_size_) damaged("a page of the database is not in the file", from);
    return page * page_size_;
  }

  void visit(uint64_t number, int depth) {
    const uint64_t at = place(number, 0);
    if (depth > kMostLmdbDepth || met_[number]) damaged("the tree of the database comes back to a page", at);
    met_[number] = true;
    const unsigned flags = lmdb_little<uint16_t>(bytes_, at + 10);
    const auto lower = lmdb_little<uint16_t>(bytes_, at + 12);
    if (lower < kLmdbHead || lower > page_size_ || ((flags & kBranch) == 0) == ((flags & kLeaf) == 0))
      damaged("a page of the database is none of a tree", at);
    for (uint64_t i = 0; i < (lower - kLmdbHead) / 2; ++i) {
      const uint64_t inside = lmdb_little<uint16_t>(bytes_, at + kLmdbHead + 2 * i);
      if (inside < lower || inside + 8 > page_size_) damaged("an entry of the database lies outside its page", at + kLmdbHead + 2 * i);
      if ((flags & kLeaf) != 0) leaf(at, inside);
      else visit(lmdb_little<uint32_t>(bytes_, at + inside) | uint64_t{lmdb_little<uint16_t>(bytes_, at + inside + 4)} << 32, depth + 1);
    }
  }

  void leaf(uint64_t page, uint64_t inside) {
    const uint64_t at = page + inside;
    const uint64_t size = lmdb_little<uint32_t>(bytes_, at), key = lmdb_little<uint16_t>(bytes_, at + 6);
    const unsigned kind = lmdb_little<uint16_t>(bytes_, at + 4);
    if ((kind & (kSubData | kDuplicates)) != 0)
      damaged("the database has databases in it, which are not read", at, "write each into an environment of its own");
    const uint64_t room = page_size_ - inside - 8, stored = (kind & kBigData) != 0 ? 8 : size;
    if (key > room || stored > room - key) damaged("an entry of the database leads out of its page", at);
    uint64_t begin = at + 8 + key;
    if ((kind & kBigData) != 0) {
      begin = place(lmdb_little<uint64_t>(bytes_, begin), begin) + kLmdbHead;
      if (size > bytes_.size() - begin) damaged("a value of the database leads out of the file", at);
    }
    // No two entries share bytes.
    sum_ += 8 + key + size;
    if (sum_ > bytes_.size()) damaged("entries of the database share bytes", at);
    records.push_back({bytes_.substr(at + 8, key), bytes_.substr(begin, size)});
  }

  const std::string& name_;
  std::string_view bytes_;
  uint32_t page_size_ = 0;
  uint64_t sum_ = 0;
  std::vector<bool> met_;
};

// Caffe's Datum: channels 1, height 2, width 3, data 4, label 5, float_data 6, encoded 7. False: it is none.
bool read_datum(std::string_view value, RecordField& label, RecordField& data) {
  WireReader wire(value);
  uint64_t elements = 1;
  bool encoded = false;
  std::string_view bytes;
  label = {.name = "label"};
  data = {.name = "data"};
  while (wire.next()) {
    if (wire.field >= 1 && wire.field <= 3 && wire.kind == 0 && wire.number > 0 && wire.number < 1 << 20) elements *= wire.number;
    else if (wire.field == 4 && wire.kind == 2) bytes = wire.bytes;
    else if (wire.field == 5 && wire.kind == 0) label.cell = {.kind = Cell::Kind::whole, .whole = static_cast<int32_t>(wire.number)};
    else if (wire.field == 6 && wire.kind == 5) data.list.push_back(static_cast<double>(wire_float(wire.bytes)));
    else if (wire.field == 6 && wire.kind == 2)
      for (size_t i = 0; i + 4 <= wire.bytes.size(); i += 4) data.list.push_back(static_cast<double>(wire_float(wire.bytes.substr(i, 4))));
    else if (wire.field == 7 && wire.kind == 0) encoded = wire.number != 0;
    else return false;
  }
  if (!wire.ok()) return false;
  data.is_list = !encoded;
  if (encoded) {
    data.cell = {.kind = Cell::Kind::text, .text = bytes};
    return data.list.empty() && !bytes.empty();
  }
  if (data.list.empty())
    for (const char c : bytes) data.list.push_back(static_cast<uint8_t>(c));
  return !data.list.empty() && data.list.size() == elements;
}

class LmdbFile : public RecordTable {
 public:
  explicit LmdbFile(const ColumnarInput& input) : name_(input.name), tree_(name_, as_text(input.content)), owner_(input.owner) {
    RecordField label, data;
    datum_ = !tree_.records.empty() && read_datum(tree_.records[0].value, label, data);
    find_columns(name_, input.content.size());
  }

 protected:
  uint64_t records() const override { return tree_.records.size(); }
  void each(uint64_t first, uint64_t count, const Use& use) const override {
    const auto text = [](std::string_view name, std::string_view value) {
      return RecordField{.name = name, .cell = {.kind = Cell::Kind::text, .text = value}};
    };
    std::vector<RecordField> fields(datum_ ? 3 : 2);
    for (uint64_t r = first; r < first + count; ++r) {
      const Record& record = tree_.records[r];
      fields[0] = text("key", record.key);
      if (!datum_) fields[1] = text("value", record.value);
      else if (!read_datum(record.value, fields[1], fields[2]))
        throw Error(ErrorKind::data, {.where = name_ + ": record " + std::to_string(r + 1),
                                      .what = "a value is no Datum of Caffe's, as the first is",
                                      .hint = kGetAnew});
      use(fields);
    }
  }

 private:
  std::string name_;
  Tree tree_;
  std::shared_ptr<const void> owner_;
  bool datum_ = false;
};

}  // namespace

bool begins_as_lmdb(std::string_view head) {
  return head.size() > kLmdbHead + 8 && lmdb_little<uint32_t>(head, kLmdbHead) == kMagic && lmdb_little<uint16_t>(head, 10) == kMeta;
}

std::unique_ptr<ColumnarFile> open_lmdb(const ColumnarInput& input) { return std::make_unique<LmdbFile>(input); }

}  // namespace perigee::tables
