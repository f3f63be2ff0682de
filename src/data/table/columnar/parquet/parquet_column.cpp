#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "src/core/error.h"
#include "src/data/table/columnar/parquet/parquet_file.h"
#include "src/io/codec/blocks.h"
#include "src/io/codec/zstd.h"

namespace perigee::tables::parquet {
namespace {

using ParquetColumnSpan = std::span<const std::byte>;

void decompress(Codec codec, ParquetColumnSpan in, std::span<std::byte> out, const Place& place) {
  const std::string where = place.where + ": page at byte " + std::to_string(place.offset);
  switch (codec) {
    case Codec::none: break;
    case Codec::snappy: return snappy_decompress(in, out, where);
    case Codec::gzip: return gzip_decompress(in, out, where);
    case Codec::brotli: return brotli_decompress(in, out, where);
    case Codec::zstd: return zstd_decompress(in, out, where);
    case Codec::lz4_raw: return lz4_block_decompress(in, out, where);
    case Codec::lz4:  // three things have gone by this name
      if (lz4_hadoop_decompress(in, out, where)) return;
      if (in.size() >= 4 && std::memcmp(in.data(), "\x04\x22\x4D\x18", 4) == 0) return lz4_frame_decompress(in, out, where);
      return lz4_block_decompress(in, out, where);
    case Codec::lzo: break;
  }
  place.damaged("the page is compressed by LZO, which is not read", "write the file again with zstd");
}

class ColumnReader {
 public:
  ColumnReader(ParquetColumnSpan file, const Leaf& leaf, const Chunk& chunk, const RowRange& range, const std::string& where, Room& room,
               Column& column)
      : file_(file),
        leaf_(leaf),
        chunk_(chunk),
        range_(range),
        place_{where, chunk.begin, most_page(file.size())},
        room_(room),
        column_(column) {}

  void run() {
    uint64_t at = chunk_.begin;
    while (done_ < chunk_.values && (leaf_.lists > 0 || done_ < range_.to)) {
      place_.offset = at;
      if (at >= file_.size()) place_.damaged("the column's pages lead out of the file");
      const PageHead head = read_page_head(file_.subspan(at), place_.where, at);
      at += head.head_bytes;
      if (static_cast<uint64_t>(head.stored) > file_.size() - at) place_.damaged("the page leads out of the file");
      const ParquetColumnSpan stored = file_.subspan(at, static_cast<size_t>(head.stored));
      at += stored.size();
      if (head.kind == PageHead::Kind::index || head.kind == PageHead::Kind::other) continue;
      if (head.has_sum && ::crc32_z(0, reinterpret_cast<const Bytef*>(stored.data()), stored.size()) != head.sum)
        place_.damaged("the page's checksum does not match: it is damaged");
      if (head.kind == PageHead::Kind::dictionary) read_dictionary(head, stored);
      else read_data(head, stored);
    }
  }

 private:
  // The plain bytes behind the levels of a page of version 2, or of the whole page.
  ParquetColumnSpan plain(const PageHead& head, ParquetColumnSpan stored, Bytes& memory) const {
    const auto before = static_cast<uint64_t>(head.depth_bytes + head.repeat_bytes);
    if (head.kind == PageHead::Kind::data2) {
      if (before > stored.size() || before > static_cast<uint64_t>(head.plain)) place_.damaged("the page's levels lead out of it");
      stored = stored.subspan(before);
    }
    const uint64_t size = static_cast<uint64_t>(head.plain) - (head.kind == PageHead::Kind::data2 ? before : 0);
    const bool packed = chunk_.codec != Codec::none && (head.kind != PageHead::Kind::data2 || head.compressed);
    if (!packed) return stored;
    if (size > place_.room) place_.damaged("the page says that it is far larger than its compressed bytes");
    if (size == 0) return {};
    memory.resize(size);
    decompress(chunk_.codec, stored, memory, place_);
    return memory;
  }

  void read_dictionary(const PageHead& head, ParquetColumnSpan stored) {
    if (head.encoding != 0 && head.encoding != 2) place_.damaged("the dictionary has an encoding that it cannot have");
    check_page(head);
    const ParquetColumnSpan bytes = plain(head, stored, dictionary_bytes_);
    read_values(bytes, 0, leaf_, static_cast<size_t>(head.values), dictionary_, place_);
    entries_ = static_cast<size_t>(head.values);
    convert_values(leaf_, dictionary_, place_);
    has_dictionary_ = true;
  }

  void read_data(const PageHead& head, ParquetColumnSpan stored) {
    if (head.values > chunk_.values - done_) place_.damaged("the column has more values than it says");
    if (leaf_.lists == 0 && done_ + head.values <= range_.from) {
      done_ += head.values;
      return;
    }
    check_page(head);
    ParquetColumnSpan bytes = plain(head, stored, page_bytes_);
    if (leaf_.lists > 0) {
      read_list(head, stored, bytes);
      done_ += head.values;
      return;
    }
    const auto values = static_cast<size_t>(head.values);
    const size_t there =
        head.kind == PageHead::Kind::data2
            ? read_levels(stored.subspan(static_cast<size_t>(head.repeat_bytes), static_cast<size_t>(head.depth_bytes)), values)
            : read_first_levels(head, bytes, values);
    const Part part = part_of(values, there);
    if (there > 0 && (head.encoding == 2 || head.encoding == 8)) read_numbers(bytes, there, part);
    else if (there > 0) {
      read_values(bytes, head.encoding, leaf_, there, values_, place_);
      convert_values(leaf_, values_, place_);
      append(values_, part);
    }
    spread(part);
    done_ += head.values;
  }

  // The wanted part of a page: rows, and the values that are there in them.
  struct Part {
    size_t row = 0, rows = 0, value = 0, values = 0;
  };
  Part part_of(size_t values, size_t there) const {
    const auto begin = static_cast<size_t>(std::max<int64_t>(range_.from - done_, 0));
    const auto end = static_cast<size_t>(std::min<int64_t>(range_.to - done_, static_cast<int64_t>(values)));
    if (there == values) return {begin, end - begin, begin, end - begin};
    const auto count = [&](size_t from, size_t to) {
      return static_cast<size_t>(std::count(levels_.begin() + static_cast<ptrdiff_t>(from), levels_.begin() + static_cast<ptrdiff_t>(to),
                                            static_cast<uint32_t>(leaf_.depth)));
    };
    return {begin, end - begin, count(0, begin), count(begin, end)};
  }

  // The dictionary, and what a page is taken apart to, before any of it is allocated.
  void check_page(const PageHead& head) {
    const bool texts = leaf_.physical == Physical::bytes || leaf_.physical == Physical::fixed || leaf_.physical == Physical::int96;
    const bool places = head.encoding == 2 || head.encoding == 8, lengths = head.encoding == 6 || head.encoding == 7;
    const bool dictionary_page = head.kind == PageHead::Kind::dictionary;
    const uint64_t levels = dictionary_page ? 0 : leaf_.lists > 0 ? 16 : 4;
    const uint64_t each = levels + (places && !dictionary_page ? 4 : lengths ? 56 : texts ? 24 : 12);
    const auto values = static_cast<uint64_t>(head.values);
    const uint64_t dictionary = dictionary_bytes_.size() + dictionary_.made.size() + entries_ * (texts ? 24 : 8);
    if (values <= place_.room / each && static_cast<uint64_t>(head.plain) <= place_.room &&
        values * each + static_cast<uint64_t>(head.plain) + dictionary <= place_.room)
      return;
    throw Error(ErrorKind::resources, {.where = place_.where + ": page at byte " + std::to_string(place_.offset),
                                       .what = "a page has far more values than a file of this size would have",
                                       .got = std::to_string(head.values) + " values, " + std::to_string(head.plain) + " bytes",
                                       .expected = "at most " + std::to_string(place_.room >> 20) + " MiB with its dictionary",
                                       .hint = "write it with smaller pages"});
  }

  void take_room(uint64_t bytes) {
    if (room_.take(bytes)) return;
    throw Error(ErrorKind::resources, {.where = place_.where + ": page at byte " + std::to_string(place_.offset),
                                       .what = "a row group has far more cells or text than a file of this size would have",
                                       .expected = "at most " + std::to_string(most_chunk(file_.size()) >> 20) + " MiB",
                                       .hint = "write it with smaller row groups"});
  }

  // One level of lists: where rows begin stands in front of the definition levels.
  void read_list(const PageHead& head, ParquetColumnSpan stored, ParquetColumnSpan bytes) {
    const auto values = static_cast<size_t>(head.values);
    repeats_.resize(values);
    size_t there = 0;
    if (head.kind == PageHead::Kind::data2) {
      read_runs(stored.first(static_cast<size_t>(head.repeat_bytes)), 1, values, repeats_.data(), place_);
      there = read_levels(stored.subspan(static_cast<size_t>(head.repeat_bytes), static_cast<size_t>(head.depth_bytes)), values);
    } else {
      uint32_t size = 0;
      if (bytes.size() < 4) place_.damaged("the page ends inside its levels");
      std::memcpy(&size, bytes.data(), 4);
      if (size > bytes.size() - 4) place_.damaged("the page's levels lead out of it");
      read_runs(bytes.subspan(4, size), 1, values, repeats_.data(), place_);
      bytes = bytes.subspan(4 + size);
      there = read_first_levels(head, bytes, values);
    }
    if (levels_.empty()) levels_.assign(values, static_cast<uint32_t>(leaf_.depth));
    take_room(values * 16);  // lists grow by copies
    std::vector<double> items;
    if (there > 0 && (head.encoding == 2 || head.encoding == 8)) {
      read_places(bytes, there);
      for (const uint32_t n : numbers_)
        items.push_back(dictionary_.real.empty() ? static_cast<double>(dictionary_.whole[n]) : dictionary_.real[n]);
    } else if (there > 0) {
      read_values(bytes, head.encoding, leaf_, there, values_, place_);
      convert_values(leaf_, values_, place_);
      items = values_.real;
      if (items.empty()) items.assign(values_.whole.begin(), values_.whole.end());
    }
    add_lists(items);
  }

  void add_lists(const std::vector<double>& items) {
    const auto depth = static_cast<uint32_t>(leaf_.depth), inside = static_cast<uint32_t>(leaf_.list_depth);
    size_t next = 0;
    for (size_t i = 0; i < levels_.size(); ++i) {
      if (repeats_[i] == 0) {
        column_.ends.push_back(column_.items.size());
        column_.missing.push_back(levels_[i] + 1 < inside);
      }
      if (levels_[i] >= inside) column_.items.push_back(levels_[i] == depth ? items[next++] : std::numeric_limits<double>::quiet_NaN());
      else if (repeats_[i] != 0) place_.damaged("the page goes on with a list that is not there");
      if (column_.ends.empty()) place_.damaged("the page goes on with a list that has not begun");
      column_.ends.back() = column_.items.size();
    }
  }

  int level_bits() const { return static_cast<int>(std::bit_width(static_cast<unsigned>(leaf_.depth))); }

  // Reads the levels in front of the values of a page of version 1. How many values are there; `bytes` is the rest.
  size_t read_first_levels(const PageHead& head, ParquetColumnSpan& bytes, size_t values) {
    if (leaf_.depth == 0) return values;
    if (head.levels == 4) return read_packed_levels(bytes, values);
    uint32_t size = 0;
    if (bytes.size() < 4) place_.damaged("the page ends inside its levels");
    std::memcpy(&size, bytes.data(), 4);
    if (size > bytes.size() - 4) place_.damaged("the page's levels lead out of it");
    const size_t there = read_levels(bytes.subspan(4, size), values);
    bytes = bytes.subspan(4 + size);
    return there;
  }

  size_t read_levels(ParquetColumnSpan bytes, size_t values) {
    levels_.clear();
    if (leaf_.depth == 0) return values;
    uint32_t all = 0;
    if (is_one_run(bytes, level_bits(), values, &all) && all == static_cast<uint32_t>(leaf_.depth)) return values;
    levels_.resize(values);
    read_runs(bytes, level_bits(), values, levels_.data(), place_);
    return count_there();
  }

  size_t count_there() const {
    const auto depth = static_cast<uint32_t>(leaf_.depth);
    if (std::any_of(levels_.begin(), levels_.end(), [&](uint32_t level) { return level > depth; }))
      place_.damaged("the page has a level beyond the column's");
    return static_cast<size_t>(std::count(levels_.begin(), levels_.end(), depth));
  }

  // BIT_PACKED, of old files: the highest bits come first.
  size_t read_packed_levels(ParquetColumnSpan& bytes, size_t values) {
    const auto width = static_cast<size_t>(level_bits());
    const size_t size = (values * width + 7) / 8;
    if (size > bytes.size()) place_.damaged("the page ends inside its levels");
    levels_.assign(values, 0);
    for (size_t i = 0; i < values * width; ++i)
      levels_[i / width] = levels_[i / width] << 1 | (std::to_integer<uint32_t>(bytes[i / 8]) >> (7 - i % 8) & 1);
    bytes = bytes.subspan(size);
    return count_there();
  }

  // Places in the dictionary.
  void read_places(ParquetColumnSpan bytes, size_t there) {
    if (!has_dictionary_) place_.damaged("the page needs a dictionary, and there is none");
    const int width = bytes.empty() ? 0 : std::to_integer<int>(bytes[0]);
    if (bytes.empty() || width > 32) place_.damaged("the page has places in a dictionary of more than 32 bits");
    numbers_.resize(there);
    read_runs(bytes.subspan(1), width, there, numbers_.data(), place_);
    if (std::any_of(numbers_.begin(), numbers_.end(), [&](uint32_t n) { return n >= entries_; }))
      place_.damaged("the page has a place beyond its dictionary");
  }

  void read_numbers(ParquetColumnSpan bytes, size_t there, const Part& part) {
    read_places(bytes, there);
    const std::span<const uint32_t> numbers = std::span(numbers_).subspan(part.value, part.values);
    const auto pick = [&](const auto& from, auto& to) {
      const size_t before = to.size();
      to.resize(before + numbers.size());
      for (size_t i = 0; i < numbers.size(); ++i) to[before + i] = from[numbers[i]];
    };
    if (column_.type == Type::real) return pick(dictionary_.real, column_.real);
    if (column_.type != Type::text) return pick(dictionary_.whole, column_.whole);
    size_t sum = 0;
    for (const uint32_t n : numbers) sum += dictionary_.texts[n].size();
    grow_text(sum, numbers.size());
    for (const uint32_t n : numbers) column_.bytes += dictionary_.texts[n], column_.ends.push_back(column_.bytes.size());
  }

  void grow_text(size_t bytes, size_t values) {
    take_room(bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * bytes);
    column_.bytes.reserve(std::max(column_.bytes.capacity(), column_.bytes.size() + bytes));
    column_.ends.reserve(column_.ends.size() + values);
  }

  // Puts the values that are there side by side behind those of the column.
  void append(const Values& values, const Part& part) {
    const auto add = [&](auto& to, const auto& from) {
      const auto begin = from.begin() + static_cast<ptrdiff_t>(part.value);
      to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(part.values));
    };
    if (column_.type == Type::real) return add(column_.real, values.real);
    if (column_.type != Type::text) return add(column_.whole, values.whole);
    const std::span<const std::string_view> texts = std::span(values.texts).subspan(part.value, part.values);
    size_t sum = 0;
    for (const std::string_view text : texts) sum += text.size();
    grow_text(sum, texts.size());
    for (const std::string_view text : texts) column_.bytes += text, column_.ends.push_back(column_.bytes.size());
  }

  // Moves the values of the page, which stand side by side, to their rows, from the last one on.
  void spread(const Part& part) {
    const size_t values = part.rows, there = part.values, rows = kept_;
    kept_ += values;
    if (there == values) {
      if (!column_.missing.empty()) column_.missing.resize(column_.missing.size() + values, 0);
      return;
    }
    column_.missing.resize(rows, 0);
    column_.missing.resize(rows + values, 0);
    const auto move_all = [&](auto& list, auto gap) {
      list.resize(rows + values);
      size_t from = rows + there;
      for (size_t i = values; i-- > 0;) {
        const bool is = levels_[part.row + i] == static_cast<uint32_t>(leaf_.depth);
        column_.missing[rows + i] = !is;
        list[rows + i] = is ? list[--from] : gap(from);
      }
    };
    if (column_.type == Type::real) move_all(column_.real, [](size_t) { return std::numeric_limits<double>::quiet_NaN(); });
    else if (column_.type != Type::text) move_all(column_.whole, [](size_t) { return int64_t{0}; });
    else move_all(column_.ends, [&](size_t from) { return from > 0 ? column_.ends[from - 1] : uint64_t{0}; });  // an empty text
  }

  ParquetColumnSpan file_;
  const Leaf& leaf_;
  const Chunk& chunk_;
  RowRange range_;
  Place place_;
  Room& room_;
  Column& column_;
  int64_t done_ = 0;  // values of all pages so far
  size_t kept_ = 0;   // rows of the column so far
  bool has_dictionary_ = false;
  size_t entries_ = 0;
  Bytes dictionary_bytes_, page_bytes_;
  Values dictionary_, values_;
  std::vector<uint32_t> levels_, numbers_, repeats_;
};

}  // namespace

void read_column(ParquetColumnSpan file, const Leaf& leaf, const Chunk& chunk, int64_t rows, const RowRange& range,
                 const std::string& where, Room& room, Column& column) {
  const uint64_t most = static_cast<uint64_t>(most_rows(file.size()));
  if (static_cast<uint64_t>(chunk.values) > most)
    Place{where, chunk.begin}.damaged("the column has far more values than its bytes can have");
  if (leaf.lists == 0 && chunk.values != rows)
    Place{where, chunk.begin}.damaged("the column has another number of values than the row group has rows");
  const int64_t wanted = leaf.lists > 0 ? rows : range.to - range.from;
  if (!room.take(static_cast<uint64_t>(wanted) * kCellBytes))
    Place{where, chunk.begin}.damaged("the column has far more values than its bytes can have");
  column.reserve(wanted);
  ColumnReader(file, leaf, chunk, range, where, room, column).run();
  if (column.size() != wanted) Place{where, chunk.begin}.damaged("the column's lists are not as many as the row group has rows");
  if (leaf.lists == 0 || (range.from == 0 && range.to == rows)) return;
  std::vector<int64_t> which;
  for (int64_t r = range.from; r < range.to; ++r) which.push_back(r);
  column = column.rows(which);
}

}  // namespace perigee::tables::parquet
