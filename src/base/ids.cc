#include "base/ids.h"

#include <sys/random.h>

#include <array>
#include <cstdint>

#include "base/check.h"

namespace tandem {

std::string random_id() {
  std::array<uint8_t, 16> bytes{};
  const auto got = ::getrandom(bytes.data(), bytes.size(), 0);
  TANDEM_CHECK(got == static_cast<ssize_t>(bytes.size()), "getrandom");
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(32);
  for (const uint8_t byte : bytes) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

}  // namespace tandem
