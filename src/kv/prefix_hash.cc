#include "kv/prefix_hash.h"

#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace tandem::kv {
namespace {

// Block names cross machines of a fleet: the bytes below are little-endian everywhere.
static_assert(std::endian::native == std::endian::little);

constexpr uint8_t kRootDomain = 'R';
constexpr uint8_t kBlockDomain = 'B';

struct FreeMac {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

}  // namespace

// Each message re-keys the context, which allocates nothing.
struct PrefixHasher::Context {
  std::unique_ptr<EVP_MAC_CTX, FreeMac> mac;
  PrefixKey key{};

  void begin() {
    size_t size = sizeof(PrefixHash);
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_size_t("size", &size), OSSL_PARAM_END};
    TANDEM_CHECK(EVP_MAC_init(mac.get(), key.data(), key.size(), parameters) == 1);
  }
  void add(const void* data, size_t bytes) {
    TANDEM_CHECK(EVP_MAC_update(mac.get(), static_cast<const unsigned char*>(data), bytes) == 1);
  }
  // Length first, so that no two lists of texts make the same bytes.
  void add_text(std::string_view text) {
    const uint64_t bytes = text.size();
    add(&bytes, sizeof(bytes));
    add(text.data(), text.size());
  }
  PrefixHash end() {
    unsigned char out[sizeof(PrefixHash)];
    size_t written = 0;
    TANDEM_CHECK(EVP_MAC_final(mac.get(), out, &written, sizeof(out)) == 1 &&
                 written == sizeof(out));
    PrefixHash hash;
    std::memcpy(&hash, out, sizeof(hash));
    return hash;
  }
};

Expected<PrefixKey> random_prefix_key() {
  PrefixKey key{};
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    return fail(ErrorCode::kInternal, "the random source gives no prefix cache key");
  return key;
}

PrefixHasher::PrefixHasher(std::unique_ptr<Context> context) : context_(std::move(context)) {}
PrefixHasher::PrefixHasher(PrefixHasher&&) noexcept = default;
PrefixHasher& PrefixHasher::operator=(PrefixHasher&&) noexcept = default;
PrefixHasher::~PrefixHasher() = default;

Expected<PrefixHasher> PrefixHasher::create(const PrefixKey& key) {
  const std::unique_ptr<EVP_MAC, FreeMac> mac(EVP_MAC_fetch(nullptr, "SIPHASH", nullptr));
  if (!mac) return fail(ErrorCode::kInternal, "OpenSSL offers no SipHash");
  auto context = std::make_unique<Context>();
  context->mac.reset(EVP_MAC_CTX_new(mac.get()));
  if (!context->mac) return fail(ErrorCode::kOutOfMemory, "no memory for a SipHash context");
  context->key = key;
  context->begin();  // a dup of a context without key is refused
  return PrefixHasher(std::move(context));
}

Expected<PrefixHasher> PrefixHasher::clone() const {
  auto context = std::make_unique<Context>();
  context->mac.reset(EVP_MAC_CTX_dup(context_->mac.get()));
  if (!context->mac) return fail(ErrorCode::kOutOfMemory, "no memory for a SipHash context");
  context->key = context_->key;
  return PrefixHasher(std::move(context));
}

PrefixHash PrefixHasher::root(const PrefixScope& scope) {
  context_->begin();
  context_->add(&kRootDomain, 1);
  context_->add(&scope.adapter, sizeof(scope.adapter));
  context_->add_text(scope.fingerprint);
  context_->add_text(scope.tenant_salt);
  context_->add_text(scope.cache_salt);
  return context_->end();
}

PrefixHash PrefixHasher::block(const PrefixHash& parent,
                               int32_t form,
                               std::span<const int32_t> tokens) {
  context_->begin();
  context_->add(&kBlockDomain, 1);
  context_->add(&parent, sizeof(parent));
  context_->add(&form, sizeof(form));
  context_->add(tokens.data(), tokens.size_bytes());
  return context_->end();
}

}  // namespace tandem::kv
