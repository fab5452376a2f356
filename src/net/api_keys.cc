#include "net/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace tandem::net {

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  Digest out{};
  unsigned int size = 0;
  TANDEM_CHECK(EVP_Digest(key.data(), key.size(), out.data(), &size, EVP_sha256(), nullptr) == 1 &&
                   size == out.size(),
               "SHA-256");
  return out;
}

ApiKeys::ApiKeys(std::span<const std::string> keys) {
  digests_.reserve(keys.size());
  for (const std::string& key : keys) digests_.push_back(digest_of(key));
}

bool ApiKeys::contains(std::string_view key) const {
  if (key.empty()) return false;
  const Digest shown = digest_of(key);
  // All of them, without a way out: the time tells nothing about which one it was.
  unsigned int found = 0;
  for (const Digest& digest : digests_)
    found |=
        static_cast<unsigned int>(CRYPTO_memcmp(digest.data(), shown.data(), shown.size()) == 0);
  return found != 0;
}

bool ApiKeys::accept(const Headers& headers) const {
  if (count_headers(headers, "authorization") != 1) return false;
  const std::string_view value = *find_header(headers, "authorization");
  constexpr std::string_view kScheme = "bearer";
  if (value.size() <= kScheme.size() || value[kScheme.size()] != ' ') return false;
  if (!equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return false;
  return contains(trim_blanks(value.substr(kScheme.size())));
}

}  // namespace tandem::net
