// Blocks that are handed out again are as large as what is asked for, and have one owner.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <map>
#include <random>

#include "src/core/large_blocks.h"

namespace perigee {
namespace {

template <class Blocks>
void check_blocks(size_t largest) {
  static Blocks blocks;  // zero, as thread-local ones are
  std::mt19937_64 random(1);
  struct Held {
    size_t bytes;
    unsigned char mark;
  };
  std::map<void*, Held> held;
  for (int i = 0; i < 20000; ++i) {
    if (held.size() < 40 && random() % 2 == 0) {
      const size_t bytes = 1 + random() % (size_t{1} << (random() % std::bit_width(largest)));
      void* const block = blocks.take(bytes);
      ASSERT_NE(block, nullptr);
      ASSERT_FALSE(held.contains(block)) << "handed out twice";
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 16, 0u);
      ASSERT_GE(malloc_usable_size(block), bytes);
      const auto mark = static_cast<unsigned char>(i);
      std::memset(block, mark, std::min<size_t>(bytes, 64));
      held[block] = {bytes, mark};
    } else if (!held.empty()) {
      const auto one = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
      const auto [bytes, mark] = one->second;
      ASSERT_EQ(*static_cast<unsigned char*>(one->first), mark) << "another owner wrote to it";
      blocks.give(one->first, bytes);
      held.erase(one);
    }
  }
  EXPECT_LE(blocks.kept, Blocks::kMostKept);
  for (const auto& [block, one] : held) blocks.give(block, one.bytes);
  blocks.close();
}

TEST(SmallBlocks, AreLargeEnoughAndHandedOutOnce) { check_blocks<SmallBlocks<16, 32>>(2048); }
TEST(LargeBlocks, AreLargeEnoughAndHandedOutOnce) { check_blocks<LargeBlocks>(size_t{48} << 20); }

}  // namespace
}  // namespace perigee
