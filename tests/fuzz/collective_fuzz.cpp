// An exchange among four members on which arbitrary chunks rain between the genuine ones: every one is taken or refused, none harms
// memory, and once the genuine ones have arrived everybody is done. What was refused left no trace: with nothing but refused chunks
// the results are the sums.
#include "cluster/exchange/collective.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "cluster/exchange/topology/chunk_pool.h"
#include "cluster/ledger/fixed_plan.h"
#include "tests/cluster/exchange/exchange_world.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace perigee;

constexpr int kSize = 4;

// The bytes that arrive: a genuine chunk that waits in some link, with some of its fields changed.
Chunk disturbed(FuzzInput& input, const ExchangeWorld& world, std::vector<std::byte>& body) {
  Chunk chunk;
  for (const auto& link : world.links)
    if (!link.queue.empty()) chunk = link.queue.front().chunk, body = link.queue.front().body;
  const uint8_t what = input.byte();
  if (what & 1) chunk.offset = what & 128 ? uint64_t{input.word()} << (input.byte() % 64) : input.word();
  if (what & 2) chunk.phase = input.byte() % 4;
  if (what & 4) chunk.row = what & 64 ? input.word() : input.byte() % 4;
  if (what & 8) body.resize(input.word() * size_t{what & 16 ? 8u : 1u});
  if (what & 32 && !body.empty()) body[input.word() % body.size()] = std::byte{0x42};
  return chunk;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const auto topologies = all_topologies();
  const TopologyDef& topology = *topologies[input.byte() % topologies.size()];
  const int64_t elements = input.word();
  const ExchangeLayout layout{elements % 16 ? elements % 512 + 1 : elements * 2 + 1, input.byte()};  // few have several chunks a segment
  const int leaves = input.byte() % 9;                                                               // 0: one row each
  const auto pool = std::make_shared<ChunkPool>();
  {
    ExchangeWorld world(kSize, input.word(), 2);
    std::vector<std::vector<Partial>> partials;
    for (int rank = 0; rank < kSize && leaves > 0; ++rank) {
      const auto [first, last] = leaves_of(rank, kSize, leaves);
      partials.push_back(partials_of(first, last, leaves));
    }
    float sum = 0;
    for (int rank = 0; rank < kSize; ++rank) {
      auto& member = world.members[static_cast<size_t>(rank)];
      CollectiveSetup setup;
      setup.rank = rank;
      setup.hosts = {"a", "a", "b", "b"};
      setup.layout = layout;
      setup.bucket = {0, layout.bytes()};
      setup.partials = partials;
      setup.pool = pool;
      const size_t rows = leaves > 0 ? partials[static_cast<size_t>(rank)].size() : 1;
      member.rows.resize(std::max<size_t>(1, rows));
      for (auto& row : member.rows) {
        row.resize(layout.bytes());
        for (int64_t i = 0; i < layout.sums; ++i) {
          const float one = 1;
          std::memcpy(row.data() + i * 4, &one, 4);
        }
        setup.rows.push_back(row);
      }
      sum += static_cast<float>(rows);
      member.exchange = topology.make(std::move(setup));
    }
    bool undisturbed = true;
    do {
      if (input.empty() || input.byte() % 2) continue;
      std::vector<std::byte> body;
      const int from = input.byte() % (kSize + 1), to = input.byte() % kSize;
      const Chunk chunk = disturbed(input, world, body);
      if (world.members[static_cast<size_t>(to)].exchange->on_chunk(from, chunk, body, world.sender(to))) undisturbed = false;
    } while (world.step());
    for (const auto& member : world.members) {
      member.exchange->waits_for();
      if (!undisturbed) continue;
      PERIGEE_FUZZ_CHECK(member.exchange->done());
      float first;
      std::memcpy(&first, member.rows[0].data(), 4);
      PERIGEE_FUZZ_CHECK(first == sum);
    }
    PERIGEE_FUZZ_CHECK(!undisturbed || world.refused == 0);
  }
  PERIGEE_FUZZ_CHECK(pool->in_use() == 0);
  return 0;
}
