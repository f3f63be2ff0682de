// How messages become bytes and bytes messages. Only the .cpp of each protocol's messages includes it.
#pragma once

#include <bit>
#include <cassert>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "cluster/protocol/frame.h"
#include "src/core/error.h"

namespace perigee {
namespace wire {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

template <class T>
concept Number = std::is_arithmetic_v<T>;

// How many elements a vector may have, whatever the frame's length allows.
template <class T>
constexpr size_t most_in_list() {
  if constexpr (requires { T::kMostInList; }) return T::kMostInList;
  else return kMaxRanges;
}

// The longest beginning of `text` that is within the bound and does not end inside a UTF-8 character.
inline std::string_view cut_text(std::string_view text) {
  if (text.size() <= kMaxText) return text;
  size_t end = kMaxText;
  while (end > kMaxText - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// An element of a list: texts in lists are records for programs, which must not be cut.
template <class F, class T>
void each(F& f, T& element) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, std::string>) f.long_text(element);
  else f(element);
}

// Three visitors of the same `fields`: the size, the bytes, and back.
class Sizer {
 public:
  size_t bytes() const { return bytes_; }

  template <Number T>
  void operator()(const T&) {
    bytes_ += sizeof(T);
  }
  void operator()(const std::string& text) { bytes_ += 4 + cut_text(text).size(); }
  void long_text(const std::string& text) { bytes_ += 4 + text.size(); }
  template <class T>
  void operator()(const std::vector<T>& list) {
    if (list.size() > most_in_list<T>())
      throw Error(ErrorKind::resources, {.what = "a message's list is too long",
                                         .got = std::to_string(list.size()) + " elements",
                                         .expected = "at most " + std::to_string(most_in_list<T>())});
    bytes_ += 4;
    for (const T& element : list) each(*this, element);
  }
  template <class T>
  requires requires(T& t, Sizer& s) { t.fields(s); }
  void operator()(const T& part) {
    const_cast<T&>(part).fields(*this);  // `fields` serves reading too; neither Sizer nor Writer changes what it is shown
  }

 private:
  size_t bytes_ = 0;
};

class Writer {
 public:
  explicit Writer(std::byte* out) : out_(out) {}
  const std::byte* end() const { return out_; }

  template <Number T>
  void operator()(const T& value) {
    put(&value, sizeof(T));
  }
  void operator()(const std::string& text) { put_text(cut_text(text)); }
  void long_text(const std::string& text) { put_text(text); }
  template <class T>
  void operator()(const std::vector<T>& list) {
    (*this)(static_cast<uint32_t>(list.size()));
    for (const T& element : list) each(*this, element);
  }
  template <class T>
  requires requires(T& t, Writer& w) { t.fields(w); }
  void operator()(const T& part) { const_cast<T&>(part).fields(*this); }

 private:
  void put(const void* from, size_t bytes) {
    if (bytes) std::memcpy(out_, from, bytes);
    out_ += bytes;
  }
  void put_text(std::string_view text) {
    (*this)(static_cast<uint32_t>(text.size()));
    put(text.data(), text.size());
  }

  std::byte* out_;
};

// Once something is wrong it stays wrong and reads nothing more.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  std::span<const std::byte> rest() const { return rest_; }

  template <Number T>
  void operator()(T& value) {
    if (!take(sizeof(T))) return;
    std::memcpy(&value, taken_, sizeof(T));
  }
  void operator()(bool& value) {
    if (!take(1)) return;
    if (std::to_integer<unsigned>(*taken_) > 1) return fail();
    value = std::to_integer<unsigned>(*taken_) == 1;
  }
  void operator()(std::string& text) { get_text(text, kMaxText); }
  void long_text(std::string& text) { get_text(text, kMaxFrameBytes); }

  template <class T>
  void operator()(std::vector<T>& list) {
    uint32_t count = 0;
    (*this)(count);
    static const size_t least = least_bytes<T>();
    if (!ok_ || count > most_in_list<T>() || count > rest_.size() / least) return fail();
    list.clear();
    list.resize(count);
    for (T& element : list) {
      each(*this, element);
      if (!ok_) return;
    }
  }
  template <class T>
  requires requires(T& t, Reader& r) { t.fields(r); }
  void operator()(T& part) { part.fields(*this); }

 private:
  template <class T>
  static size_t least_bytes() {  // of one element: an empty one has nothing that could be left out
    Sizer sizer;
    sizer(T{});
    return sizer.bytes();
  }
  void fail() { ok_ = false; }
  bool take(size_t bytes) {
    if (!ok_ || rest_.size() < bytes) {
      ok_ = false;
      return false;
    }
    taken_ = rest_.data();
    rest_ = rest_.subspan(bytes);
    return true;
  }
  void get_text(std::string& text, size_t bound) {
    uint32_t count = 0;
    (*this)(count);
    if (!ok_ || count > bound || !take(count)) return fail();
    text.assign(reinterpret_cast<const char*>(taken_), count);
  }

  std::span<const std::byte> rest_;
  const std::byte* taken_ = nullptr;
  bool ok_ = true;
};

template <class M>
size_t head_bytes(const M& message, size_t body_bytes) {
  Sizer sizer;
  sizer(message);
  const size_t frame = kHeaderBytes + sizer.bytes() + body_bytes;
  if (body_bytes > kMaxFrameBytes || frame > kMaxFrameBytes)
    throw Error(ErrorKind::resources, {.where = std::string("message '") + to_string(M::kType) + "'",
                                       .what = "it does not fit into a frame",
                                       .got = std::to_string(frame) + " bytes",
                                       .expected = "at most " + std::to_string(kMaxFrameBytes)});
  return kHeaderBytes + sizer.bytes();
}

template <class M>
void write_head(std::span<std::byte> out, const M& message, FrameHeader header, size_t body_bytes) {
  header.type = M::kType;
  header.length = static_cast<uint32_t>(out.size() - kHeaderBytes + body_bytes);
  write_header(header, out.first<kHeaderBytes>());
  Writer writer(out.data() + kHeaderBytes);
  writer(message);
  assert(writer.end() == out.data() + out.size());
}

}  // namespace wire

template <class M>
std::vector<std::byte> encode(const M& message, FrameHeader header, size_t body_bytes) {
  std::vector<std::byte> out(wire::head_bytes(message, body_bytes));
  wire::write_head(out, message, header, body_bytes);
  return out;
}

template <class M>
size_t encode_into(std::span<std::byte> out, const M& message, FrameHeader header, size_t body_bytes) {
  const size_t head = wire::head_bytes(message, body_bytes);
  assert(out.size() >= head);
  wire::write_head(out.first(head), message, header, body_bytes);
  return head;
}

template <class M>
bool decode(std::span<const std::byte> payload, M* message, std::span<const std::byte>* body) {
  assert(message);
  wire::Reader reader(payload);
  reader(*message);
  if (!reader.ok() || (!body && !reader.rest().empty())) return false;
  if (body) *body = reader.rest();
  return true;
}

#define PERIGEE_CODER(M)                                                               \
  template std::vector<std::byte> encode<M>(const M&, FrameHeader, size_t);            \
  template size_t encode_into<M>(std::span<std::byte>, const M&, FrameHeader, size_t); \
  template bool decode<M>(std::span<const std::byte>, M*, std::span<const std::byte>*);

}  // namespace perigee
