#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tandem::kv {
namespace {

TEST(BlockPool, TakesOldestFirst) {
  BlockPool pool(4);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_TRUE(pool.release(0, false));  // list: 2 3 0
  EXPECT_EQ(pool.take(), 2);
  EXPECT_TRUE(pool.release(1, true));  // list: 1 3 0
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), kNoBlock);
}

TEST(BlockPool, RetainTakesAFreeBlockOutOfTheMiddle) {
  BlockPool pool(3);
  pool.retain(1);
  EXPECT_EQ(pool.free_blocks(), 2);
  pool.retain(1);
  EXPECT_FALSE(pool.release(1, false));
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), kNoBlock);
  EXPECT_TRUE(pool.release(1, false));
  EXPECT_TRUE(pool.consistent());
}

TEST(BlockPoolDeathTest, ReleaseWithoutReferenceIsABug) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.release(0, false), "released more often");
  EXPECT_DEATH(pool.retain(2), "outside the pool");
}

TEST(BlockPool, RandomUseStaysConsistentAndPreviewForetellsIt) {
  std::mt19937 random(1);
  BlockPool pool(17);
  PoolPreview preview;
  std::vector<BlockId> held;
  for (int round = 0; round < 20000; ++round) {
    preview.reset(pool);
    int takes = 0;
    std::vector<BlockId> releases;
    std::vector<BlockId> retains;
    for (int i = 0; i < 3; ++i) {
      const unsigned what = random() % 3;
      if (what == 0 && preview.free_blocks() > 0) {
        preview.take(1);
        ++takes;
      } else if (what == 1 && !held.empty()) {
        releases.push_back(held.back());
        preview.release(held.back());
        held.pop_back();
      } else if (what == 2) {
        const auto block = static_cast<BlockId>(random() % 17);
        if (preview.references(block) == 0 && preview.free_blocks() == 0) continue;
        preview.retain(block);
        retains.push_back(block);
      }
    }
    for (const BlockId block : releases) pool.release(block, random() % 2 == 0);
    for (const BlockId block : retains) pool.retain(block);
    held.insert(held.end(), retains.begin(), retains.end());
    for (int i = 0; i < takes; ++i) {
      held.push_back(pool.take());
      ASSERT_NE(held.back(), kNoBlock);
    }
    std::shuffle(held.begin(), held.end(), random);
    ASSERT_EQ(preview.free_blocks(), pool.free_blocks());
    ASSERT_TRUE(pool.consistent());
  }
}

}  // namespace
}  // namespace tandem::kv
