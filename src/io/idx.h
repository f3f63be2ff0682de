// The IDX format of the MNIST files (http://yann.lecun.com/exdb/mnist/): a magic number, big-endian dimensions, row-major data.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/io/file.h"
#include "src/tensor/shape.h"

namespace perigee {

// An array whose bytes lie in the file's content or, where they had to be converted, in `owned`.
struct IdxArray {
  Dtype dtype = Dtype::u8;  // as stored, except int8 and int16, which become i32
  Shape shape;
  std::span<const std::byte> data;
  std::shared_ptr<const Bytes> owned;
};

// Error(data) with `where` and the offset when the magic number, the dimensions or the length is wrong. `content` must outlive the result.
IdxArray parse_idx(std::span<const std::byte> content, const std::string& where);

}  // namespace perigee
