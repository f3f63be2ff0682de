// The safetensors format (an 8-byte length, a JSON header, then the tensors without gaps), with XXH3-128 over all of it in
// __metadata__.xxh3. Reading trusts nothing: everything is checked before anything is allocated for a tensor.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/io/file.h"
#include "src/tensor/tensor.h"

namespace perigee {

struct NamedTensor {
  std::string name;
  Tensor tensor;  // contiguous
};

using Metadata = std::map<std::string, std::string>;

// The whole file as bytes / written by write_file (temporary, fsync, rename). Metadata gets "xxh3".
Bytes safetensors_bytes(std::span<const NamedTensor> tensors, const Metadata& metadata);
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata);

struct Safetensors {
  Metadata metadata;
  std::vector<NamedTensor> tensors;  // in file order
  const Tensor* find(std::string_view name) const;
};

// Error(model) naming `where` and what is wrong: header over 16 MiB, more than 65,536 tensors, unknown dtypes, sizes that overflow or differ
// from shape x dtype, holes, overlaps, trailing bytes, duplicate names, a digest that does not match. Files by other programs
// have no digest: they are read without that check.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& where);
Safetensors read_safetensors(const std::string& path);

}  // namespace perigee
