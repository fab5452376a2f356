#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tandem::text {
namespace {

// Multiply and fold over 8-byte words. The keys come from the model's file, not from clients.
uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = 0x9E3779B97F4A7C15ull ^ bytes.size();
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93ull;
    hash ^= hash >> 32;
  };
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < left; ++i) word |= uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  mix(word);
  return hash * 0xD6E8FEB86659FD93ull;
}

}  // namespace

Expected<void> Vocabulary::add(int32_t id, std::string bytes, bool findable) {
  if (id < 0 || id >= kMaxVocabulary) {
    return fail(ErrorCode::kCorruptData,
                "token id {} is outside the supported range of 0 to {}",
                id,
                kMaxVocabulary - 1);
  }
  if (index(id) >= tokens_.size()) tokens_.resize(index(id) + 1);
  Token& token = tokens_[index(id)];
  if (token.present) return fail(ErrorCode::kCorruptData, "token id {} is given twice", id);
  token = {std::move(bytes), true, findable};
  return {};
}

void Vocabulary::finish() {
  size_t count = 0;
  for (const Token& token : tokens_) count += token.findable;
  slots_.assign(std::bit_ceil(std::max<size_t>(2 * count, 16)), Slot{});
  const size_t mask = slots_.size() - 1;
  for (int32_t id = 0; id < size(); ++id) {
    const Token& token = tokens_[index(id)];
    if (!token.findable || find(token.bytes) != kNoToken) continue;
    const uint64_t hash = hash_bytes(token.bytes);
    size_t at = (hash >> 32) & mask;
    while (slots_[at].id != kNoToken) at = (at + 1) & mask;
    slots_[at] = {static_cast<uint32_t>(hash), id};
    longest_bytes_ = std::max(longest_bytes_, token.bytes.size());
  }
}

std::string_view Vocabulary::bytes(int32_t id) const {
  return has(id) ? std::string_view(tokens_[index(id)].bytes) : std::string_view();
}

int32_t Vocabulary::find(std::string_view bytes) const {
  if (slots_.empty()) return kNoToken;
  const uint64_t hash = hash_bytes(bytes);
  const size_t mask = slots_.size() - 1;
  for (size_t at = (hash >> 32) & mask; slots_[at].id != kNoToken; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.tag == static_cast<uint32_t>(hash) && tokens_[index(slot.id)].bytes == bytes) {
      return slot.id;
    }
  }
  return kNoToken;
}

}  // namespace tandem::text
