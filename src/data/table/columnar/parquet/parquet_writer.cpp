#include "src/data/table/columnar/parquet/parquet_writer.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "src/core/error.h"
#include "src/core/utf8.h"
#include "src/data/table/columnar/parquet/thrift_writer.h"
#include "src/data/table/loops/texts.h"
#include "src/io/codec/zstd.h"

namespace perigee::tables::parquet {
namespace {

constexpr int64_t kGroupRows = 131072;
constexpr uint64_t kGroupBytes = uint64_t{128} << 20;  // of texts and lists: a group ends sooner
constexpr size_t kMostWords = 32768;                   // of a dictionary
constexpr int kLevel = 3;
enum PhysicalType { kBoolean = 0, kInt64 = 2, kDouble = 5, kByteArray = 6 };
enum ParquetWriterEncoding { kPlain = 0, kRle = 3, kRleDictionary = 8 };
enum Codec { kUncompressed = 0, kZstd = 6 };
enum ConvertedType { kUtf8 = 0, kList = 3, kTimestampMillis = 9 };

PhysicalType physical_type(Type type) {
  if (type == Type::boolean) return kBoolean;
  if (type == Type::real || type == Type::list) return kDouble;
  return type == Type::text || type == Type::category ? kByteArray : kInt64;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0, length = 0; i < text.size(); i += length)
    if (length = utf8_length(text, i); length == 0) return false;
  return true;
}

template <class T>
void put_parquet_writer(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Numbers of `width` bits side by side, in a run of eights.
void put_packed(std::string& out, const std::vector<uint32_t>& values, unsigned width) {
  const size_t eights = (values.size() + 7) / 8;
  put_varint(out, eights << 1 | 1);
  uint64_t bits = 0;
  unsigned have = 0;
  for (size_t i = 0; i < eights * 8; ++i) {
    bits |= uint64_t{i < values.size() ? values[i] : 0} << have;
    for (have += width; have >= 8; have -= 8, bits >>= 8) out += static_cast<char>(bits);
  }
}

// Levels with their size in front; a single run where all are equal.
void put_levels(std::string& out, const std::vector<uint32_t>& levels, unsigned width) {
  std::string packed;
  if (std::adjacent_find(levels.begin(), levels.end(), std::not_equal_to<>()) == levels.end()) {
    put_varint(packed, uint64_t{levels.size()} << 1);
    packed += static_cast<char>(levels.empty() ? 0 : levels[0]);
  } else {
    put_packed(packed, levels, width);
  }
  put_parquet_writer(out, static_cast<uint32_t>(packed.size()));
  out += packed;
}

struct Chunk {
  int64_t values = 0, data_at = 0, dictionary_at = -1, plain_bytes = 0, stored_bytes = 0;
};
struct Group {
  std::vector<Chunk> chunks;
  int64_t rows = 0, bytes = 0;
};

class ParquetWriter : public TableWriter {
 public:
  explicit ParquetWriter(const std::string& path) : file_(path) {
    file_.write(as_bytes("PAR1"));
    try {
      Bytes ignored;
      zstd_compress(as_bytes("x"), kLevel, ignored);
      codec_ = kZstd;
    } catch (const Error&) {}  // without the library pages stay as they are
  }

  void add(const Frame& frame) override {
    if (pending_.columns.empty()) {
      pending_ = empty_frame(frame.schema);
      texts_are_utf8_.assign(frame.columns.size(), true);
    }
    for (int64_t done = 0; done < frame.rows;) {
      const int64_t count = std::min(kGroupRows - pending_.rows, frame.rows - done);
      append(frame, done, count);
      done += count;
      uint64_t bytes = 0;
      for (const Column& column : pending_.columns) bytes += column.bytes.size() + 8 * column.items.size();
      if (pending_.rows >= kGroupRows || bytes > kGroupBytes) write_group();
    }
  }

  void finish() override {
    if (pending_.rows > 0) write_group();
    const std::string footer = footer_text();
    file_.write(as_bytes(footer));
    std::string tail;
    put_parquet_writer(tail, static_cast<uint32_t>(footer.size()));
    file_.write(as_bytes(tail + "PAR1"));
    file_.finish();
  }

 private:
  void append(const Frame& frame, int64_t first, int64_t count) {
    if (count == frame.rows) return pending_.append(frame);
    for (size_t c = 0; c < frame.columns.size(); ++c)
      for (int64_t r = first; r < first + count; ++r) pending_.columns[c].add_from(frame.columns[c], r);
    pending_.rows += count;
  }

  void write_group() {
    Group group{.rows = pending_.rows};
    for (size_t c = 0; c < pending_.columns.size(); ++c) {
      group.chunks.push_back(write_column(c, pending_.columns[c], pending_.schema.columns[c]));
      group.bytes += group.chunks.back().plain_bytes;
    }
    groups_.push_back(std::move(group));
    pending_ = empty_frame(pending_.schema);
  }

  Chunk write_column(size_t number, const Column& column, const ColumnSpec& spec) {
    Chunk chunk;
    std::string page, words;
    const int64_t values = put_all_levels(column, page);
    chunk.values = values;
    std::vector<uint32_t> numbers;
    size_t count = 0;
    const bool dictionary =
        (column.type == Type::text || column.type == Type::category) && find_words(number, column, spec, words, numbers, count);
    if (dictionary) {
      unsigned width = 1;
      while (width < 32 && (count > 0 ? count - 1 : 0) >> width != 0) ++width;
      page += static_cast<char>(width);
      put_packed(page, numbers, width);
      chunk.dictionary_at = static_cast<int64_t>(file_.size());
      write_page(words, true, static_cast<int64_t>(count), kPlain, chunk);
    } else {
      put_values(number, column, page);
    }
    chunk.data_at = static_cast<int64_t>(file_.size());
    write_page(page, false, values, dictionary ? kRleDictionary : kPlain, chunk);
    return chunk;
  }

  // Each number of a list is a value; an empty list and a missing one are a value of a level each.
  static int64_t put_all_levels(const Column& column, std::string& page) {
    std::vector<uint32_t> defined, repeated;
    for (int64_t r = 0; r < column.size(); ++r) {
      const bool gone = column.is_missing(r);
      if (column.type != Type::list) {
        defined.push_back(gone ? 0 : 1);
        continue;
      }
      const auto row = static_cast<size_t>(r);
      const uint64_t count = gone ? 0 : column.ends[row] - (row == 0 ? 0 : column.ends[row - 1]);
      for (uint64_t i = 0; i < std::max<uint64_t>(count, 1); ++i) {
        defined.push_back(gone ? 0 : count == 0 ? 1 : 2);
        repeated.push_back(i > 0);
      }
    }
    if (column.type == Type::list) put_levels(page, repeated, 1);
    put_levels(page, defined, column.type == Type::list ? 2 : 1);
    return static_cast<int64_t>(defined.size());
  }

  void note_text(size_t number, std::string_view text) { texts_are_utf8_[number] = texts_are_utf8_[number] && is_utf8(text); }

  // The texts of a dictionary and the number of each value; false: there are too many.
  bool find_words(size_t number, const Column& column, const ColumnSpec& spec, std::string& words, std::vector<uint32_t>& numbers,
                  size_t& count) {
    TextTable table;
    const bool category = column.type == Type::category;
    if (category)
      for (const std::string& name : spec.categories) table.add(name);
    for (int64_t r = 0; r < column.size(); ++r) {
      if (column.is_missing(r)) continue;
      numbers.push_back(static_cast<uint32_t>(category ? column.whole[static_cast<size_t>(r)] : table.add(column.text(r))));
      if (!category && table.size() > kMostWords) return false;
    }
    count = table.size();
    for (size_t w = 0; w < count; ++w) {
      note_text(number, table.text(w));
      put_parquet_writer(words, static_cast<uint32_t>(table.text(w).size()));
      words += table.text(w);
    }
    return true;
  }

  void put_values(size_t number, const Column& column, std::string& page) {
    std::vector<uint32_t> bits;
    for (int64_t r = 0; r < column.size(); ++r) {
      if (column.is_missing(r)) continue;
      const auto row = static_cast<size_t>(r);
      if (column.type == Type::text) {
        note_text(number, column.text(r));
        put_parquet_writer(page, static_cast<uint32_t>(column.text(r).size()));
        page += column.text(r);
      } else if (column.type == Type::real) {
        put_parquet_writer(page, column.real[row]);
      } else if (column.type == Type::list) {
        for (uint64_t i = row == 0 ? 0 : column.ends[row - 1]; i < column.ends[row]; ++i) put_parquet_writer(page, column.items[i]);
      } else if (column.type == Type::boolean) {
        bits.push_back(static_cast<uint32_t>(column.whole[row]));
      } else {
        put_parquet_writer(page, column.whole[row]);
      }
    }
    for (size_t i = 0; i < bits.size(); i += 8) {
      unsigned byte = 0;
      for (size_t b = 0; b < 8 && i + b < bits.size(); ++b) byte |= bits[i + b] << b;
      page += static_cast<char>(byte);
    }
  }

  void write_page(const std::string& page, bool dictionary, int64_t values, int encoding, Chunk& chunk) {
    if (page.size() > INT32_MAX)
      throw Error(
          ErrorKind::data,
          {.where = file_.path(), .what = "a page would be too large for Parquet", .got = std::to_string(page.size() >> 20) + " MiB"});
    Bytes packed;
    if (codec_ == kZstd) zstd_compress(as_bytes(page), kLevel, packed);
    const std::span<const std::byte> stored = codec_ == kZstd ? std::span<const std::byte>(packed) : as_bytes(page);
    ThriftWriter head;
    head.begin();
    head.i32(1, dictionary ? 2 : 0);
    head.i32(2, static_cast<int64_t>(page.size()));
    head.i32(3, static_cast<int64_t>(stored.size()));
    head.structure(dictionary ? 7 : 5);
    head.i32(1, values);
    head.i32(2, encoding);
    if (!dictionary) head.i32(3, kRle), head.i32(4, kRle);
    head.end();
    head.end();
    file_.write(as_bytes(head.bytes));
    file_.write(stored);
    chunk.plain_bytes += static_cast<int64_t>(head.bytes.size() + page.size());
    chunk.stored_bytes += static_cast<int64_t>(head.bytes.size() + stored.size());
  }

  // --- The footer ---

  void put_schema(ThriftWriter& out) const {
    const auto& columns = pending_.schema.columns;
    size_t elements = 1;
    for (const ColumnSpec& spec : columns) elements += spec.type == Type::list ? 3 : 1;
    out.list(2, elements, 12);
    const auto element = [&](std::string_view name, int type, int repetition, int children, int converted) {
      out.begin();
      if (type >= 0) out.i32(1, type);
      if (repetition >= 0) out.i32(3, repetition);
      out.text(4, name);
      if (children > 0) out.i32(5, children);
      if (converted >= 0) out.i32(6, converted);
      out.end();
    };
    element("schema", -1, -1, static_cast<int>(columns.size()), -1);
    for (size_t c = 0; c < columns.size(); ++c) {
      const Type type = columns[c].type;
      if (type == Type::list) {
        element(columns[c].name, -1, 1, 1, kList);
        element("list", -1, 2, 1, -1);
        element("element", kDouble, 0, 0, -1);
        continue;
      }
      const bool text = type == Type::category || (type == Type::text && texts_are_utf8_[c]);
      element(columns[c].name, physical_type(type), 1, 0, text ? kUtf8 : type == Type::time ? kTimestampMillis : -1);
    }
  }

  void put_chunk(ThriftWriter& out, const Chunk& chunk, const ColumnSpec& spec) const {
    out.begin();
    out.i64(2, chunk.dictionary_at >= 0 ? chunk.dictionary_at : chunk.data_at);
    out.structure(3);
    out.i32(1, physical_type(spec.type));
    out.list(2, 3, 5);
    for (const int encoding : {kPlain, kRle, kRleDictionary}) out.plain_i32(encoding);
    out.list(3, spec.type == Type::list ? 3 : 1, 8);
    out.plain_text(spec.name);
    if (spec.type == Type::list) out.plain_text("list"), out.plain_text("element");
    out.i32(4, codec_);
    out.i64(5, chunk.values);
    out.i64(6, chunk.plain_bytes);
    out.i64(7, chunk.stored_bytes);
    out.i64(9, chunk.data_at);
    if (chunk.dictionary_at >= 0) out.i64(11, chunk.dictionary_at);
    out.end();
    out.end();
  }

  std::string footer_text() const {
    ThriftWriter out;
    int64_t rows = 0;
    for (const Group& group : groups_) rows += group.rows;
    out.begin();
    out.i32(1, 1);
    put_schema(out);
    out.i64(3, rows);
    out.list(4, groups_.size(), 12);
    for (const Group& group : groups_) {
      out.begin();
      out.list(1, group.chunks.size(), 12);
      for (size_t c = 0; c < group.chunks.size(); ++c) put_chunk(out, group.chunks[c], pending_.schema.columns[c]);
      out.i64(2, group.bytes);
      out.i64(3, group.rows);
      out.end();
    }
    out.text(6, "perigee");
    out.end();
    return out.bytes;
  }

  PartFile file_;
  Codec codec_ = kUncompressed;
  Frame pending_;
  std::vector<bool> texts_are_utf8_;
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<TableWriter> write_parquet(const std::string& path) { return std::make_unique<ParquetWriter>(path); }

}  // namespace perigee::tables::parquet
