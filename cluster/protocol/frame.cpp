#include "cluster/protocol/frame.h"

#include <cassert>
#include <cstring>

#include "cluster/protocol/records.h"

namespace perigee {
namespace {

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

}  // namespace

const char* to_string(MessageType type) {
  switch (type) {
#define PERIGEE_NAME(name, number) \
  case MessageType::name: return #name;
    PERIGEE_MESSAGE_TYPES(PERIGEE_NAME)
#undef PERIGEE_NAME
  }
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

}  // namespace perigee
