// How the data sets of an HDF5 file are found: groups, object headers and their messages. Used by hdf5.cpp alone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/io/hdf5/hdf5.h"

namespace perigee::hdf5 {

struct Message {
  uint16_t type = 0;
  uint64_t at = 0, size = 0;
};

inline constexpr uint64_t kNowhere = ~uint64_t{0};

class Headers {
 public:
  explicit Headers(File& file) : file_(file) {}
  // Fills the file's sets.
  void walk();

 private:
  uint64_t root();
  void visit(uint64_t header, const std::string& path, int depth);
  std::vector<Message> messages(uint64_t header);
  void messages_1(uint64_t header, std::vector<Message>& list);
  void messages_2(uint64_t header, std::vector<Message>& list);
  void block(uint64_t at, uint64_t end, bool old, bool ordered, std::vector<Message>& list);
  void add(Message message, uint8_t flags, std::vector<Message>& list);
  void old_group(const Message& message, const std::string& path, int depth);
  void old_nodes(uint64_t node, uint64_t heap, uint64_t heap_size, const std::string& path, int depth, int level);
  void link(const Message& message, const std::string& path, int depth);
  void data_set(const std::vector<Message>& list, const std::string& path);
  std::vector<uint64_t> shape(const Message& message) const;
  Type type(uint64_t& at, uint64_t end, int depth) const;
  Type compound(uint64_t& at, uint64_t end, unsigned version, unsigned count, size_t size, int depth) const;
  Type enumeration(uint64_t& at, uint64_t end, unsigned version, unsigned count, int depth) const;
  Type array(uint64_t& at, uint64_t end, unsigned version, size_t size, int depth) const;
  std::string name_at(uint64_t& at, uint64_t end, bool padded) const;
  Bytes fill(const Message& message, const Type& type) const;
  void layout(const Message& message, DataSet& set) const;
  void chunked(uint64_t at, DataSet& set) const;
  void chunked_4(uint64_t at, DataSet& set) const;
  void add_chunk(uint64_t number, StoredChunk chunk, DataSet& set) const;
  void fixed_array(uint64_t header, uint64_t count, uint64_t chunk_bytes, DataSet& set) const;
  void chunk_nodes(uint64_t node, int level, DataSet& set) const;
  std::vector<Filter> filters(const Message& message) const;
  uint64_t length(uint64_t at) const { return file_.number(at, file_.length_size_); }

  File& file_;
  std::set<uint64_t> met_ = {};
  uint64_t messages_left_ = 0;
};

}  // namespace perigee::hdf5
