// NumPy's .npy (versions 1 to 3, any byte order and either memory order) and .npz (a ZIP of them, stored or deflated).
// Hostile files are refused before anything is allocated for them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/io/file.h"
#include "src/tensor/tensor.h"

namespace perigee {

// Row-major. Types that Tensor lacks are widened: int8, int16 and uint16 become i32, uint32 and uint64 become i64 (an Error where a value
// does not fit). Error(data) with `where` for complex, structured and object arrays, and for damage.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& where);

// The arrays of an archive in its order; names without ".npy". `limit` bounds the sum of their decompressed sizes.
std::vector<std::pair<std::string, Tensor>> parse_npz(std::span<const std::byte> bytes, const std::string& where,
                                                      uint64_t limit = uint64_t{1} << 36);

// A file as numpy.save writes it. bf16, which NumPy lacks, is written as f32.
Bytes npy_bytes(const Tensor& tensor);
// The bytes of such a file before its elements, a multiple of 64; `type` is not bf16.
std::string npy_head(const Type& type);

}  // namespace perigee
