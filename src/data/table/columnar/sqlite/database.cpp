#include "src/data/table/columnar/sqlite/database.h"

#include <bit>

#include "src/core/error.h"
#include "src/core/utf8.h"
#include "src/io/damaged.h"

namespace perigee::tables::sqlite {
namespace {

constexpr size_t kMostDatabaseDepth = 64;
constexpr size_t kMostDatabaseFields = 65536;

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

void append_utf16(std::string_view bytes, bool big, std::string& out) {
  const auto unit = [&](size_t i) {
    const auto a = static_cast<uint8_t>(bytes[i]), b = static_cast<uint8_t>(bytes[i + 1]);
    return static_cast<uint32_t>(big ? a << 8 | b : b << 8 | a);
  };
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    uint32_t code = unit(i);
    if (code >= 0xd800 && code < 0xe000) {  // half of a pair
      const uint32_t second = i + 3 < bytes.size() ? unit(i + 2) : 0;
      if (code < 0xdc00 && second >= 0xdc00 && second < 0xe000) code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00), i += 2;
      else code = 0xfffd;
    }
    append_utf8(code, out);
  }
}

}  // namespace

void Database::damaged(const std::string& what, uint64_t at) const {
  throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(at), .what = what, .hint = kGetAnew});
}

uint64_t Database::number(uint64_t at, size_t size) const {
  if (at > content_.size() || content_.size() - at < size) damaged("the database is cut short", content_.size());
  return big_endian(as_text(content_.subspan(at, size)));
}

// Seven bits a byte, the ninth with all of its eight.
int64_t Database::varint(uint64_t& at, uint64_t end) const {
  uint64_t value = 0;
  for (int i = 0; i < 9; ++i) {
    if (at >= end) damaged("a number of the database leads out of its page", at);
    const auto byte = std::to_integer<uint64_t>(content_[at++]);
    if (i == 8) return static_cast<int64_t>(value << 8 | byte);
    value = value << 7 | (byte & 127);
    if (byte < 128) break;
  }
  return static_cast<int64_t>(value);
}

Database::Database(std::string name, std::span<const std::byte> content, std::shared_ptr<const void> owner)
    : name_(std::move(name)), content_(content), owner_(std::move(owner)) {
  const uint64_t size = number(16, 2);
  page_size_ = size == 1 ? 65536 : static_cast<uint32_t>(size);
  const auto reserved = static_cast<uint32_t>(number(20, 1));
  if (page_size_ < 512 || !std::has_single_bit(page_size_) || page_size_ - reserved < 480)
    damaged("the database has pages of an impossible size", 16);
  usable_ = page_size_ - reserved;
  if (content_.size() < page_size_) damaged("the database is cut short", content_.size());
  pages_ = static_cast<uint32_t>(std::min<uint64_t>(content_.size() / page_size_, UINT32_MAX));
  encoding_ = static_cast<uint32_t>(number(56, 4));
  if (encoding_ > 3) damaged("the database has texts in an unknown encoding", 56);
}

Database::Page Database::page(uint32_t number) const {
  if (number == 0 || number > pages_)
    damaged("a tree of the database leads to page " + std::to_string(number) + " of " + std::to_string(pages_), 0);
  Page page{.begin = uint64_t{number - 1} * page_size_};
  page.header = number == 1 ? 100 : 0;
  const uint64_t at = page.begin + page.header;
  page.kind = static_cast<uint8_t>(this->number(at, 1));
  if (page.kind != 2 && page.kind != 5 && page.kind != 10 && page.kind != 13) damaged("a page of the database is none of a tree", at);
  page.cells = static_cast<uint32_t>(this->number(at + 3, 2));
  if (page.header + (page.leaf() ? 8 : 12) + 2 * page.cells > usable_) damaged("a page of the database has more cells than room", at + 3);
  return page;
}

uint64_t Database::cell_at(const Page& page, uint32_t cell) const {
  const uint64_t pointer = page.begin + page.header + (page.leaf() ? 8 : 12) + 2 * uint64_t{cell};
  const uint64_t at = number(pointer, 2);
  if (at + 4 > usable_) damaged("a cell of the database lies outside its page", pointer);
  return page.begin + at;
}

std::vector<CellRange> Database::ranges(uint32_t root) const {
  struct Level {
    uint32_t number;
    Page page;
    uint32_t next = 0;
  };
  std::vector<CellRange> list;
  std::vector<bool> met(size_t{pages_} + 1);
  std::vector<Level> path;
  const auto enter = [&](uint32_t number) {
    path.push_back({number, page(number)});
    if (met[number]) damaged("a tree of the database comes back to a page", path.back().page.begin);
    met[number] = true;
    if (path.size() > kMostDatabaseDepth) damaged("a tree of the database is too deep", path.back().page.begin);
    if (path.back().page.rows() != path.front().page.rows())
      damaged("a tree of the database has pages of two kinds", path.back().page.begin);
  };
  enter(root);
  while (!path.empty()) {
    Level& level = path.back();
    if (level.page.leaf()) {
      list.push_back({level.number, 0, level.page.cells});
      path.pop_back();
      continue;
    }
    const uint32_t cell = level.next++;
    if (cell > level.page.cells) {
      path.pop_back();
      continue;
    }
    // In a tree of keys the cells between its children are rows too.
    if (cell > 0 && !level.page.rows()) list.push_back({level.number, cell - 1, cell});
    enter(static_cast<uint32_t>(cell == level.page.cells ? number(level.page.begin + level.page.header + 8, 4)
                                                         : number(cell_at(level.page, cell), 4)));
  }
  return list;
}

// A record's bytes: in its page, and what has no room there on a chain of others.
std::string_view Database::payload(const Page& page, uint64_t at, uint64_t size, std::string& memory) const {
  const uint64_t room = page.rows() ? usable_ - 35 : (usable_ - 12) * uint64_t{64} / 255 - 23;
  uint64_t local = size;
  if (size > room) {
    const uint64_t least = (usable_ - 12) * uint64_t{32} / 255 - 23;
    local = least + (size - least) % (usable_ - 4);
    if (local > room) local = least;
  }
  const uint64_t end = page.begin + usable_;
  if (at > end || end - at < local + (local < size ? 4 : 0)) damaged("a record of the database leads out of its page", at);
  if (local == size) return as_text(content_.subspan(at, size));
  if (size > content_.size()) damaged("a record of the database is longer than the file", at);
  memory.assign(as_text(content_.subspan(at, local)));
  memory.reserve(size);
  auto next = static_cast<uint32_t>(number(at + local, 4));
  while (memory.size() < size) {
    if (next == 0 || next > pages_) damaged("a record of the database is cut short", at);
    const uint64_t begin = uint64_t{next - 1} * page_size_;
    memory += as_text(content_.subspan(begin + 4, std::min<uint64_t>(size - memory.size(), usable_ - 4)));
    next = static_cast<uint32_t>(number(begin, 4));
  }
  return memory;
}

Cell Database::field(uint64_t type, std::string_view bytes, uint64_t at, std::string& texts) const {
  using enum Cell::Kind;
  if (type == 0) return {};
  if (type <= 6) {
    const auto unused = static_cast<unsigned>(64 - 8 * bytes.size());
    return {.kind = whole, .whole = static_cast<int64_t>(big_endian(bytes) << unused) >> unused};
  }
  if (type == 7) return {.kind = real, .real = std::bit_cast<double>(big_endian(bytes))};
  if (type == 8 || type == 9) return {.kind = whole, .whole = type == 9};
  if (type < 12) damaged("a value of the database has an unknown type", at);
  if ((type & 1) == 0 || encoding_ < 2) return {.kind = text, .text = bytes};
  const size_t before = texts.size();
  append_utf16(bytes, encoding_ == 3, texts);
  return {.kind = text, .text = std::string_view(texts).substr(before)};
}

void Database::fields(std::string_view record, uint64_t at, std::vector<Cell>& cells, std::string& texts) const {
  cells.clear();
  texts.clear();
  if (encoding_ >= 2) texts.reserve(record.size() * 3 / 2 + 1);  // views into it stay
  size_t head = 0;
  const auto next = [&](size_t limit) {
    uint64_t value = 0;
    for (int i = 0; i < 9; ++i) {
      if (head >= limit) damaged("the head of a record of the database is cut short", at);
      const auto byte = static_cast<uint8_t>(record[head++]);
      if (i == 8) return value << 8 | byte;
      value = value << 7 | (byte & 127);
      if (byte < 128) break;
    }
    return value;
  };
  const uint64_t head_size = next(record.size());
  if (head_size > record.size() || head_size < head) damaged("the head of a record of the database is longer than it", at);
  static constexpr uint8_t kSizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
  uint64_t begin = head_size;
  while (head < head_size) {
    const uint64_t type = next(head_size), size = type < 12 ? kSizes[type] : (type - 12) / 2;
    if (size > record.size() - begin) damaged("a value of the database leads out of its record", at);
    if (cells.size() >= kMostDatabaseFields) damaged("a record of the database has too many values", at);
    cells.push_back(field(type, record.substr(begin, size), at, texts));
    begin += size;
  }
}

uint64_t Database::each(const CellRange& range, const Use& use) const {
  const Page in = page(range.page);
  std::vector<Cell> cells;
  std::string memory, texts;
  uint64_t sum = 0;
  for (uint32_t cell = range.from; cell < range.to; ++cell) {
    uint64_t at = cell_at(in, cell);
    if (!in.leaf()) at += 4;  // the child before it
    const uint64_t end = in.begin + usable_;
    const auto size = static_cast<uint64_t>(varint(at, end));
    const int64_t rowid = in.rows() ? varint(at, end) : 0;
    const std::string_view record = payload(in, at, size, memory);
    // A pointer and the sizes take at least four bytes.
    sum += size + 4;
    fields(record, at, cells, texts);
    use(rowid, cells);
  }
  return sum;
}

}  // namespace perigee::tables::sqlite
