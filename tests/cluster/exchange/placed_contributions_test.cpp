// Contributions that are received straight into the buffer where they wait for what they are added to.
#include <gtest/gtest.h>

#include <cstring>

#include "cluster/exchange/collective.h"
#include "cluster/exchange/topology/chunk_pool.h"

namespace perigee {
namespace {

// Rank 0 of three, which owns the first third of a block of `kPieces` pieces each.
class PlacedContributions : public testing::Test {
 protected:
  static constexpr int kSize = 3;
  static constexpr size_t kPieces = 2, kBytes = kSize * kPieces * kChunkBytes;

  PlacedContributions() : row_(kBytes) {
    fill(row_, 1);
    CollectiveSetup setup;
    setup.hosts.assign(kSize, "host");
    setup.layout = {.sums = static_cast<int64_t>(kBytes / 4), .maxima = 0};
    setup.bucket = {0, kBytes};
    setup.rows.push_back(row_);
    setup.pool = pool_;
    exchange_ = find_topology("direct", setup).make(std::move(setup));
  }
  static void fill(std::span<std::byte> bytes, float value) {
    for (size_t i = 0; i < bytes.size(); i += 4) std::memcpy(bytes.data() + i, &value, 4);
  }
  static Chunk contribution(size_t piece) {
    Chunk chunk;
    chunk.offset = piece * kChunkBytes;
    return chunk;
  }
  std::byte* place(int from, size_t piece) { return exchange_->place(from, contribution(piece), kChunkBytes); }
  bool take(int from, size_t piece, std::span<const std::byte> body) { return exchange_->on_chunk(from, contribution(piece), body, send_); }
  // Received where place() says.
  void receive(int from, size_t piece, float value) {
    std::byte* const memory = place(from, piece);
    ASSERT_NE(memory, nullptr);
    fill({memory, kChunkBytes}, value);
    ASSERT_TRUE(take(from, piece, {memory, kChunkBytes}));
  }
  float first_of(size_t piece) const {
    float value;
    std::memcpy(&value, row_.data() + piece * kChunkBytes, 4);
    return value;
  }

  const std::shared_ptr<ChunkPool> pool_ = std::make_shared<ChunkPool>();
  std::vector<std::byte> row_;
  int results_ = 0;
  ChunkSender send_ = [this](int, const Chunk& chunk, std::span<const std::byte>) { return results_ += chunk.phase == 1, true; };
  std::unique_ptr<Collective> exchange_;
};

TEST_F(PlacedContributions, AreAddedWhereTheyWereReceived) {
  exchange_->start(send_);
  for (size_t piece = 0; piece < kPieces; ++piece) {
    receive(1, piece, 10);
    receive(2, piece, 100);
    EXPECT_EQ(first_of(piece), 111);
  }
  EXPECT_EQ(results_, 2 * static_cast<int>(kPieces));
  EXPECT_EQ(pool_->in_use(), 0u);
  EXPECT_LE(pool_->bytes_kept(), 2 * kChunkBytes);  // and nothing was copied to wait elsewhere
}

TEST_F(PlacedContributions, MayComeBeforeTheOwnRowIsStaged) {
  receive(2, 0, 100);
  receive(1, 0, 10);
  exchange_->start(send_);
  EXPECT_EQ(first_of(0), 111);
}

// One frame is under way from each rank: its place stays its own until it has come, whatever a second connection brings.
TEST_F(PlacedContributions, OneMemoryIsNeverGivenToTwoChunks) {
  exchange_->start(send_);
  std::byte* const memory = place(1, 0);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(place(1, 0), memory);
  EXPECT_EQ(place(1, 1), nullptr);
  EXPECT_NE(place(2, 0), memory);
  EXPECT_NE(place(2, 0), nullptr);
  fill({memory, kChunkBytes}, 10);
  ASSERT_TRUE(take(1, 0, {memory, kChunkBytes}));
  EXPECT_EQ(place(1, 0), nullptr);  // it is here
  receive(1, 1, 20);
  receive(2, 0, 100);
  receive(2, 1, 200);
  EXPECT_EQ(first_of(0), 111);
  EXPECT_EQ(first_of(1), 221);
}

TEST_F(PlacedContributions, TheSameChunkMayComeAnotherWayFirst) {
  exchange_->start(send_);
  std::byte* const memory = place(1, 0);
  ASSERT_NE(memory, nullptr);
  std::vector<std::byte> body(kChunkBytes);
  fill(body, 10);
  ASSERT_TRUE(take(1, 0, body));    // by a second connection
  EXPECT_EQ(place(1, 0), nullptr);  // what comes of the first is dropped
  receive(1, 1, 20);
  receive(2, 0, 100);
  EXPECT_EQ(first_of(0), 111);
  exchange_.reset();
  EXPECT_EQ(pool_->in_use(), 0u);
}

TEST_F(PlacedContributions, OnlyWhatIsOwedHasAPlace) {
  EXPECT_EQ(place(1, kPieces), nullptr);  // of another owner's segment
  EXPECT_EQ(place(0, 0), nullptr);        // from itself
  EXPECT_EQ(place(7, 0), nullptr);
  EXPECT_EQ(place(-1, 0), nullptr);
  EXPECT_EQ(exchange_->place(1, contribution(0), kChunkBytes - 4), nullptr);
  Chunk second_row = contribution(0);
  second_row.row = 1;
  EXPECT_EQ(exchange_->place(1, second_row, kChunkBytes), nullptr);
  EXPECT_EQ(pool_->in_use(), 0u);
}

}  // namespace
}  // namespace perigee
