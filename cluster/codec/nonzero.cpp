// Values that are not zero, in 32 bits each: of the gradient of an embedding only the rows that were read travel. Nothing is lost, so that with feedback
// nothing is ever left over.
// A segment is cut into blocks of kBlock elements (the last may be shorter), and a block is sent where one of its bits is set.
//   variant 0: the number of runs of such blocks, 8 bytes; for each run two gaps (kernels/gaps.h): blocks that are left out, blocks that are sent,
//              less one; then the numbers of the blocks that are sent
//   variant 1: all numbers, where that is not longer
#include <algorithm>
#include <cstring>

#include "cluster/codec/float_codec.h"
#include "cluster/codec/options.h"
#include "cluster/codec/sparse.h"

namespace perigee {
namespace {

constexpr auto kNonzeroOptions = common_options("false");
constexpr int64_t kBlock = 16;
constexpr size_t kNonzeroCount = 8;  // bytes of the number of runs
constexpr uint16_t kAll = 1;         // variant

struct Run {
  int64_t first = 0, last = 0;  // elements
};

class NonzeroCodec final : public Codec {
 public:
  explicit NonzeroCodec(const CodecSetup& setup) : Codec(setup) {}

  size_t bound(const CodecSegment& segment) const override { return kPayloadHeader + bytes_of(segment.count); }
  // Which ones will be zero is not known here.
  double bits_per_element(const CodecSegment&) const override { return 32; }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    const int64_t n = call.segment.count;
    const float* v = call.values.data();
    if (feedback()) {
      loops().fold(v, call.residual.data(), decay(), n);
      v = call.residual.data();
    }
    size_t bytes = kNonzeroCount;
    int64_t runs = 0, after = 0;  // after: the first block behind the run before
    each_run(v, n, [&](int64_t first, int64_t last) {
      bytes += gap_bytes(static_cast<uint64_t>(first - after)) + gap_bytes(static_cast<uint64_t>(last - first - 1)) +
               bytes_of(std::min(n, last * kBlock) - first * kBlock);
      after = last, ++runs;
    });
    if (bytes >= bytes_of(n)) {
      header->variant = kAll;
      bytes = bytes_of(n);
      if (n > 0) std::memcpy(body, v, bytes);
    } else {
      write_runs(v, n, runs, body);
    }
    std::fill(call.residual.begin(), call.residual.end(), 0.0f);
    return bytes;
  }

  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte>) const override {
    if (header.detail != 0 || header.variant > kAll) return false;
    if (header.variant == kAll) {
      if (body.size() != bytes_of(segment.count) || !all_finite(kFp32, body.data(), segment.count)) return false;
      kFp32.add(loops(), body.data(), segment.count, weight, sum.data());
      return true;
    }
    if (body.size() < kNonzeroCount) return false;
    int64_t runs, sent = 0;
    std::memcpy(&runs, body.data(), kNonzeroCount);
    const int64_t blocks = blocks_of(segment.count);
    if (runs < 0 || runs > blocks / 2 + 1) return false;
    const std::byte* const end = body.data() + body.size();
    const std::byte* at = body.data() + kNonzeroCount;
    const std::byte* const list = at;
    Reader reader{segment.count};
    Run run;
    for (int64_t i = 0; i < runs; ++i) {
      if (!reader.next(at, end, &run)) return false;
      sent += run.last - run.first;
    }
    if (static_cast<size_t>(end - at) != bytes_of(sent) || !all_finite(kFp32, at, sent)) return false;
    const std::byte *values = at, *again = list;
    for (reader = Reader{segment.count}; runs > 0 && reader.next(again, end, &run); --runs) {
      kFp32.add(loops(), values, run.last - run.first, weight, sum.data() + run.first);
      values += bytes_of(run.last - run.first);
    }
    return true;
  }

  void add_options(Json*) const override {}

 private:
  static int64_t blocks_of(int64_t elements) { return elements / kBlock + (elements % kBlock != 0); }
  static size_t bytes_of(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

  // Reads runs one after the other; false at one that is beyond the segment.
  struct Reader {
    int64_t elements = 0, block = 0;
    bool next(const std::byte*& at, const std::byte* end, Run* run) {
      uint64_t skipped, more;
      const auto left = static_cast<uint64_t>(blocks_of(elements) - block);
      if (!read_gap(at, end, &skipped) || !read_gap(at, end, &more)) return false;
      if (skipped >= left || more >= left - skipped) return false;
      const int64_t first = block + static_cast<int64_t>(skipped);
      block = first + static_cast<int64_t>(more) + 1;
      *run = {first * kBlock, std::min(elements, block * kBlock)};
      return true;
    }
  };

  static void write_runs(const float* v, int64_t n, int64_t runs, std::byte* body) {
    std::memcpy(body, &runs, kNonzeroCount);
    std::byte* to = body + kNonzeroCount;
    int64_t after = 0;
    each_run(v, n, [&](int64_t first, int64_t last) {
      to = write_gap(static_cast<uint64_t>(first - after), to);
      to = write_gap(static_cast<uint64_t>(last - first - 1), to);
      after = last;
    });
    each_run(v, n, [&](int64_t first, int64_t last) {
      const int64_t begin = first * kBlock, count = std::min(n, last * kBlock) - begin;
      std::memcpy(to, v + begin, bytes_of(count));
      to += bytes_of(count);
    });
  }

  // use(first block, one behind the last) for each run of blocks that are not all zero bits: a negative zero is sent, too.
  template <class Use>
  static void each_run(const float* v, int64_t n, Use use) {
    static constexpr std::byte kZeros[kBlock * sizeof(float)] = {};
    const int64_t blocks = blocks_of(n);
    int64_t first = -1;
    for (int64_t block = 0; block <= blocks; ++block) {
      const int64_t count = std::min(kBlock, n - block * kBlock);
      const bool sent = block < blocks && std::memcmp(v + block * kBlock, kZeros, bytes_of(count)) != 0;
      if (sent && first < 0) first = block;
      if (!sent && first >= 0) use(first, block), first = -1;
    }
  }
};

std::unique_ptr<Codec> make_nonzero(const Config&, const CodecSetup& setup) { return std::make_unique<NonzeroCodec>(setup); }

}  // namespace

extern const CodecDef codec_nonzero;
const CodecDef codec_nonzero{.name = "nonzero",
                             .doc = "32 bits each of what is not zero, nothing lost: of embeddings only the rows that were read.",
                             .format = 14,
                             .schema = {.options = kNonzeroOptions},
                             .make = make_nonzero};

}  // namespace perigee
