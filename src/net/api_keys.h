#pragma once
// The keys that clients may show. Only digests are kept, and a comparison takes the same time
// whichever bytes differ and however many keys there are to agree with.
// Constant after construction: any thread.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace tandem::net {

class ApiKeys {
 public:
  ApiKeys() = default;  // none: everybody may ask
  explicit ApiKeys(std::span<const std::string> keys);

  bool empty() const { return digests_.empty(); }
  // Whether `key` is one of them. False for the empty key.
  bool contains(std::string_view key) const;
  // Whether the request has exactly one Authorization header, "Bearer KEY" (RFC 6750; the scheme in
  // any case), and the key is one of them.
  bool accept(const Headers& headers) const;

 private:
  using Digest = std::array<unsigned char, 32>;  // SHA-256
  static Digest digest_of(std::string_view key);

  std::vector<Digest> digests_;
};

}  // namespace tandem::net
