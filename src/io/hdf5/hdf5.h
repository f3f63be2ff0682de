// Data sets of an HDF5 file, by our own reader: superblocks 0 to 3, old and new groups, contiguous, compact and chunked data, deflate, shuffle,
// Fletcher-32, LZF and Zstandard. Every size is checked against the file before it is used. Not read, and refused by name: references, bit
// fields, links to other files, groups with an index of links, chunks with an extensible index, other filters.
// https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/io/damaged.h"
#include "src/io/file.h"
#include "src/io/hdf5/types.h"

namespace perigee::hdf5 {

struct Filter {
  uint16_t id = 0;
  std::vector<uint32_t> values = {};
};

struct StoredChunk {
  std::vector<uint64_t> begin;  // its first element
  uint64_t address = 0, size = 0;
  uint32_t skipped = 0;  // bit i: without filter i
};

struct DataSet {
  std::string path;  // "group/name"
  std::vector<uint64_t> shape;
  Type type;
  std::string refusal = {};  // why it is not read; empty: it is
  // Where its bytes are.
  uint64_t address = 0, size = 0;  // contiguous or compact, in the file; size 0: nothing is stored
  std::vector<uint64_t> chunk = {};
  std::vector<StoredChunk> chunks = {};
  std::vector<Filter> filters = {};
  Bytes fill = {};  // an element where nothing is stored; empty: zero

  uint64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  uint64_t row_elements() const;  // elements of a row
};

class File {
 public:
  // Error(data) with the offset for damage. `owner` keeps the content alive.
  File(std::string name, std::span<const std::byte> content, std::shared_ptr<const void> owner);

  const std::string& name() const { return name_; }
  const std::vector<DataSet>& sets() const { return sets_; }
  // The elements of some rows, as they are stored. Thread-safe.
  Bytes read(const DataSet& set, uint64_t first_row, uint64_t rows) const;

  // Texts of any length lie in heaps, whose places are kept from one call to the next.
  class Texts {
   public:
    explicit Texts(const File& file) : file_(file) {}
    std::string_view at(const std::byte* element);

   private:
    const File& file_;
    std::map<uint64_t, std::map<uint64_t, std::span<const std::byte>>> heaps_ = {};
  };

 private:
  friend class Headers;
  Bytes decoded(const DataSet& set, const StoredChunk& chunk) const;
  void copy_chunk(const DataSet& set, const StoredChunk& chunk, uint64_t first_row, uint64_t rows, Bytes& out) const;
  [[noreturn]] void damaged(const std::string& what, uint64_t at, const char* hint = kGetAnew) const;
  uint64_t number(uint64_t at, size_t bytes) const;
  uint64_t offset(uint64_t at) const;  // an address, of the size that the file has
  std::span<const std::byte> bytes(uint64_t at, uint64_t size) const;

  std::string name_;
  std::span<const std::byte> content_;
  std::shared_ptr<const void> owner_;
  size_t offset_size_ = 8, length_size_ = 8;
  uint64_t base_ = 0;
  std::vector<DataSet> sets_;
};

}  // namespace perigee::hdf5
