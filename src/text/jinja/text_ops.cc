#include "text/jinja/text_ops.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"

namespace tandem::text::jinja {
namespace {

// The character that ends at byte `end` > 0.
CodePoint character_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const CodePoint c = utf8_decode(text.substr(begin, end - begin));
  return {c.value, end - begin};
}

CodePoint character_at(std::string_view text, size_t at) {
  const CodePoint c = utf8_decode(text.substr(at, 4));
  return {c.value, std::max<size_t>(1, c.length)};
}

// str.splitlines: where lines end.
bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

size_t code_points_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

MarkedText strip(const MarkedText& text, Side side, const MarkedText* chars) {
  const std::string_view all = text.text();
  std::vector<char32_t> set;
  if (chars != nullptr) {
    for (size_t at = 0; at < chars->size();) {
      const CodePoint c = character_at(chars->text(), at);
      set.push_back(c.value);
      at += c.length;
    }
  }
  const auto goes = [&](char32_t c) {
    return chars != nullptr ? std::find(set.begin(), set.end(), c) != set.end()
                            : is_python_space(c);
  };
  size_t begin = 0;
  size_t end = all.size();
  while (side != Side::kRight && begin < end) {
    const CodePoint c = character_at(all, begin);
    if (!goes(c.value)) break;
    begin += c.length;
  }
  while (side != Side::kLeft && end > begin) {
    const CodePoint c = character_before(all, end);
    if (!goes(c.value)) break;
    end -= c.length;
  }
  return text.slice(begin, end);
}

std::vector<MarkedText> split(const MarkedText& text,
                              std::string_view separator,
                              int64_t most,
                              bool from_right) {
  const std::string_view all = text.text();
  std::vector<MarkedText> parts;
  if (!from_right) {
    size_t begin = 0;
    for (int64_t cuts = 0; most < 0 || cuts < most; ++cuts) {
      const size_t at = all.find(separator, begin);
      if (at == all.npos || parts.size() > kMaxParts) break;
      parts.push_back(text.slice(begin, at));
      begin = at + separator.size();
    }
    parts.push_back(text.slice(begin, all.size()));
    return parts;
  }
  size_t end = all.size();
  for (int64_t cuts = 0; most < 0 || cuts < most; ++cuts) {
    const size_t at =
        end < separator.size() ? all.npos : all.rfind(separator, end - separator.size());
    if (at == all.npos || parts.size() > kMaxParts) break;
    parts.push_back(text.slice(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_blanks(const MarkedText& text, int64_t most, bool from_right) {
  std::vector<Range> words;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = character_at(text.text(), at);
    const bool blank = is_python_space(c.value);
    if (!blank && !inside) words.push_back({at, at});
    inside = !blank;
    at += c.length;
    if (inside) words.back().end = at;
  }
  std::vector<MarkedText> parts;
  const size_t count = words.size();
  if (count == 0) return parts;
  const bool all = most < 0 || static_cast<size_t>(most) > count - 1;
  const size_t cuts = std::min(kMaxParts, all ? count - 1 : static_cast<size_t>(most));
  // The part where the cuts run out keeps its blanks on the far side, as in Python.
  if (from_right) {
    parts.push_back(text.slice(all ? words[0].begin : 0, words[count - 1 - cuts].end));
    for (size_t i = count - cuts; i < count; ++i) {
      parts.push_back(text.slice(words[i].begin, words[i].end));
    }
    return parts;
  }
  for (size_t i = 0; i < cuts; ++i) parts.push_back(text.slice(words[i].begin, words[i].end));
  parts.push_back(text.slice(words[cuts].begin, all ? words[cuts].end : text.size()));
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  const std::string_view all = text.text();
  std::vector<MarkedText> lines;
  size_t begin = 0;
  for (size_t at = 0; at < all.size() && lines.size() <= kMaxParts;) {
    const CodePoint c = character_at(all, at);
    size_t next = at + c.length;
    if (ends_line(c.value)) {
      if (c.value == '\r' && next < all.size() && all[next] == '\n') ++next;
      lines.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < all.size()) lines.push_back(text.slice(begin, all.size()));
  return lines;
}

MarkedText replace(const MarkedText& text,
                   std::string_view old,
                   const MarkedText& by,
                   int64_t most) {
  const std::string_view all = text.text();
  MarkedText out;
  const auto put = [&](bool untrusted) {
    if (untrusted) {
      out.append(by.text(), true);
    } else {
      out.append(by);
    }
  };
  if (old.empty()) {  // before each character, and at the end
    size_t at = 0;
    for (int64_t done = 0; most < 0 || done < most; ++done) {
      put(text.any_untrusted());
      if (at >= all.size()) return out;
      const size_t length = character_at(all, at).length;
      out.append(text, at, at + length);
      at += length;
    }
    out.append(text, at, all.size());
    return out;
  }
  size_t begin = 0;
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    const size_t at = all.find(old, begin);
    if (at == all.npos) break;
    out.append(text, begin, at);
    put(text.touches(at, at + old.size()));
    begin = at + old.size();
  }
  out.append(text, begin, all.size());
  return out;
}

MarkedText map_characters(const MarkedText& text,
                          const std::function<void(std::string&, char32_t)>& map) {
  MarkedText out;
  const std::string_view all = text.text();
  std::string mapped;
  const auto stretch = [&](size_t begin, size_t end, bool untrusted) {
    mapped.clear();
    for (size_t at = begin; at < end;) {
      const CodePoint c = character_at(all, at);
      map(mapped, c.value);
      at += c.length;
    }
    out.append(mapped, untrusted);
  };
  size_t done = 0;
  for (const Range& range : text.untrusted()) {
    stretch(done, range.begin, false);
    stretch(range.begin, range.end, true);
    done = range.end;
  }
  stretch(done, all.size(), false);
  return out;
}

MarkedText to_upper(const MarkedText& text) { return map_characters(text, append_upper); }

MarkedText to_lower(const MarkedText& text) {
  if (text.text().find("Σ") == std::string::npos) return map_characters(text, append_lower);
  std::vector<char32_t> all;  // a sigma's form depends on what stands beside it
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = character_at(text.text(), at);
    all.push_back(c.value);
    at += c.length;
  }
  size_t index = 0;
  return map_characters(text, [&](std::string& out, char32_t c) {
    const bool word_before = index > 0 && is_cased(all[index - 1]);
    const bool word_behind = index + 1 < all.size() && is_cased(all[index + 1]);
    ++index;
    c == U'Σ' && word_before && !word_behind ? utf8_append(out, U'ς') : append_lower(out, c);
  });
}

MarkedText capitalize(const MarkedText& text) {
  bool first = true;
  return map_characters(text, [&first](std::string& out, char32_t c) {
    first ? append_title(out, c) : append_lower(out, c);
    first = false;
  });
}

MarkedText title(const MarkedText& text) {
  bool inside = false;
  return map_characters(text, [&inside](std::string& out, char32_t c) {
    inside ? append_lower(out, c) : append_title(out, c);
    inside = is_cased(c);
  });
}

MarkedText escape_html(const MarkedText& text) {
  return map_characters(text, [](std::string& out, char32_t c) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        utf8_append(out, c);
    }
  });
}

MarkedText justify(const MarkedText& text, size_t width, Side text_side, std::string_view fill) {
  const size_t length = code_points_of(text.text());
  if (length >= width) return text;
  const size_t missing = width - length;
  // str.center puts the odd one on the left where the width is odd.
  const size_t before = text_side == Side::kLeft    ? 0
                        : text_side == Side::kRight ? missing
                                                    : missing / 2 + (missing & width & 1);
  MarkedText out;
  for (size_t i = 0; i < before; ++i) out.append(fill, false);
  out.append(text);
  for (size_t i = before; i < missing; ++i) out.append(fill, false);
  return out;
}

MarkedText first_characters(const MarkedText& text, size_t count) {
  size_t end = 0;
  for (; count > 0 && end < text.size(); --count) end += character_at(text.text(), end).length;
  return text.slice(0, end);
}

}  // namespace tandem::text::jinja
