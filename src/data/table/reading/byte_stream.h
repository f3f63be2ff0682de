// The content of a file as it comes, in bounded memory: decompressed where its first bytes say gzip, xz or Zstandard. The library of the
// last is loaded on first use.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/io/file.h"

namespace perigee {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fewer than `size` bytes only at the end. Error(data) with the offset in the file for damage.
  virtual size_t read(char* out, size_t size) = 0;
};

// `stream` in UTF-8; `where` begins messages. Error(data) at the line and byte of the first byte that is no text of the encoding.
std::unique_ptr<ByteStream> decoded_stream(std::unique_ptr<ByteStream> stream, const std::string& encoding, const std::string& where);

// Error(data) when there is no such file.
std::unique_ptr<ByteStream> open_stream(const std::string& path);

// The whole content, decompressed into a file without a name that is mapped: a small file may unpack to a large one. Error(resources) beyond `most`
// bytes, and where there is no room on the disk.
std::shared_ptr<const MappedFile> unpacked_file(const std::string& path, uint64_t most);

}  // namespace perigee
