// Codecs' time on one core, as a share of memory copy: the same block of float32, a segment at a time, as a policy would encode it.
//
//     codec_bench [MEGABYTES] [ELEMENTS OF A SEGMENT] [REPEATS]
//
// Each repeat measures copy, encode and decode_add in turn, so that all see the same machine; printed are medians of the repeats: GB of
// float32 a second, and the median of the ratios within one repeat.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "cluster/codec/codec.h"
#include "src/graph/plan.h"

namespace {

using namespace perigee;

// CPU time of this thread: other programs may run beside.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

struct Block {
  std::vector<float> values, residual, target;
  int64_t segment;
  int repeats;
};

void bench(const std::string& text, Block& block) {
  const Json spec = Json::parse(text, "bench");
  const auto codec = make_codec(&spec, "bench");
  const int64_t n = static_cast<int64_t>(block.values.size());
  const CodecSegment one{.count = block.segment, .rows = 256};
  std::vector<std::byte> out(codec->bound(one)), room(codec->scratch_bytes(one) + 64);
  const std::span scratch = std::span(room).subspan((64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64);
  std::vector<float> state(codec->state_floats(one));
  std::vector<double> copy, encode, decode, encode_share, decode_share;
  std::fill(block.residual.begin(), block.residual.end(), 0.0f);
  double bytes = 0;
  for (int repeat = 0; repeat < block.repeats; ++repeat) {
    double begin = now();
    std::memcpy(block.target.data(), block.values.data(), block.values.size() * sizeof(float));
    copy.push_back(now() - begin);
    double encoding = 0, decoding = 0;
    bytes = 0;
    for (int64_t first = 0; first + block.segment <= n; first += block.segment) {
      const auto part = [&](std::vector<float>& x) {
        return std::span(x).subspan(static_cast<size_t>(first), static_cast<size_t>(block.segment));
      };
      CodecSegment segment = one;
      segment.first = first;
      const EncodeCall call{.segment = segment,
                            .values = part(block.values),
                            .residual = codec->feedback() ? part(block.residual) : std::span<float>(),
                            .state = state,
                            .round = static_cast<uint64_t>(repeat),
                            .scratch = scratch};
      begin = now();
      const size_t length = codec->encode(call, out);
      encoding += now() - begin;
      begin = now();
      if (!codec->decode_add(std::span(out).first(length), 0.5f, segment, part(block.target), scratch)) std::abort();
      decoding += now() - begin;
      bytes += static_cast<double>(length);
    }
    encode.push_back(encoding), decode.push_back(decoding);
    encode_share.push_back(copy.back() / encoding), decode_share.push_back(copy.back() / decoding);
  }
  const double gigabytes = static_cast<double>(n) * 4e-9;
  std::printf("%-66s %7.3f bits  copy %5.2f  encode %5.2f GB/s = %4.2f of copy  decode_add %5.2f GB/s = %4.2f\n", text.c_str(),
              8 * bytes / static_cast<double>(n), gigabytes / median(copy), gigabytes / median(encode), median(encode_share),
              gigabytes / median(decode), median(decode_share));
}

}  // namespace

int main(int argc, char** argv) {
  Block block;
  const int64_t megabytes = argc > 1 ? std::atoll(argv[1]) : 64;
  block.segment = argc > 2 ? std::max<int64_t>(256, std::atoll(argv[2]) / 256 * 256) : 65536;
  block.repeats = argc > 3 ? std::max(1, std::atoi(argv[3])) : 15;
  const auto n = static_cast<size_t>((megabytes * 1'000'000 / 4 + block.segment - 1) / block.segment * block.segment);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  block.values.resize(n), block.residual.resize(n), block.target.resize(n);
  for (float& v : block.values) v = normal(random);
  std::printf("%s, %zu elements in segments of %lld\n", isa_name(host_isa()), n, static_cast<long long>(block.segment));
  for (const char* spec :
       {R"({"type": "fp32"})", R"({"type": "bf16"})", R"({"type": "fp16"})", R"({"type": "int8"})", R"({"type": "int8", "feedback": true})",
        R"({"type": "int8", "rounding": "stochastic"})", R"({"type": "int4", "feedback": true})", R"({"type": "int2"})",
        R"({"type": "sign"})", R"({"type": "topk", "share": 0.01})", R"({"type": "randomk", "share": 0.01})",
        R"({"type": "threshold", "tau": 3.3, "feedback": false})", R"({"type": "threshold", "tau": 1, "adapt": "target"})",
        R"({"type": "lowrank", "rank": 2})", R"({"type": "sign", "scale": "one", "feedback": false})",
        R"({"type": "topk", "share": 0.001, "momentum": 0.9})", R"({"type": "dct", "count": 4, "decay": 0.999})"})
    bench(spec, block);
}
