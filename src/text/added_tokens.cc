#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/unicode.h"

namespace tandem::text {
namespace {

// The code point that ends at byte `end`; length 0 at the start of the text.
CodePoint code_point_before(std::string_view text, size_t end) {
  if (end == 0) return {};
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return utf8_decode(text.substr(begin, end - begin));
}

size_t skip_blanks_back(std::string_view text, size_t end) {
  while (true) {
    const CodePoint c = code_point_before(text, end);
    if (c.length == 0 || !is_white_space(c.value)) return end;
    end -= c.length;
  }
}

size_t skip_blanks(std::string_view text, size_t begin) {
  while (true) {
    const CodePoint c = utf8_decode(text.substr(begin));
    if (c.length == 0 || !is_white_space(c.value)) return begin;
    begin += c.length;
  }
}

}  // namespace

bool is_control(const AddedToken& token) {
  const std::string_view s = token.content;
  if (token.special) return true;
  if (s.size() < 3) return false;
  return (s.starts_with('<') && s.ends_with('>')) || (s.starts_with('[') && s.ends_with(']')) ||
         s.find('|') != s.npos || s.find("｜") != s.npos;
}

void AddedTokenMatcher::add(const AddedToken& token, std::string_view content) {
  if (content.empty()) return;
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    const auto next = static_cast<uint32_t>(accepts_.size());
    uint32_t& edge = node == 0 ? roots_[byte] : edges_[(uint64_t{node} << 8) | byte];
    if (edge == 0) {
      edge = next;
      accepts_.push_back(-1);
    }
    node = edge;
  }
  if (accepts_[node] >= 0) return;  // the same text twice: the first counts
  accepts_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(
      {token.id, content.size(), is_control(token), token.single_word, token.lstrip, token.rstrip});
}

const AddedTokenMatcher::Entry* AddedTokenMatcher::longest_at(
    std::string_view text, size_t at, const std::vector<Range>& untrusted) const {
  const Entry* best = nullptr;
  uint32_t node = roots_[static_cast<unsigned char>(text[at])];
  for (size_t i = at + 1; node != 0; ++i) {
    if (accepts_[node] >= 0) {
      const Entry& entry = tokens_[static_cast<size_t>(accepts_[node])];
      if (!entry.control || !ranges_touch(untrusted, at, at + entry.bytes)) best = &entry;
    }
    if (i >= text.size()) break;
    const auto edge = edges_.find((uint64_t{node} << 8) | static_cast<unsigned char>(text[i]));
    node = edge == edges_.end() ? 0 : edge->second;
  }
  return best;
}

bool AddedTokenMatcher::stands_alone(std::string_view text, Range range) {
  const CodePoint before = code_point_before(text, range.begin);
  const CodePoint behind = utf8_decode(text.substr(range.end));
  return (before.length == 0 || !is_word(before.value)) &&
         (behind.length == 0 || !is_word(behind.value));
}

void AddedTokenMatcher::split(std::string_view text,
                              const std::vector<Range>& untrusted,
                              std::vector<TextPart>& parts) const {
  size_t done = 0;
  size_t at = tokens_.empty() ? text.size() : 0;
  while (at < text.size()) {
    if (roots_[static_cast<unsigned char>(text[at])] == 0) {
      ++at;
      continue;
    }
    const Entry* token = longest_at(text, at, untrusted);
    if (!token) {
      ++at;
      continue;
    }
    Range range{at, at + token->bytes};
    at = range.end;
    if (token->single_word && !stands_alone(text, range)) continue;
    if (token->lstrip) range.begin = std::max(done, skip_blanks_back(text, range.begin));
    if (token->rstrip) range.end = skip_blanks(text, range.end);
    if (done < range.begin) parts.push_back({kNoToken, {done, range.begin}});
    parts.push_back({token->id, range});
    done = range.end;
    at = std::max(at, done);
  }
  if (done < text.size()) parts.push_back({kNoToken, {done, text.size()}});
}

}  // namespace tandem::text
