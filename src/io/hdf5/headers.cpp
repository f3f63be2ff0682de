#include "src/io/hdf5/headers.h"

#include <algorithm>

#include "src/core/error.h"

namespace perigee::hdf5 {
namespace {

constexpr int kMostHeadersDepth = 32, kMostHeadersLevels = 16;
constexpr size_t kMostSets = 65536, kMostMessages = 65536;
constexpr uint64_t kMostBlocks = 4096;  // of one header

}  // namespace

void Headers::walk() {
  messages_left_ = 16 + file_.content_.size() / 4;
  visit(root(), "", 0);
}

// The file may begin with something else: the superblock lies at 0, 512, 1024, ...
uint64_t Headers::root() {
  uint64_t at = 0;
  const std::string_view all = as_text(file_.content_);
  const std::string_view signature("\x89HDF\r\n\x1a\n", 8);
  while (at < all.size() && all.substr(at, 8) != signature) at = at == 0 ? 512 : 2 * at;
  if (at >= all.size()) file_.damaged("the file is none of HDF5", 0);
  const uint64_t version = file_.number(at + 8, 1);
  if (version > 3) file_.damaged("the HDF5 file has an unknown version, " + std::to_string(version), at + 8);
  const uint64_t sizes = at + (version < 2 ? 13 : 9);
  file_.offset_size_ = file_.number(sizes, 1);
  file_.length_size_ = file_.number(sizes + 1, 1);
  for (const size_t size : {file_.offset_size_, file_.length_size_})
    if (size != 2 && size != 4 && size != 8) file_.damaged("the HDF5 file has addresses of an impossible size", sizes);
  if (version >= 2) {
    file_.base_ = file_.number(at + 12, file_.offset_size_);
    return file_.offset(at + 12 + 3 * file_.offset_size_);
  }
  const uint64_t addresses = at + (version == 0 ? 24 : 28);
  file_.base_ = file_.number(addresses, file_.offset_size_);
  return file_.offset(addresses + 5 * file_.offset_size_);
}

void Headers::visit(uint64_t header, const std::string& path, int depth) {
  if (depth > kMostHeadersDepth) file_.damaged("the groups of the HDF5 file are too deep", header);
  if (!met_.insert(header).second) return;  // a second name of the same
  const std::vector<Message> list = messages(header);
  bool data = false;
  for (const Message& message : list) data |= message.type == 0x08;
  if (data) return data_set(list, path);
  for (const Message& message : list) {
    if (message.type == 0x11) old_group(message, path, depth);
    if (message.type == 0x06) link(message, path, depth);
    if (message.type == 0x02) {
      const uint64_t heap = message.at + 2 + ((file_.number(message.at + 1, 1) & 1) != 0 ? 8 : 0);
      if (file_.offset(heap) != kNowhere)
        throw Error(ErrorKind::data, {.where = file_.name_ + ": byte " + std::to_string(message.at),
                                      .what = "the group '/" + path.substr(0, 60) + "' has an index of links, which is not read",
                                      .hint = "h5repack --high 0 OLD NEW, or libver=\"earliest\", writes a group that is"});
    }
  }
}

std::vector<Message> Headers::messages(uint64_t header) {
  std::vector<Message> list;
  if (as_text(file_.bytes(header, 4)) == "OHDR") messages_2(header, list);
  else messages_1(header, list);
  return list;
}

void Headers::messages_1(uint64_t header, std::vector<Message>& list) {
  if (file_.number(header, 1) != 1) file_.damaged("an object of the HDF5 file has no header", header);
  const uint64_t size = file_.number(header + 8, 4);
  block(header + 16, header + 16 + size, true, false, list);
}

void Headers::messages_2(uint64_t header, std::vector<Message>& list) {
  const uint64_t flags = file_.number(header + 5, 1);
  uint64_t at = header + 6;
  if ((flags & 0x20) != 0) at += 16;
  if ((flags & 0x10) != 0) at += 4;
  const size_t width = size_t{1} << (flags & 3);
  const uint64_t size = file_.number(at, width);
  at += width;
  file_.bytes(at, size);
  block(at, at + size, false, (flags & 4) != 0, list);
}

// Messages between two places, and those of the blocks that they lead to.
void Headers::block(uint64_t at, uint64_t end, bool old, bool ordered, std::vector<Message>& list) {
  file_.bytes(at, end - at);
  std::vector<std::pair<uint64_t, uint64_t>> blocks{{at, end}};
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (blocks.size() > kMostBlocks) file_.damaged("a header of the HDF5 file has too many blocks", at);
    auto [place, stop] = blocks[b];
    const uint64_t head = old ? 8 : ordered ? 6 : 4;
    while (place <= stop && stop - place >= head) {
      Message message{.type = static_cast<uint16_t>(file_.number(place, old ? 2 : 1))};
      message.size = file_.number(place + (old ? 2 : 1), 2);
      const auto flags = static_cast<uint8_t>(file_.number(place + (old ? 4 : 3), 1));
      message.at = place + head;
      if (message.size > stop - message.at) file_.damaged("a message of the HDF5 file leads out of its header", place);
      place = message.at + message.size;
      if (message.type == 0x10) {
        const uint64_t next = file_.offset(message.at), size = length(message.at + file_.offset_size_);
        file_.bytes(next, size);
        if (old) blocks.emplace_back(next, next + size);
        else if (size < 8 || as_text(file_.bytes(next, 4)) != "OCHK") file_.damaged("a block of a header of the HDF5 file is none", next);
        else blocks.emplace_back(next + 4, next + size - 4);
      } else {
        add(message, flags, list);
      }
    }
  }
}

// A message may stand elsewhere: a type that has a name of its own.
void Headers::add(Message message, uint8_t flags, std::vector<Message>& list) {
  if (list.size() > kMostMessages || messages_left_-- == 0) file_.damaged("the HDF5 file has too many messages", message.at);
  if ((flags & 2) != 0 && message.type == 0x03) {
    const uint64_t version = file_.number(message.at, 1);
    const uint64_t where = file_.offset(message.at + (version == 1 ? 8 : 2));
    if (version > 3) file_.damaged("a shared message of the HDF5 file cannot be read", message.at);
    if (where == kNowhere) file_.damaged("a shared message of the HDF5 file leads nowhere", message.at);
    if (as_text(file_.bytes(where, 4)) == "OHDR")
      file_.damaged("a type of the HDF5 file has a name of its own in a new header, which is not read", message.at,
                    "h5repack OLD NEW writes the file anew");
    if (file_.number(where, 1) != 1) file_.damaged("a shared message of the HDF5 file leads to no header", message.at);
    const uint64_t end = where + 16 + file_.number(where + 8, 4);
    for (uint64_t at = where + 16; at + 8 <= end;) {
      const uint64_t type = file_.number(at, 2), size = file_.number(at + 2, 2);
      if (type == 0x03 && (file_.number(at + 4, 1) & 2) == 0) {
        list.push_back({.type = 0x03, .at = at + 8, .size = size});
        return;
      }
      at += 8 + size;
    }
    file_.damaged("a shared message of the HDF5 file leads to no type", message.at);
  }
  list.push_back(message);
}

void Headers::old_group(const Message& message, const std::string& path, int depth) {
  const uint64_t tree = file_.offset(message.at), heap = file_.offset(message.at + file_.offset_size_);
  if (tree == kNowhere || heap == kNowhere) return;
  if (as_text(file_.bytes(heap, 4)) != "HEAP") file_.damaged("a group of the HDF5 file has no names", heap);
  const uint64_t size = length(heap + 8), names = file_.offset(heap + 8 + 2 * file_.length_size_);
  file_.bytes(names, size);
  old_nodes(tree, names, size, path, depth, 0);
}

void Headers::old_nodes(uint64_t node, uint64_t heap, uint64_t heap_size, const std::string& path, int depth, int level) {
  if (level > kMostHeadersLevels || !met_.insert(node).second)
    file_.damaged("the tree of a group of the HDF5 file comes back to itself", node);
  if (as_text(file_.bytes(node, 4)) == "SNOD") {
    const uint64_t count = file_.number(node + 6, 2), width = 2 * file_.offset_size_ + 24;
    file_.bytes(node + 8, count * width);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = node + 8 + i * width, name = file_.number(at, file_.offset_size_);
      if (name >= heap_size) file_.damaged("a name of the HDF5 file leads out of its heap", at);
      const std::string_view rest = as_text(file_.bytes(heap + name, heap_size - name));
      const std::string child = path + (path.empty() ? "" : "/") + std::string(rest.substr(0, std::min<size_t>(rest.find('\0'), 1024)));
      if (file_.number(at + 2 * file_.offset_size_, 4) == 2) continue;  // a name for another
      visit(file_.offset(at + file_.offset_size_), child, depth + 1);
    }
    return;
  }
  if (as_text(file_.bytes(node, 4)) != "TREE" || file_.number(node + 4, 1) != 0)
    file_.damaged("the tree of a group of the HDF5 file is none", node);
  const uint64_t count = file_.number(node + 6, 2);
  uint64_t at = node + 8 + 2 * file_.offset_size_ + file_.length_size_;
  for (uint64_t i = 0; i < count; ++i, at += file_.offset_size_ + file_.length_size_)
    old_nodes(file_.offset(at), heap, heap_size, path, depth, level + 1);
}

void Headers::link(const Message& message, const std::string& path, int depth) {
  uint64_t at = message.at + 2;
  const uint64_t flags = file_.number(message.at + 1, 1);
  uint64_t kind = 0;
  if ((flags & 8) != 0) kind = file_.number(at++, 1);
  if ((flags & 4) != 0) at += 8;
  if ((flags & 16) != 0) ++at;
  const size_t width = size_t{1} << (flags & 3);
  const uint64_t size = file_.number(at, width);
  at += width;
  if (size > message.size || size > 1024) file_.damaged("a name of the HDF5 file is too long", at);
  if (kind != 0) return;  // a name for another
  const std::string name(as_text(file_.bytes(at, size)));
  visit(file_.offset(at + size), path + (path.empty() ? "" : "/") + name, depth + 1);
}

void Headers::data_set(const std::vector<Message>& list, const std::string& path) {
  if (file_.sets_.size() >= kMostSets) file_.damaged("the HDF5 file has too many data sets", 0);
  DataSet set{.path = path};
  bool typed = false, shaped = false;
  for (const Message& message : list) {
    if (message.type == 0x01) set.shape = shape(message), shaped = true;
    if (message.type == 0x03) {
      uint64_t at = message.at;
      set.type = type(at, std::min<uint64_t>(file_.content_.size(), message.at + 65536), 0), typed = true;
    }
    if (message.type == 0x0b) set.filters = filters(message);
  }
  if (!typed || !shaped) file_.damaged("the data set '" + path.substr(0, 60) + "' has no type or no shape", list.empty() ? 0 : list[0].at);
  const uint64_t most = (uint64_t{64} << 20) + 1100 * uint64_t{file_.content_.size()};
  uint64_t bytes = set.type.size;
  for (const uint64_t size : set.shape) {
    if (size != 0 && bytes > most / size) set.refusal = "it claims to be far larger than its file";
    else bytes *= size;
  }
  if (set.type.kind == Type::Kind::other) set.refusal = "it has elements of " + set.type.what;
  for (const Filter& filter : set.filters)
    if (filter.id != 1 && filter.id != 2 && filter.id != 3 && filter.id != 32000 && filter.id != 32015)
      set.refusal = "it has filter " + std::to_string(filter.id) + (filter.id == 4 ? " (SZIP)" : filter.id == 32001 ? " (Blosc)" : "");
  if (set.refusal.empty())
    for (const Message& message : list) {
      if (message.type == 0x08) layout(message, set);
      if (message.type == 0x05) set.fill = fill(message, set.type);
    }
  file_.sets_.push_back(std::move(set));
}

}  // namespace perigee::hdf5
