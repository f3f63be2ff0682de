#include "cluster/protocol/message.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "src/core/error.h"

namespace perigee {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

template <class T>
concept Number = std::is_arithmetic_v<T>;

// How many elements a vector may have, whatever the frame's length allows.
template <class T>
constexpr size_t kMaxCount = kMaxRanges;
template <>
constexpr size_t kMaxCount<Member> = kMaxWorkers;
template <>
constexpr size_t kMaxCount<DeadLink> = kMaxWorkers;
template <>
constexpr size_t kMaxCount<Share> = kMaxWorkers;
template <>
constexpr size_t kMaxCount<DataPrint> = 16;
template <>
constexpr size_t kMaxCount<TracedSpan> = kMaxTraced;
template <>
constexpr size_t kMaxCount<Membership> = kMaxMemberships;

// The longest beginning of `text` that is within the bound and does not end inside a UTF-8 character.
std::string_view cut_text(std::string_view text) {
  if (text.size() <= kMaxText) return text;
  size_t end = kMaxText;
  while (end > kMaxText - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// An element of a list: texts in lists are records for programs, which nobody may cut.
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
    if (list.size() > kMaxCount<T>)
      throw Error(ErrorKind::resources, {.what = "a message's list is too long",
                                         .got = std::to_string(list.size()) + " elements",
                                         .expected = "at most " + std::to_string(kMaxCount<T>)});
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
    if (!ok_ || count > kMaxCount<T> || count > rest_.size() / least) return fail();
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

template <class T>
void put_at(std::span<std::byte, kHeaderBytes> out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof(T));
}
template <class T>
T get_at(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

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

}  // namespace

const char* to_string(MessageType type) {
  static constexpr const char* kWorker[] = {"join",      "welcome",  "refuse",       "form",     "formed", "heal",   "healed",
                                            "go",        "lease",    "ready",        "begin",    "done",   "commit", "beat",
                                            "link_lost", "evaluate", "evaluated",    "snapshot", "leave",  "failed", "stop",
                                            "traced",    "witness",  "coordinators", "served"};
  static constexpr const char* kPeer[] = {"link", "chunk", "fetch", "image", "push", "pulled"};
  static constexpr const char* kAgent[] = {"start",      "started", "exited",  "status",     "report", "replicate",
                                           "replicated", "follow",  "inherit", "taken_over", "steer"};
  static constexpr const char* kData[] = {"read", "examples"};
  static_assert(std::size(kWorker) == static_cast<size_t>(MessageType::served));
  static_assert(std::size(kAgent) == static_cast<size_t>(MessageType::steer) - 127);
  const auto within = [&](std::span<const char* const> names, MessageType first) -> const char* {
    const size_t i = static_cast<size_t>(type) - static_cast<size_t>(first);  // below `first` it wraps to a large number
    return i < names.size() ? names[i] : nullptr;
  };
  if (const char* name = within(kWorker, MessageType::join)) return name;
  if (const char* name = within(kPeer, MessageType::link)) return name;
  if (const char* name = within(kAgent, MessageType::start)) return name;
  if (const char* name = within(kData, MessageType::read)) return name;
  return "unknown";
}

std::string host_name_in(const std::string& host) { return host.substr(0, host.find('#')); }

void write_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) {
  assert(header.length <= kMaxFrameBytes - kHeaderBytes);
  put_at(out, 0, kMagic);
  put_at(out, 4, header.protocol);
  put_at(out, 6, static_cast<uint16_t>(header.type));
  put_at(out, 8, header.length);
  put_at(out, 12, uint32_t{0});
  put_at(out, 16, header.job);
  put_at(out, 24, header.generation);
  put_at(out, 32, header.round);
}

bool read_header(std::span<const std::byte> bytes, FrameHeader* header) {
  assert(header);
  if (bytes.size() < kHeaderBytes || get_at<uint32_t>(bytes, 0) != kMagic) return false;
  header->protocol = get_at<uint16_t>(bytes, 4);
  header->type = static_cast<MessageType>(get_at<uint16_t>(bytes, 6));
  header->length = get_at<uint32_t>(bytes, 8);
  header->job = get_at<uint64_t>(bytes, 16);
  header->generation = get_at<uint64_t>(bytes, 24);
  header->round = get_at<int64_t>(bytes, 32);
  if (header->protocol != kProtocol) return true;  // what the rest means there is not ours to judge
  return header->length <= kMaxFrameBytes - kHeaderBytes && get_at<uint32_t>(bytes, 12) == 0;
}

template <class M>
std::vector<std::byte> encode(const M& message, FrameHeader header, size_t body_bytes) {
  std::vector<std::byte> out(head_bytes(message, body_bytes));
  write_head(out, message, header, body_bytes);
  return out;
}

template <class M>
size_t encode_into(std::span<std::byte> out, const M& message, FrameHeader header, size_t body_bytes) {
  const size_t head = head_bytes(message, body_bytes);
  assert(out.size() >= head);
  write_head(out.first(head), message, header, body_bytes);
  return head;
}

template <class M>
bool decode(std::span<const std::byte> payload, M* message, std::span<const std::byte>* body) {
  assert(message);
  Reader reader(payload);
  reader(*message);
  if (!reader.ok() || (!body && !reader.rest().empty())) return false;
  if (body) *body = reader.rest();
  return true;
}

#define PERIGEE_CODER(M)                                                               \
  template std::vector<std::byte> encode<M>(const M&, FrameHeader, size_t);            \
  template size_t encode_into<M>(std::span<std::byte>, const M&, FrameHeader, size_t); \
  template bool decode<M>(std::span<const std::byte>, M*, std::span<const std::byte>*);
PERIGEE_MESSAGES(PERIGEE_CODER)
#undef PERIGEE_CODER

}  // namespace perigee
