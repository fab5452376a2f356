#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/check.h"

namespace tandem::text {
namespace {

bool in(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE | (composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

// Sorts each run of combining marks by combining class, those of one class in their order.
// utf8proc's own ordering is quadratic in the length of a run, which a client chooses.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  const auto mark_class = [](utf8proc_int32_t c) {
    return static_cast<uint64_t>(utf8proc_get_property(c)->combining_class);
  };
  std::vector<uint64_t> keys;  // class, then place in the run
  std::vector<utf8proc_int32_t> run;
  for (size_t i = 0; i < points.size();) {
    keys.clear();
    run.clear();
    for (size_t at = i; at < points.size() && mark_class(points[at]) != 0; ++at) {
      keys.push_back((mark_class(points[at]) << 32) | run.size());
      run.push_back(points[at]);
    }
    std::sort(keys.begin(), keys.end());
    for (const uint64_t key : keys) points[i++] = run[static_cast<uint32_t>(key)];
    if (run.empty()) ++i;
  }
}

std::string normalize_stretch(std::string_view text, NormalForm form) {
  // The longest decomposition has 18 code points (U+FDFA, UAX #15).
  constexpr size_t kLongest = 32;
  std::vector<utf8proc_int32_t> points;
  std::array<utf8proc_int32_t, kLongest> parts;
  while (!text.empty()) {
    const CodePoint c = utf8_decode(text);
    TANDEM_CHECK(c.length > 0, "text to normalize is valid UTF-8");
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value),
                                               parts.data(),
                                               parts.size(),
                                               options_of(form),
                                               &boundary);
    TANDEM_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kLongest));
    points.insert(points.end(), parts.begin(), parts.begin() + count);
    text.remove_prefix(c.length);
  }
  order_marks(points);
  if (composes(form)) {
    const auto count = utf8proc_normalize_utf32(
        points.data(), static_cast<utf8proc_ssize_t>(points.size()), options_of(form));
    TANDEM_CHECK(count >= 0);
    points.resize(static_cast<size_t>(count));
  }
  std::string out;
  for (const auto c : points) utf8_append(out, static_cast<char32_t>(c));
  return out;
}

// Upper-case forms of more than one letter: Unicode's SpecialCasing.txt, unconditional part.
struct SpecialUpper {
  char32_t from;
  std::string_view upper;
  std::string_view title;
};
constexpr SpecialUpper kSpecialUpper[] = {
    {0x00DF, "SS", "Ss"},
    {0x0149, "ʼN", "ʼN"},
    {0x01F0, "J̌", "J̌"},
    {0x0390, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},
    {0x03B0, "\u03A5\u0308\u0301", "\u03A5\u0308\u0301"},
    {0x0587, "ԵՒ", "Եւ"},
    {0x1E96, "H\u0331", "H\u0331"},
    {0x1E97, "T\u0308", "T\u0308"},
    {0x1E98, "W\u030A", "W\u030A"},
    {0x1E99, "Y\u030A", "Y\u030A"},
    {0x1E9A, "Aʾ", "Aʾ"},
    {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},
    {0xFB02, "FL", "Fl"},
    {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"},
    {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},
    {0xFB13, "ՄՆ", "Մն"},
    {0xFB14, "ՄԵ", "Մե"},
    {0xFB15, "ՄԻ", "Մի"},
    {0xFB16, "ՎՆ", "Վն"},
    {0xFB17, "ՄԽ", "Մխ"},
};

const SpecialUpper* special_upper(char32_t c) {
  const auto* it = std::find_if(std::begin(kSpecialUpper),
                                std::end(kSpecialUpper),
                                [c](const SpecialUpper& s) { return s.from == c; });
  return it == std::end(kSpecialUpper) ? nullptr : it;
}

}  // namespace

bool is_normalization_safe(char32_t c, NormalForm form) {
  if (c < 0x80 || in(c, 0x4E00, 0x9FFF)) return true;
  if (!composes(form)) return false;
  // Composed letters that have no compatibility form: Latin, Cyrillic, kana, Hangul syllables.
  if (in(c, 0xC0, 0x131) || in(c, 0x400, 0x481) || in(c, 0x3041, 0x3096) || in(c, 0x30A1, 0x30FA) ||
      in(c, 0xAC00, 0xD7A3)) {
    return true;
  }
  if (form == NormalForm::kNfkc) return false;
  return c < 0x300 || in(c, 0x2010, 0x2027) || in(c, 0x3000, 0x3029) || in(c, 0xFF01, 0xFFEE) ||
         in(c, 0x1F300, 0x1FAFF);
}

MarkedText normalize(const MarkedText& text, NormalForm form) {
  const std::string& source = text.text();
  MarkedText out;
  size_t copied = 0;     // everything before is in `out`
  size_t last_safe = 0;  // start of the last safe code point
  size_t i = 0;
  while (i < source.size()) {
    const auto lead = static_cast<unsigned char>(source[i]);
    if (lead < 0x80) {
      last_safe = i++;
      continue;
    }
    CodePoint c = utf8_decode(std::string_view(source).substr(i, 4));
    TANDEM_CHECK(c.length > 0, "text to normalize is valid UTF-8");
    if (is_normalization_safe(c.value, form)) {
      last_safe = i;
      i += c.length;
      continue;
    }
    // A stretch from the safe code point before (with which this one may combine) to the next.
    const size_t begin = std::max(copied, last_safe);
    while (i < source.size()) {
      c = utf8_decode(std::string_view(source).substr(i, 4));
      TANDEM_CHECK(c.length > 0, "text to normalize is valid UTF-8");
      if (is_normalization_safe(c.value, form)) break;
      i += c.length;
    }
    const std::string_view stretch = std::string_view(source).substr(begin, i - begin);
    const std::string normal = normalize_stretch(stretch, form);
    if (normal == stretch) continue;
    out.append(text, copied, begin);
    out.append(normal, text.touches(begin, i));
    copied = last_safe = i;
  }
  if (copied == 0) return text;
  out.append(text, copied, source.size());
  return out;
}

bool is_white_space(char32_t c) {
  return in(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         in(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_python_space(char32_t c) { return is_white_space(c) || in(c, 0x1C, 0x1F); }

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t c) {
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_numeric(char32_t c) {
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

bool is_cased(char32_t c) {
  const auto cat = category(c);
  return cat == UTF8PROC_CATEGORY_LU || cat == UTF8PROC_CATEGORY_LL || cat == UTF8PROC_CATEGORY_LT;
}

bool is_word(char32_t c) {
  if (c == 0x200C || c == 0x200D || in(c, 0x24B6, 0x24E9)) return true;
  const auto cat = category(c);
  const bool mark = cat >= UTF8PROC_CATEGORY_MN && cat <= UTF8PROC_CATEGORY_ME;
  return is_letter(c) || mark || cat == UTF8PROC_CATEGORY_ND || cat == UTF8PROC_CATEGORY_NL ||
         cat == UTF8PROC_CATEGORY_PC;
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialUpper* special = special_upper(c)) {
    out += special->upper;
    return;
  }
  utf8_append(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130) {  // I with dot: SpecialCasing.txt
    out += "i\u0307";
    return;
  }
  utf8_append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialUpper* special = special_upper(c)) {
    out += special->title;
    return;
  }
  utf8_append(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace tandem::text
