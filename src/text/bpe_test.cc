#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace tandem::text {
namespace {

struct Model {
  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
};

// All bytes, and random merges of random tokens.
Model random_model(uint32_t seed, int merges, int letters) {
  Model model;
  std::map<std::string, int32_t> ids;
  std::vector<std::string> tokens;
  const auto add = [&](const std::string& bytes) {
    if (ids.contains(bytes)) return;
    ids[bytes] = static_cast<int32_t>(tokens.size());
    EXPECT_TRUE(model.vocabulary.add(ids[bytes], bytes, true));
    tokens.push_back(bytes);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  uint32_t counter = 0;
  const auto draw = [&](size_t below) {
    return philox4x32({counter++, 0, 0, 0}, {seed, 1})[0] % static_cast<uint32_t>(below);
  };
  for (int i = 0; i < merges; ++i) {
    const auto pick = [&]() -> std::string {
      const size_t grown = tokens.size() - 256;
      if (grown > 0 && draw(2) == 0) return tokens[256 + draw(grown)];
      return std::string(1, static_cast<char>('a' + draw(static_cast<size_t>(letters))));
    };
    const std::string left = pick();
    const std::string right = pick();
    if (left.size() + right.size() > 20) continue;
    add(left + right);
    model.merges.push_back({ids[left], ids[right], ids[left + right]});
  }
  model.vocabulary.finish();
  return model;
}

// The definition: the lowest rank, the leftmost of them, until none is left.
std::vector<int32_t> plain_encode(const Model& model, const std::string& piece) {
  std::vector<int32_t> ids;
  for (const char c : piece) ids.push_back(model.vocabulary.find(std::string_view(&c, 1)));
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t i = 0; i < model.merges.size(); ++i) {
    ranks[{model.merges[i].left, model.merges[i].right}] = i;
  }
  while (true) {
    size_t best = SIZE_MAX;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = ranks.find({ids[i], ids[i + 1]});
      if (it != ranks.end() && it->second < best) {
        best = it->second;
        at = i;
      }
    }
    if (best == SIZE_MAX) return ids;
    ids[at] = model.merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, AgreesWithItsDefinition) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Model model = random_model(seed, 60, 3);
    const Bpe bpe = Bpe::build(model.vocabulary, model.merges, {});
    BpeScratch scratch;
    for (uint32_t round = 0; round < 60; ++round) {
      const uint32_t length = 1 + philox4x32({round, 7, 0, 0}, {seed, 2})[0] % 300;
      std::string piece;
      for (uint32_t i = 0; i < length; ++i) {
        piece += static_cast<char>('a' + philox4x32({round, i, 1, 0}, {seed, 2})[0] % 3);
      }
      std::vector<int32_t> ids;
      bpe.encode(piece, scratch, ids);
      ASSERT_EQ(ids, plain_encode(model, piece)) << seed << " " << piece;
    }
  }
}

TEST(Bpe, IgnoreMergesTakesWholeTokens) {
  Model model;
  for (int byte = 0; byte < 256; ++byte) {
    ASSERT_TRUE(model.vocabulary.add(byte, std::string(1, static_cast<char>(byte)), true));
  }
  ASSERT_TRUE(model.vocabulary.add(256, "abc", true));  // no merge makes it
  model.vocabulary.finish();
  BpeScratch scratch;
  std::vector<int32_t> ids;
  Bpe::build(model.vocabulary, {}, {}).encode("abc", scratch, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{'a', 'b', 'c'}));
  ids.clear();
  Bpe::build(model.vocabulary, {}, {.ignore_merges = true}).encode("abc", scratch, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{256}));
}

TEST(Bpe, UnknownBytes) {
  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.add(0, "a", true));
  ASSERT_TRUE(vocabulary.add(1, "?", true));
  vocabulary.finish();
  BpeScratch scratch;
  const auto encode = [&](const BpeOptions& options) {
    std::vector<int32_t> ids;
    Bpe::build(vocabulary, {}, options).encode("axya", scratch, ids);
    return ids;
  };
  EXPECT_EQ(encode({}), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(encode({.unknown = 1}), (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(encode({.unknown = 1, .fuse_unknown = true}), (std::vector<int32_t>{0, 1, 0}));
}

TEST(Vocabulary, ChecksIds) {
  Vocabulary vocabulary;
  EXPECT_TRUE(vocabulary.add(3, "x", true));
  EXPECT_EQ(vocabulary.add(3, "y", true).error().message, "token id 3 is given twice");
  EXPECT_FALSE(vocabulary.add(-1, "y", true));
  EXPECT_FALSE(vocabulary.add(kMaxVocabulary, "y", true));
  EXPECT_TRUE(vocabulary.add(1, "hidden", false));
  vocabulary.finish();
  EXPECT_EQ(vocabulary.size(), 4);
  EXPECT_FALSE(vocabulary.has(0));
  EXPECT_EQ(vocabulary.bytes(2), "");
  EXPECT_EQ(vocabulary.find("x"), 3);
  EXPECT_EQ(vocabulary.find("hidden"), kNoToken);
}

}  // namespace
}  // namespace tandem::text
