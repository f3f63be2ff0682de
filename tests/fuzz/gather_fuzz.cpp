// A gather among four members on which arbitrary chunks rain between the genuine ones: every one is taken or refused, none harms memory
// or makes a member take more than the bound, and with nothing but refused chunks everybody has every payload.
#include "cluster/exchange/topology/gather.h"
#include "tests/cluster/exchange/exchange_world.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace perigee;

constexpr int kSize = 4;

// A genuine chunk that waits in some link, with some of it changed.
Chunk disturbed(FuzzInput& input, const ExchangeWorld& world, std::vector<std::byte>& body) {
  Chunk chunk;
  for (const auto& link : world.links)
    if (!link.queue.empty()) chunk = link.queue.front().chunk, body = link.queue.front().body;
  const uint8_t what = input.byte();
  if (what & 1) chunk.offset = what & 128 ? uint64_t{input.word()} << (input.byte() % 64) : kGatherPiece * (input.byte() % 4);
  if (what & 2) chunk.phase = input.byte() % 4;
  if (what & 4) chunk.row = input.byte() % (kSize + 1);
  if (what & 8) body.resize(input.word() * size_t{what & 16 ? 8u : 1u});
  if (what & 32 && !body.empty()) body[input.word() % std::min<size_t>(body.size(), 16)] = static_cast<std::byte>(input.byte());
  return chunk;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const auto topologies = all_topologies();
  const TopologyDef& topology = *topologies[input.byte() % topologies.size()];
  const size_t bound = kGatherPiece + 100;
  ExchangeWorld world(kSize, input.word(), 2);
  std::vector<SharedBytes> given(kSize);
  std::vector<Gather*> gathers;
  for (size_t rank = 0; rank < kSize; ++rank) {
    const uint16_t length = input.word();
    if (length % 5 != 0)
      given[rank] = std::make_shared<std::vector<std::byte>>(length % 7 == 0 ? bound - length % 100 : length, std::byte{1});
  }
  for (int rank = 0; rank < kSize; ++rank) {
    GatherSetup setup;
    setup.rank = rank;
    setup.hosts = {"a", "a", "b", "b"};
    for (const SharedBytes& bytes : given) setup.gives.push_back(bytes != nullptr);
    setup.payload = given[static_cast<size_t>(rank)];
    setup.bound = bound;
    std::unique_ptr<Gather> gather = topology.gather(std::move(setup));
    gathers.push_back(gather.get());
    world.members[static_cast<size_t>(rank)].exchange = std::move(gather);
  }
  bool undisturbed = true;
  do {
    if (input.empty() || input.byte() % 2) continue;
    std::vector<std::byte> body;
    const int from = input.byte() % (kSize + 1), to = input.byte() % kSize;
    const Chunk chunk = disturbed(input, world, body);
    if (gathers[static_cast<size_t>(to)]->on_chunk(from, chunk, body, world.sender(to))) undisturbed = false;
  } while (world.step());
  for (const Gather* gather : gathers) {
    gather->waits_for();
    for (int source = 0; source < kSize; ++source) {
      const SharedBytes bytes = gather->payload(source), &sent = given[static_cast<size_t>(source)];
      PERIGEE_FUZZ_CHECK(!bytes || bytes->size() <= bound);
      if (undisturbed) PERIGEE_FUZZ_CHECK(sent ? bytes && *bytes == *sent : !bytes);
    }
    PERIGEE_FUZZ_CHECK(!undisturbed || gather->done());
  }
  PERIGEE_FUZZ_CHECK(!undisturbed || world.refused == 0);
  return 0;
}
