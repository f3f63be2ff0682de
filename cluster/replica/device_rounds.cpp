#include "cluster/replica/device_rounds.h"

#include <algorithm>

#include "src/io/digest.h"
#include "src/train/device/device_memory.h"

namespace perigee {

void DeviceRounds::reserve(GpuMemory* memory, size_t bytes) {
  if (memory->data() && memory->bytes() >= bytes) return;
  *memory = {};
  *memory = gpu_.allocate(bytes, "what is measured in a round");
}

double DeviceRounds::square(const float* from, const float* less, int64_t elements) {
  const auto pieces = static_cast<size_t>((elements + kSquaresPiece - 1) / kSquaresPiece);
  if (pieces == 0) return 0;
  reserve(&squares_, pieces * sizeof(double));
  gpu_.select();
  auto* const sums = reinterpret_cast<double*>(squares_.data());
  gpu_.check(gpu_.module().rounds->squares(from, less, elements, sums, static_cast<CudaStream>(gpu_.queue().stream)), "measure a change");
  read_.resize(pieces);
  gpu_.download(read_.data(), sums, pieces * sizeof(double));
  double all = 0;
  for (const double sum : read_) all += sum;
  return all;
}

size_t DeviceRounds::bytes(size_t hashed, size_t squared) {
  const size_t blocks = hashed > Xxh3Sums::kBlock ? (hashed - 1) / Xxh3Sums::kBlock : 0;
  constexpr size_t kSums = sizeof(Xxh3Sums::sums);
  return (blocks > 0 ? device_bytes(blocks * kSums) + device_bytes(kSums) : 0) +
         (squared > 0 ? device_bytes((squared + kSquaresPiece - 1) / kSquaresPiece * sizeof(double)) : 0);
}

uint64_t DeviceRounds::xxh3_64(const std::byte* bytes, size_t count) {
  static_assert(CudaHash::kBlock == Xxh3Sums::kBlock && CudaHash::kSums == std::tuple_size_v<decltype(Xxh3Sums::sums)>);
  const size_t blocks = count > Xxh3Sums::kBlock ? (count - 1) / Xxh3Sums::kBlock : 0;
  std::byte room[Xxh3Sums::kBlock];
  const std::span<std::byte> tail(room, blocks == 0 ? count : std::max(count - blocks * Xxh3Sums::kBlock, Xxh3Sums::kTail));
  gpu_.select();
  gpu_.download(tail.data(), bytes + (count - tail.size()), tail.size());
  if (blocks == 0) return perigee::xxh3_64(tail);
  Xxh3Sums sums = Xxh3Sums::start();
  reserve(&parts_, blocks * sizeof sums.sums);
  reserve(&sums_, sizeof sums.sums);
  gpu_.upload(sums_.data(), sums.sums.data(), sizeof sums.sums);
  CudaHash call{.bytes = bytes,
                .blocks = static_cast<int64_t>(blocks),
                .parts = reinterpret_cast<uint64_t*>(parts_.data()),
                .sums = reinterpret_cast<uint64_t*>(sums_.data())};
  std::ranges::copy(Xxh3Sums::secret(), call.secret);
  gpu_.check(gpu_.module().rounds->hash(call, static_cast<CudaStream>(gpu_.queue().stream)), "hash parameters");
  gpu_.download(sums.sums.data(), sums_.data(), sizeof sums.sums);
  return sums.end(tail, count);
}

}  // namespace perigee
