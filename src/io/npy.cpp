#include "src/io/npy.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

#include "kernels/convert.h"
#include "src/core/error.h"
#include "src/io/archive/zip.h"

namespace perigee {
namespace {

constexpr size_t kMaxHeader = 1 << 16;

[[noreturn]] void fail_npy(const std::string& where, std::string what, std::string got = "", std::string expected = "") {
  throw Error(ErrorKind::data, {.where = where, .what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

struct Header {
  char kind = 'f';  // NumPy's: b i u f
  size_t width = 4;
  bool big_endian = false, fortran = false;
  std::vector<int64_t> dims;
};

// The header is a Python dictionary; only the one shape that NumPy writes is accepted:
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header read() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      bool& seen = key == "descr" ? descr : key == "fortran_order" ? order : key == "shape" ? shape : unknown(key);
      if (seen) fail_npy(where_, "the header has '" + key + "' twice");
      seen = true;
      if (key == "descr") read_type(header);
      else if (key == "fortran_order") header.fortran = boolean();
      else read_shape(header);
      if (!accept(',') && peek() != '}') fail_npy(where_, "the header is not a NumPy header");
    }
    skip();
    if (at_ != text_.size() || !descr || !order || !shape) fail_npy(where_, "the header is not a NumPy header");
    return header;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail_npy(where_, std::string("the header is not a NumPy header: '") + c + "' is missing");
  }
  [[noreturn]] bool& unknown(const std::string& key) { fail_npy(where_, "the header has an unknown key '" + key.substr(0, 40) + "'"); }

  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_npy(where_, "the type is not a plain one: structured arrays cannot be read");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail_npy(where_, "the header ends inside a string");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    fail_npy(where_, "'fortran_order' is neither True nor False");
  }

  void read_type(Header& header) {
    const std::string descr = quoted();
    const bool known = descr.size() == 3 && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
    const std::string code = known ? descr.substr(1) : "";
    for (const char* type : {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"})
      if (code == type) {
        header.kind = code[0];
        header.width = static_cast<size_t>(code[1] - '0');
        header.big_endian = descr[0] == '>';
        return;
      }
    fail_npy(where_, "the element type cannot be read", "'" + descr.substr(0, 40) + "'", "bool, integers or floating point up to 64 bits");
  }

  void read_shape(Header& header) {
    expect('(');
    while (!accept(')')) {
      if (header.dims.size() == static_cast<size_t>(kMaxRank))
        fail_npy(where_, "the array has too many dimensions", "", "at most " + std::to_string(kMaxRank));
      int64_t dim = 0;
      size_t digits = 0;
      for (skip(); at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits)
        if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, text_[at_] - '0', &dim))
          fail_npy(where_, "a dimension is too large");
      if (digits == 0) fail_npy(where_, "the shape is not a list of sizes");
      header.dims.push_back(dim);
      if (!accept(',') && peek() != ')') fail_npy(where_, "the shape is not a list of sizes");
    }
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

Dtype type_of(const Header& header) {
  if (header.kind == 'b') return Dtype::boolean;
  if (header.kind == 'f') return header.width == 8 ? Dtype::f64 : header.width == 4 ? Dtype::f32 : Dtype::f16;
  if (header.kind == 'u') return header.width == 1 ? Dtype::u8 : header.width == 2 ? Dtype::i32 : Dtype::i64;
  return header.width == 8 ? Dtype::i64 : Dtype::i32;
}

uint64_t load_npy(const std::byte* p, const Header& header) {
  uint64_t value = 0;
  for (size_t i = 0; i < header.width; ++i) {
    const size_t from_low = header.big_endian ? header.width - 1 - i : i;
    value |= std::to_integer<uint64_t>(p[i]) << (8 * from_low);
  }
  if (header.kind == 'i') {
    const int unused = static_cast<int>(64 - 8 * header.width);
    value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
  }
  return value;
}

// Element i of the result comes from element source(i) of the file.
void copy_elements(const Header& header, std::span<const std::byte> data, Tensor& tensor, const std::string& where) {
  const int64_t n = tensor.elements();
  const size_t wide = dtype_bytes(tensor.dtype());
  auto* to = tensor.data<std::byte>();
  if (!header.big_endian && wide == header.width && !header.fortran && header.kind != 'u' && header.kind != 'b') {
    if (n > 0) std::memcpy(to, data.data(), static_cast<size_t>(n) * wide);
    return;
  }
  const int rank = tensor.shape().rank();
  std::vector<int64_t> index(static_cast<size_t>(rank)), stride(static_cast<size_t>(rank));
  int64_t step = 1;
  for (int k = 0; k < rank; ++k) {
    const int d = header.fortran ? k : rank - 1 - k;
    stride[static_cast<size_t>(d)] = step;
    step *= tensor.shape()[d];
  }
  int64_t source = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t value = load_npy(data.data() + static_cast<size_t>(source) * header.width, header);
    if (header.kind == 'b') value = value != 0;
    if (header.kind == 'u' && header.width == 8 && value > static_cast<uint64_t>(INT64_MAX))
      fail_npy(where, "element " + std::to_string(i) + " does not fit into 64 signed bits", std::to_string(value));
    std::memcpy(to + static_cast<size_t>(i) * wide, &value, wide);
    for (int d = rank - 1; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      source += stride[k];
      if (++index[k] < tensor.shape()[d]) break;
      source -= index[k] * stride[k];
      index[k] = 0;
    }
  }
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text = as_text(bytes);
  if (!text.starts_with("\x93NUMPY")) fail_npy(where, "the magic number at byte 0 is not NumPy's");
  if (bytes.size() < 10) fail_npy(where, "the file is cut short at byte " + std::to_string(bytes.size()));
  const int version = text[6];
  if (version < 1 || version > 3) fail_npy(where, "the version at byte 6 is unknown", std::to_string(version), "1, 2 or 3");
  const size_t prefix = version == 1 ? 10 : 12;
  uint32_t length = 0;
  if (bytes.size() < prefix) fail_npy(where, "the file is cut short at byte " + std::to_string(bytes.size()));
  std::memcpy(&length, bytes.data() + 8, prefix - 8);
  if (length > kMaxHeader) fail_npy(where, "the header is too long", std::to_string(length), "at most " + std::to_string(kMaxHeader));
  if (bytes.size() - prefix < length)
    fail_npy(where, "the file is cut short at byte " + std::to_string(bytes.size()), "",
             "a header of " + std::to_string(length) + " bytes");
  const Header header = HeaderReader(text.substr(prefix, length), where).read();
  const std::span<const std::byte> data = bytes.subspan(prefix + length);
  const std::optional<int64_t> count = count_elements(header.dims);
  if (!count) fail_npy(where, "the array is too large");
  const uint64_t size = static_cast<uint64_t>(*count) * header.width;
  if (data.size() != size)
    fail_npy(where,
             data.size() < size ? "the file is cut short at byte " + std::to_string(bytes.size())
                                : "something follows the data at byte " + std::to_string(bytes.size() - data.size() + size),
             std::to_string(data.size()) + " bytes of data", std::to_string(size) + " for " + Shape(header.dims).text());
  Tensor tensor(type_of(header), Shape(header.dims));
  copy_elements(header, data, tensor, where);
  return tensor;
}

std::vector<std::pair<std::string, Tensor>> parse_npz(std::span<const std::byte> bytes, const std::string& where, uint64_t limit) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const ZipEntry& entry : zip_entries(bytes, where)) {
    if (entry.size > limit) throw Error(ErrorKind::resources, {.where = where, .what = "the arrays are larger than allowed"});
    limit -= entry.size;
    const std::string inside = where + ": " + entry.name;
    const Bytes content = zip_content(bytes, entry, inside);
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays.emplace_back(std::move(name), parse_npy(content, inside));
  }
  return arrays;
}

std::string npy_head(const Type& type) {
  const char* code = "";
  switch (type.dtype) {
    case Dtype::f32: code = "<f4"; break;
    case Dtype::f64: code = "<f8"; break;
    case Dtype::f16: code = "<f2"; break;
    case Dtype::i32: code = "<i4"; break;
    case Dtype::i64: code = "<i8"; break;
    case Dtype::u8: code = "|u1"; break;
    case Dtype::boolean: code = "|b1"; break;
    case Dtype::bf16: assert(false); break;
  }
  std::string header = std::string("{'descr': '") + code + "', 'fortran_order': False, 'shape': (";
  for (const int64_t dim : type.shape.vector()) header += std::to_string(dim) + (type.shape.rank() == 1 ? "," : ", ");
  if (type.shape.rank() > 1) header.resize(header.size() - 2);
  header += "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string head = "\x93NUMPY";
  head += '\x01';
  head += '\0';
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);
  return head + header;
}

Bytes npy_bytes(const Tensor& given) {
  const Tensor tensor = given.dtype() == Dtype::bf16 ? given.to(Dtype::f32) : given;
  const std::string start = npy_head({tensor.dtype(), tensor.shape()});
  Bytes out(as_bytes(start).begin(), as_bytes(start).end());
  const auto* data = tensor.data<std::byte>();
  out.insert(out.end(), data, data + tensor.bytes());
  return out;
}

}  // namespace perigee
