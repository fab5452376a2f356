#include "kv/transfers.h"

#include <gtest/gtest.h>

namespace tandem::kv {
namespace {

TEST(Transfers, HoldBlocksOnBothSidesUntilTheyEnd) {
  BlockManager device({.blocks = 4, .block_tokens = 4});
  BlockPool host(3);
  Transfers transfers(device, host);
  BlockTable table;
  device.allocate(table, 2);
  const BlockTable there = {host.take(), host.take()};
  const int64_t id = transfers.start(true, table, there);
  EXPECT_EQ(transfers.blocks_to_come(), 0);  // the asker still holds them
  device.release(table);
  EXPECT_EQ(device.pool().free_blocks(), 2);
  EXPECT_EQ(transfers.blocks_to_come(), 2);
  for (const BlockId block : there) host.release(block, true);  // cancelled
  EXPECT_EQ(host.free_blocks(), 1);
  EXPECT_EQ(transfers.finish(id), 2);
  EXPECT_EQ(transfers.finish(id), 0);
  EXPECT_EQ(device.pool().free_blocks(), 4);
  EXPECT_EQ(host.free_blocks(), 3);
  EXPECT_TRUE(device.pool().consistent());
  EXPECT_TRUE(host.consistent());
}

}  // namespace
}  // namespace tandem::kv
