// The messages of a data set: its shape, the type of its elements, where they lie.
#include <algorithm>

#include "src/core/error.h"
#include "src/io/hdf5/headers.h"

namespace perigee::hdf5 {
namespace {

constexpr int kMostDataSetDepth = 8, kMostDataSetLevels = 32;
constexpr uint64_t kMostRank = 32, kMostDataSetMembers = 4096, kMostFilters = 32;

}  // namespace

std::vector<uint64_t> Headers::shape(const Message& message) const {
  const uint64_t version = file_.number(message.at, 1), rank = file_.number(message.at + 1, 1);
  if (version != 1 && version != 2) file_.damaged("a data set of the HDF5 file has a shape of an unknown version", message.at);
  if (rank > kMostRank) file_.damaged("a data set of the HDF5 file has too many axes", message.at);
  if (version == 2 && file_.number(message.at + 3, 1) == 2) return {0};  // it has no elements
  std::vector<uint64_t> shape;
  for (uint64_t i = 0; i < rank; ++i) shape.push_back(length(message.at + (version == 1 ? 8 : 4) + i * file_.length_size_));
  return shape;
}

std::string Headers::name_at(uint64_t& at, uint64_t end, bool padded) const {
  if (at >= end) file_.damaged("a type of the HDF5 file is cut short", at);
  const std::string_view rest = as_text(file_.bytes(at, end - at));
  const size_t size = rest.find('\0');
  if (size == rest.npos) file_.damaged("a name of the HDF5 file does not end", at);
  at += padded ? (size + 8) / 8 * 8 : size + 1;
  return std::string(rest.substr(0, std::min<size_t>(size, 1024)));
}

// Moves `at` behind the type.
Type Headers::type(uint64_t& at, uint64_t end, int depth) const {
  if (depth > kMostDataSetDepth || at >= end) file_.damaged("a type of the HDF5 file is too deep, or cut short", at);
  const uint64_t begin = at, head = file_.number(at, 4), flags = head >> 8;
  const auto kind = static_cast<unsigned>(head & 15), version = static_cast<unsigned>(head >> 4 & 15);
  Type type{.size = file_.number(at + 4, 4)};
  if (type.size == 0 || type.size > uint64_t{1} << 30) file_.damaged("an element of the HDF5 file has an impossible size", at + 4);
  at += 8;
  switch (kind) {
    case 0:
      type.big = (flags & 1) != 0, type.is_signed = (flags & 8) != 0;
      if (type.size <= 8 && file_.number(at, 2) == 0 && file_.number(at + 2, 2) == 8 * type.size) type.kind = Type::Kind::whole;
      else type.what = "integers of " + std::to_string(file_.number(at + 2, 2)) + " bits";
      at += 4;
      return type;
    case 1: {
      const uint64_t exponent = file_.number(at + 5, 1);
      type.big = (flags & 1) != 0;
      const bool usual = (type.size == 2 && exponent == 5) || (type.size == 4 && exponent == 8) || (type.size == 8 && exponent == 11);
      if (usual && (flags & 0x40) == 0) type.kind = Type::Kind::real;
      else
        type.what =
            "floating-point numbers of " + std::to_string(type.size) + " bytes with an exponent of " + std::to_string(exponent) + " bits";
      at += 12;
      return type;
    }
    case 3:
      type.kind = Type::Kind::text;
      type.padding = (flags & 15) == 2 ? ' ' : '\0';
      return type;
    case 6: return compound(at, end, version, static_cast<unsigned>(flags & 0xffff), type.size, depth);
    case 8: return enumeration(at, end, version, static_cast<unsigned>(flags & 0xffff), depth);
    case 9: {
      const bool text = (flags & 15) == 1;
      this->type(at, end, depth + 1);
      if (text && type.size == 8 + file_.offset_size_) type.kind = Type::Kind::any_text;
      else type.what = "lists of different lengths";
      return type;
    }
    case 10: return array(at, end, version, type.size, depth);
    default:
      type.what = kind == 2   ? "times"
                  : kind == 4 ? "bit fields"
                  : kind == 5 ? "opaque bytes"
                  : kind == 7 ? "references"
                              : "type " + std::to_string(kind);
      at = begin + 8 + (kind == 2 ? 2 : kind == 4 ? 4 : kind == 5 ? (flags & 0xff) : 0);
      return type;
  }
}

Type Headers::compound(uint64_t& at, uint64_t end, unsigned version, unsigned count, size_t size, int depth) const {
  Type type{.kind = Type::Kind::compound, .size = size};
  if (count > kMostDataSetMembers) file_.damaged("a type of the HDF5 file has too many members", at);
  const size_t width = size < 256 ? 1 : size < 65536 ? 2 : size < 1 << 24 ? 3 : 4;
  for (unsigned i = 0; i < count; ++i) {
    Member member{.name = name_at(at, end, version < 3)};
    member.offset = file_.number(at, version < 3 ? 4 : width);
    at += version < 3 ? 4 : width;
    uint64_t axes = 0;
    if (version == 1) axes = file_.number(at, 1), at += 28;
    member.type = this->type(at, end, depth + 1);
    if (axes > 0) member.type.kind = Type::Kind::other, member.type.what = "arrays of an old form";
    if (member.offset > size || size - member.offset < member.type.size) file_.damaged("a member of an HDF5 type leads out of it", at);
    type.members.push_back(std::move(member));
  }
  return type;
}

// Names for whole numbers; FALSE and TRUE make truth values.
Type Headers::enumeration(uint64_t& at, uint64_t end, unsigned version, unsigned count, int depth) const {
  Type base = type(at, end, depth + 1);
  if (base.kind != Type::Kind::whole) file_.damaged("an enumeration of the HDF5 file is none of whole numbers", at);
  std::vector<std::string> names;
  for (unsigned i = 0; i < count; ++i) names.push_back(name_at(at, end, version < 3));
  file_.bytes(at, count * base.size);
  if (names == std::vector<std::string>{"FALSE", "TRUE"}) base.kind = Type::Kind::boolean;
  at += count * base.size;
  return base;
}

Type Headers::array(uint64_t& at, uint64_t end, unsigned version, size_t size, int depth) const {
  Type type{.kind = Type::Kind::array, .size = size};
  const uint64_t rank = file_.number(at, 1);
  if (rank == 0 || rank > kMostRank) file_.damaged("an array of the HDF5 file has an impossible number of axes", at);
  at += version < 3 ? 4 : 1;
  for (uint64_t i = 0; i < rank; ++i, at += 4) {
    const uint64_t axis = file_.number(at, 4);
    if (axis == 0 || type.count > size / axis) file_.damaged("an array of the HDF5 file is larger than its element", at);
    type.count *= axis;
  }
  if (version < 3) at += 4 * rank;
  type.members.push_back({.type = this->type(at, end, depth + 1)});
  const Type& base = type.members[0].type;
  if (base.size * type.count != size) file_.damaged("an array of the HDF5 file has not the size of its elements", at);
  if (base.kind != Type::Kind::whole && base.kind != Type::Kind::real)
    type.kind = Type::Kind::other, type.what = "arrays of other than numbers";
  return type;
}

std::vector<Filter> Headers::filters(const Message& message) const {
  const uint64_t version = file_.number(message.at, 1), count = file_.number(message.at + 1, 1);
  if (count > kMostFilters || (version != 1 && version != 2)) file_.damaged("the filters of an HDF5 data set cannot be read", message.at);
  uint64_t at = message.at + (version == 1 ? 8 : 2);
  std::vector<Filter> list;
  for (uint64_t i = 0; i < count; ++i) {
    Filter filter{.id = static_cast<uint16_t>(file_.number(at, 2))};
    at += 2;
    uint64_t name = 0;
    if (version == 1 || filter.id >= 256) name = file_.number(at, 2), at += 2;
    const uint64_t values = file_.number(at + 2, 2);
    at += 4 + (version == 1 ? (name + 7) / 8 * 8 : name);
    file_.bytes(at, 4 * values);
    for (uint64_t v = 0; v < values; ++v, at += 4) filter.values.push_back(static_cast<uint32_t>(file_.number(at, 4)));
    if (version == 1 && values % 2 == 1) at += 4;
    list.push_back(std::move(filter));
  }
  return list;
}

// The element that stands where none was written; empty: zero, or a text, which lies in a heap.
Bytes Headers::fill(const Message& message, const Type& type) const {
  const uint64_t version = file_.number(message.at, 1), second = file_.number(message.at + 1, 1);
  uint64_t at = 0;
  if (version == 3 && (second & 0x20) != 0) at = message.at + 2;
  if (version == 1 || (version == 2 && file_.number(message.at + 3, 1) == 1)) at = message.at + 4;
  if (at == 0 || type.kind == Type::Kind::any_text || file_.number(at, 4) != type.size) return {};
  const auto element = file_.bytes(at + 4, type.size);
  if (std::all_of(element.begin(), element.end(), [](std::byte b) { return b == std::byte{0}; })) return {};
  return {element.begin(), element.end()};
}

void Headers::layout(const Message& message, DataSet& set) const {
  const uint64_t version = file_.number(message.at, 1);
  uint64_t at = message.at + 1, bytes = set.type.size;
  for (const uint64_t axis : set.shape) bytes *= axis;
  if (version != 3 && version != 4) {
    set.refusal = "its layout has version " + std::to_string(version);
    return;
  }
  const uint64_t kind = file_.number(at++, 1);
  if (kind == 0) {
    set.size = file_.number(at, 2), set.address = at + 2;
  } else if (kind == 1) {
    set.address = file_.offset(at), set.size = length(at + file_.offset_size_);
    if (set.address == kNowhere) set.size = 0;
  } else if (kind == 2) {
    return version == 3 ? chunked(at, set) : chunked_4(at, set);
  } else {
    set.refusal = "it is made of others (a virtual data set)";
    return;
  }
  if (set.size == 0) return;
  if (set.size < bytes) file_.damaged("the data set '" + set.path.substr(0, 60) + "' has fewer bytes than elements", at);
  file_.bytes(set.address, set.size);
}

void Headers::chunked(uint64_t at, DataSet& set) const {
  const uint64_t rank = file_.number(at++, 1);
  const uint64_t tree = file_.offset(at);
  at += file_.offset_size_;
  if (rank != set.shape.size() + 1 || rank < 2) file_.damaged("the chunks of an HDF5 data set have another rank than it", at);
  for (uint64_t i = 0; i + 1 < rank; ++i, at += 4) set.chunk.push_back(file_.number(at, 4));
  if (std::count(set.chunk.begin(), set.chunk.end(), uint64_t{0}) > 0) file_.damaged("the chunks of an HDF5 data set are empty", at);
  if (tree != kNowhere) chunk_nodes(tree, 0, set);
}

void Headers::chunk_nodes(uint64_t node, int level, DataSet& set) const {
  if (level > kMostDataSetLevels) file_.damaged("the chunks of an HDF5 data set come back to themselves", node);
  if (as_text(file_.bytes(node, 4)) != "TREE" || file_.number(node + 4, 1) != 1)
    file_.damaged("the tree of an HDF5 data set is none", node);
  const uint64_t own = file_.number(node + 5, 1), count = file_.number(node + 6, 2);
  const uint64_t key = 8 + 8 * (set.shape.size() + 1);
  uint64_t at = node + 8 + 2 * file_.offset_size_;
  for (uint64_t i = 0; i < count; ++i, at += key + file_.offset_size_) {
    const uint64_t child = file_.offset(at + key);
    if (own > 0) {
      if (file_.number(child + 5, 1) + 1 != own) file_.damaged("the tree of an HDF5 data set has levels that do not fit", child);
      chunk_nodes(child, level + 1, set);
      continue;
    }
    StoredChunk chunk{.address = child, .size = file_.number(at, 4), .skipped = static_cast<uint32_t>(file_.number(at + 4, 4))};
    for (size_t a = 0; a < set.shape.size(); ++a) chunk.begin.push_back(file_.number(at + 8 + 8 * a, 8));
    file_.bytes(chunk.address, chunk.size);
    // Each stands in the file: as many as have no room there lead to the same ones.
    if (set.chunks.size() > file_.content_.size() / 16) file_.damaged("an HDF5 data set has more chunks than room", at);
    set.chunks.push_back(std::move(chunk));
  }
}

void Headers::chunked_4(uint64_t at, DataSet& set) const {
  const uint64_t flags = file_.number(at, 1), rank = file_.number(at + 1, 1), width = file_.number(at + 2, 1);
  at += 3;
  if (rank != set.shape.size() + 1 || rank < 2 || width == 0 || width > 8)
    file_.damaged("the chunks of an HDF5 data set have another rank than it", at);
  uint64_t chunk_bytes = set.type.size, count = 1;
  for (uint64_t i = 0; i + 1 < rank; ++i, at += width) set.chunk.push_back(file_.number(at, width));
  at += width;
  for (size_t i = 0; i < set.chunk.size(); ++i) {
    if (set.chunk[i] == 0 || chunk_bytes > (uint64_t{1} << 32) / set.chunk[i])
      file_.damaged("the chunks of an HDF5 data set have an impossible size", at);
    chunk_bytes *= set.chunk[i];
    const uint64_t along = set.shape[i] / set.chunk[i] + (set.shape[i] % set.chunk[i] != 0);
    if (along != 0 && count > file_.content_.size() / along) return void(set.refusal = "it has more chunks than room in the file");
    count *= along;
  }
  const uint64_t index = file_.number(at++, 1);
  const auto push = [&](uint64_t number, uint64_t address, uint64_t size, uint32_t skipped) {
    if (address != kNowhere) add_chunk(number, {.address = address, .size = size, .skipped = skipped}, set);
  };
  if (index == 1) {
    uint64_t size = chunk_bytes, skipped = 0;
    if ((flags & 2) != 0) {
      size = length(at), skipped = file_.number(at + file_.length_size_, 4);
      at += file_.length_size_ + 4;
    }
    if (count > 0) push(0, file_.offset(at), size, static_cast<uint32_t>(skipped));
  } else if (index == 2) {
    const uint64_t begin = file_.offset(at);
    for (uint64_t i = 0; begin != kNowhere && i < count; ++i) push(i, begin + i * chunk_bytes, chunk_bytes, 0);
  } else if (index == 3) {
    if (const uint64_t header = file_.offset(at + 1); header != kNowhere) fixed_array(header, count, chunk_bytes, set);
  } else {
    set.refusal = "its chunks have an index that can grow (h5repack, or libver=\"earliest\", writes one that is read)";
  }
}

// Chunks are numbered in row-major order.
void Headers::add_chunk(uint64_t number, StoredChunk chunk, DataSet& set) const {
  chunk.begin.resize(set.chunk.size());
  for (size_t a = set.chunk.size(); a-- > 0;) {
    const uint64_t along = set.shape[a] / set.chunk[a] + (set.shape[a] % set.chunk[a] != 0);
    chunk.begin[a] = number % along * set.chunk[a];
    number /= along;
  }
  file_.bytes(chunk.address, chunk.size);
  set.chunks.push_back(std::move(chunk));
}

// A list of all chunks, in pages where it is long.
void Headers::fixed_array(uint64_t header, uint64_t count, uint64_t chunk_bytes, DataSet& set) const {
  if (as_text(file_.bytes(header, 4)) != "FAHD") file_.damaged("the list of an HDF5 data set's chunks is none", header);
  const bool filtered = file_.number(header + 5, 1) == 1;
  const uint64_t width = file_.number(header + 6, 1), page_bits = file_.number(header + 7, 1), entries = length(header + 8);
  const uint64_t block = file_.offset(header + 8 + file_.length_size_);
  if (entries < count || page_bits > 31 || width < file_.offset_size_ + (filtered ? 5 : 0) || width > file_.offset_size_ + 12)
    file_.damaged("the list of an HDF5 data set's chunks is damaged", header);
  if (block == kNowhere) return;
  if (as_text(file_.bytes(block, 4)) != "FADB") file_.damaged("the list of an HDF5 data set's chunks is none", block);
  uint64_t at = block + 6 + file_.offset_size_;
  const uint64_t page = uint64_t{1} << page_bits;
  const bool paged = entries > page;
  const uint64_t bits = at;
  if (paged) at += ((entries + page - 1) / page + 7) / 8 + 4;
  for (uint64_t i = 0; i < count; ++i) {
    if (paged && i > 0 && i % page == 0) at += 4;  // a page's checksum
    if (paged && (file_.number(bits + i / page / 8, 1) >> (7 - i / page % 8) & 1) == 0) {
      at += width;
      continue;  // a page that is not there
    }
    StoredChunk chunk{.address = file_.offset(at), .size = chunk_bytes};
    if (filtered) {
      const uint64_t size_width = width - file_.offset_size_ - 4;
      chunk.size = file_.number(at + file_.offset_size_, size_width);
      chunk.skipped = static_cast<uint32_t>(file_.number(at + width - 4, 4));
    }
    at += width;
    if (chunk.address != kNowhere) add_chunk(i, std::move(chunk), set);
  }
}

}  // namespace perigee::hdf5
