// A payload of any type: refused, or decoded to something that encodes to the same bytes.
#include <algorithm>

#include "cluster/protocol/message.h"
#include "tests/fuzz/fuzz.h"

namespace perigee {
namespace {

template <class M>
void try_as(std::span<const std::byte> payload) {
  M message;
  std::span<const std::byte> body;
  if (!decode(payload, &message, &body)) return;
  PERIGEE_FUZZ_CHECK(body.size() <= payload.size());
  const auto frame = encode(message, {}, body.size());
  const auto head = std::span(frame).subspan(kHeaderBytes);
  PERIGEE_FUZZ_CHECK(std::ranges::equal(head, payload.first(payload.size() - body.size())));
  FrameHeader header;
  PERIGEE_FUZZ_CHECK(read_header(frame, &header) && header.type == M::kType && header.length == payload.size());
  M alone;
  PERIGEE_FUZZ_CHECK(decode(payload, &alone) == body.empty());
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  if (size < 2 || size > kMaxFrameBytes / 2) return 0;
  const auto type = static_cast<MessageType>(data[0] | data[1] << 8);
  const auto payload = fuzz_bytes(data + 2, size - 2);
#define PERIGEE_TRY(M) \
  if (type == M::kType) try_as<M>(payload);
  PERIGEE_MESSAGES(PERIGEE_TRY)
#undef PERIGEE_TRY
  FrameHeader header;
  if (read_header(payload, &header)) PERIGEE_FUZZ_CHECK(header.protocol != kProtocol || header.length <= kMaxFrameBytes - kHeaderBytes);
  return 0;
}
