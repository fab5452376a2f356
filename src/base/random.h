#pragma once
// Counter-based random numbers: a pure function of (key, counter), so that a draw depends on seed,
// choice and position alone and never on what else runs (docs/same_answer.md). Philox4x32-10,
// Salmon et al., SC 2011. C++20, usable from .cu.

#include <array>
#include <cstdint>

namespace tandem {

// Four independent 32-bit words.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// Uniform in (0, 1): 23 bits, never 0, never 1 (24 bits and a half would round to 1).
constexpr float uniform_open(uint32_t word) {
  return (static_cast<float>(word >> 9) + 0.5f) * (1.0f / 8388608.0f);
}

}  // namespace tandem
