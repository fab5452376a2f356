#pragma once
// Names of full blocks: a chained, keyed 128-bit hash (SipHash-128, OpenSSL), so that nobody
// without the key can find two prompts with one name, and a fleet that shares the key names blocks
// alike.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"

namespace tandem::kv {

struct PrefixHash {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const PrefixHash&) const = default;
};

using PrefixKey = std::array<uint8_t, 16>;

// From the operating system's random source. Any thread.
Expected<PrefixKey> random_prefix_key();

// What separates the caches of two requests whose tokens are equal.
struct PrefixScope {
  std::string_view fingerprint;  // model, KV layout: for keys shared by a fleet
  std::string_view tenant_salt;
  std::string_view cache_salt;
  int32_t adapter = 0;
};

// One thread at a time; copies for other threads by clone(), which any thread may call.
class PrefixHasher {
 public:
  static Expected<PrefixHasher> create(const PrefixKey& key);
  PrefixHasher(PrefixHasher&&) noexcept;
  PrefixHasher& operator=(PrefixHasher&&) noexcept;
  ~PrefixHasher();

  Expected<PrefixHasher> clone() const;

  // The parent of a sequence's first block.
  PrefixHash root(const PrefixScope& scope);
  // A full block. `form` is the arithmetic by which its rows were made (DESIGN, same answer 5).
  PrefixHash block(const PrefixHash& parent, int32_t form, std::span<const int32_t> tokens);

 private:
  struct Context;
  explicit PrefixHasher(std::unique_ptr<Context> context);
  std::unique_ptr<Context> context_;
};

}  // namespace tandem::kv
