#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace tandem::text {
namespace {

constexpr size_t kAlphabetEnd = 256 + 68;

constexpr bool stands_for_itself(size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<int16_t, kAlphabetEnd> make_bytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  size_t next = 256;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (stands_for_itself(byte)) {
      bytes[byte] = static_cast<int16_t>(byte);
    } else {
      bytes[byte] = -1;
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) bytes[next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}
constexpr std::array<int16_t, kAlphabetEnd> kBytes = make_bytes();

}  // namespace

std::optional<std::string> bytes_of_byte_level(std::string_view written) {
  std::string out;
  out.reserve(written.size());
  while (!written.empty()) {
    const CodePoint c = utf8_decode(written);
    if (c.length == 0 || c.value >= kAlphabetEnd || kBytes[c.value] < 0) return std::nullopt;
    out += static_cast<char>(kBytes[c.value]);
    written.remove_prefix(c.length);
  }
  return out;
}

}  // namespace tandem::text
