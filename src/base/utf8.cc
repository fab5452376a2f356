#include "base/utf8.h"

namespace tandem {
namespace {

// What may follow a lead byte: total length and the range of the second byte (Unicode 15, table
// 3-7).
struct Lead {
  size_t length;
  unsigned char second_low;
  unsigned char second_high;
};

Lead classify(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Number of leading bytes of `text` that agree with `lead`'s pattern, at most lead.length.
size_t matching_bytes(std::string_view text, const Lead& lead) {
  size_t i = 1;
  for (; i < lead.length && i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) break;
  }
  return i;
}

}  // namespace

size_t utf8_sequence_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = classify(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return 0;
  return matching_bytes(text, lead) == lead.length ? lead.length : 0;
}

CodePoint utf8_decode(std::string_view text) {
  const size_t length = utf8_sequence_length(text);
  if (length == 0) return {};
  const auto lead = static_cast<unsigned char>(text[0]);
  if (length == 1) return {lead, 1};
  char32_t value = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    value = (value << 6) | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return {value, length};
}

void utf8_append(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool utf8_is_incomplete_prefix(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = classify(static_cast<unsigned char>(text[0]));
  if (lead.length <= text.size()) return false;
  return matching_bytes(text, lead) == text.size();
}

bool utf8_is_valid(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Lead lead = classify(static_cast<unsigned char>(text[0]));
    const size_t agreeing = lead.length == 0 ? 1 : matching_bytes(text, lead);
    if (lead.length != 0 && agreeing == lead.length) {
      out.append(text.substr(0, agreeing));
    } else {
      out += "\xEF\xBF\xBD";
    }
    text.remove_prefix(agreeing);
  }
  return out;
}

}  // namespace tandem
