// A stream in pieces of any sizes: the frames are those of the stream in one piece, and memory follows checked headers alone.
#include "cluster/uv/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace perigee {
namespace {

using Next = FrameReader::Next;

struct Result {
  std::vector<std::vector<std::byte>> frames;
  Next end = Next::more;
};

// Pieces are as long as the first `cuts` bytes say, in turn; without them as long as there is room. With `elsewhere` the bodies of large
// chunks are received in memory of their own.
Result read_all(std::span<const std::byte> stream, std::span<const uint8_t> cuts, bool elsewhere = false) {
  FrameReader reader;
  Result result;
  static std::vector<std::byte> memory(kMaxFrameBytes);
  for (size_t turn = 0; !stream.empty(); ++turn) {
    if (elsewhere && !reader.chunk_head().empty()) reader.place({.memory = memory.data()});
    const auto room = reader.space();
    PERIGEE_FUZZ_CHECK(!room.empty() && reader.capacity() <= kMaxFrameBytes + 4096);
    size_t count = std::min(room.size(), stream.size());
    if (!cuts.empty()) count = std::min<size_t>(count, 1 + cuts[turn % cuts.size()]);
    std::memcpy(room.data(), stream.data(), count);
    reader.filled(count);
    stream = stream.subspan(count);
    std::span<const std::byte> frame;
    while ((result.end = reader.next(&frame)) == Next::frame || result.end == Next::placed) {
      auto& whole = result.frames.emplace_back(frame.begin(), frame.end());
      if (result.end == Next::placed) whole.insert(whole.end(), reader.body().begin(), reader.body().end());
      PERIGEE_FUZZ_CHECK(whole.size() == kHeaderBytes + reader.header().length);
    }
    if (result.end != Next::more) break;
  }
  return result;
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  if (size < 4) return 0;
  const Result whole = read_all(fuzz_bytes(data + 4, size - 4), {});
  const Result pieces = read_all(fuzz_bytes(data + 4, size - 4), {data, 4});
  PERIGEE_FUZZ_CHECK(whole.end == pieces.end && whole.frames == pieces.frames);
  const Result placed = read_all(fuzz_bytes(data + 4, size - 4), {data, 4}, true);
  PERIGEE_FUZZ_CHECK(placed.end == pieces.end && placed.frames == pieces.frames);
  size_t sum = 0;
  for (const auto& frame : whole.frames) sum += frame.size();
  PERIGEE_FUZZ_CHECK(sum <= size);
  return 0;
}
