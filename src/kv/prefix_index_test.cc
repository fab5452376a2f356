#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kv/block_manager.h"

namespace tandem::kv {
namespace {

constexpr PrefixKey kKey = {1, 2, 3};

std::vector<int32_t> iota(int32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct Chain {
  PrefixHash root;
  std::vector<PrefixHash> hashes;
};

Chain chain_of(PrefixHasher& hasher,
               const std::vector<int32_t>& tokens,
               const PrefixScope& scope = {},
               int32_t form = 0) {
  Chain chain{hasher.root(scope), {}};
  PrefixHash parent = chain.root;
  for (size_t i = 0; i + 4 <= tokens.size(); i += 4)
    chain.hashes.push_back(parent = hasher.block(parent, form, std::span(tokens).subspan(i, 4)));
  return chain;
}

TEST(PrefixHasher, KeyDecidesTheName) {
  auto a = PrefixHasher::create(kKey);
  auto b = PrefixHasher::create(kKey);
  auto c = PrefixHasher::create({9});
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->root({}), b->root({}));
  EXPECT_NE(a->root({}), c->root({}));
  EXPECT_EQ(a->clone()->root({}), a->root({}));
}

TEST(PrefixHasher, EveryPartOfTheScopeCounts) {
  auto hasher = PrefixHasher::create(kKey);
  const std::vector<PrefixHash> roots = {
      hasher->root({}),
      hasher->root({.fingerprint = "a"}),
      hasher->root({.tenant_salt = "a"}),
      hasher->root({.cache_salt = "a"}),
      hasher->root({.adapter = 1}),
      hasher->root({.tenant_salt = "a", .cache_salt = "b"}),
      hasher->root({.tenant_salt = "ab"}),
  };
  for (size_t i = 0; i < roots.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(roots[i], roots[j]) << i << " " << j;
  const auto tokens = iota(4);
  EXPECT_NE(hasher->block(roots[0], 0, tokens), hasher->block(roots[0], 1, tokens));
  EXPECT_NE(hasher->block(roots[0], 0, tokens), hasher->block(roots[1], 0, tokens));
}

TEST(PrefixIndex, FindsTheLongestPrefix) {
  auto hasher = PrefixHasher::create(kKey);
  BlockManager blocks({.blocks = 8, .block_tokens = 4});
  const auto tokens = iota(15);
  const Chain chain = chain_of(*hasher, tokens);
  BlockTable table;
  blocks.allocate(table, 3);
  for (size_t i = 0; i < 3; ++i)
    blocks.store(table[i],
                 chain.hashes[i],
                 i == 0 ? chain.root : chain.hashes[i - 1],
                 std::span(tokens).subspan(i * 4, 4));
  BlockTable hits;
  EXPECT_EQ(blocks.index().match(chain.root, chain.hashes, tokens, hits), 3);
  EXPECT_EQ(hits, table);

  auto other = tokens;
  other[5] = 99;
  const Chain other_chain = chain_of(*hasher, other);
  hits.clear();
  EXPECT_EQ(blocks.index().match(other_chain.root, other_chain.hashes, other, hits), 1);

  const Chain salted = chain_of(*hasher, tokens, {.tenant_salt = "t"});
  EXPECT_EQ(blocks.index().match(salted.root, salted.hashes, tokens, hits), 0);
}

TEST(PrefixIndex, ComparesTokensWhenNamesAreEqual) {
  PrefixIndex index({.blocks = 2, .block_tokens = 4});
  const PrefixHash name{7, 7};
  const auto tokens = iota(4);
  index.insert(0, name, {}, tokens);
  EXPECT_EQ(index.find(name, {}, tokens), 0);
  EXPECT_EQ(index.find(name, {}, iota(4, 1)), kNoBlock);
  EXPECT_EQ(index.find(name, {1, 0}, tokens), kNoBlock);
}

TEST(BlockManager, AReusedBlockLeavesTheIndexTailsFirst) {
  auto hasher = PrefixHasher::create(kKey);
  BlockManager blocks({.blocks = 4, .block_tokens = 4});
  const auto tokens = iota(12);
  const Chain chain = chain_of(*hasher, tokens);
  BlockTable table;
  blocks.allocate(table, 3);
  for (size_t i = 0; i < 3; ++i)
    blocks.store(table[i],
                 chain.hashes[i],
                 i == 0 ? chain.root : chain.hashes[i - 1],
                 std::span(tokens).subspan(i * 4, 4));
  blocks.release(table);
  BlockTable other;
  blocks.allocate(other, 2);  // the block never used, then the chain's tail
  BlockTable hits;
  EXPECT_EQ(blocks.index().match(chain.root, chain.hashes, tokens, hits), 2);
  BlockTable shared;
  blocks.share(shared, hits);
  EXPECT_EQ(blocks.pool().free_blocks(), 0);
  blocks.forget(shared);
  EXPECT_EQ(blocks.index().size(), 0);
  blocks.release(shared);
  blocks.release(other);
  EXPECT_EQ(blocks.pool().free_blocks(), 4);
  EXPECT_TRUE(blocks.pool().consistent());
}

TEST(PrefixIndex, EventsTellFirstAndLastOfAName) {
  PrefixIndex index({.blocks = 4, .block_tokens = 1, .event_capacity = 2, .epoch = 5});
  const std::vector<int32_t> token = {3};
  index.insert(0, {1, 1}, {}, token);
  index.insert(1, {1, 1}, {}, token);
  index.erase(0);
  EXPECT_EQ(index.find({1, 1}, {}, token), 1);
  index.erase(1);
  index.erase(1);
  std::vector<BlockEvent> events;
  index.drain_events(events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, BlockEvent::Kind::kStored);
  EXPECT_EQ(events[1].kind, BlockEvent::Kind::kRemoved);
  EXPECT_EQ(events[1].epoch, 5u);
  EXPECT_EQ(events[1].sequence, 1u);
  for (int i = 0; i < 3; ++i) index.insert(i, {uint64_t(i), 0}, {}, token);
  events.clear();
  index.drain_events(events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].sequence, 3u);  // 2 fell out: a gap
}

}  // namespace
}  // namespace tandem::kv
