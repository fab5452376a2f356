#include "text/jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/utf8.h"
#include "text/unicode.h"

namespace tandem::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// \r\n and \r become \n; one newline at the very end goes (keep_trailing_newline is off).
std::string normalized_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// Where the blanks at the end of `text` begin.
size_t blanks_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const CodePoint c = utf8_decode(text.substr(begin, end - begin));
    if (c.length == 0 || !is_python_space(c.value)) break;
    end = begin;
  }
  return end;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(normalized_source(source)), in_(owned_) {}

  Expected<std::vector<Token>> run() {
    while (at_ < in_.size()) TANDEM_TRY(outside());
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", line_, what);
  }
  bool starts(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void advance(size_t count) {
    line_ += static_cast<int>(std::count(in_.begin() + at_, in_.begin() + at_ + count, '\n'));
    at_ += count;
  }
  void skip_blanks() {
    while (at_ < in_.size()) {
      const CodePoint c = utf8_decode(in_.substr(at_));
      if (c.length == 0 || !is_python_space(c.value)) return;
      advance(c.length);
    }
  }

  // Text up to the next tag, then the tag's begin.
  Expected<void> outside() {
    size_t tag = at_;
    while (true) {
      tag = in_.find('{', tag);
      if (tag == in_.npos || tag + 1 >= in_.size()) {
        tag = in_.npos;
        break;
      }
      const char next = in_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    if (tag == in_.npos) {
      push_text(in_.substr(at_));
      at_ = in_.size();
      return {};
    }
    const char kind = in_[tag + 1];
    const char sign = tag + 2 < in_.size() ? in_[tag + 2] : '\0';
    push_text(stripped_text(tag, kind, sign));
    advance(tag - at_);
    const size_t begin_length = sign == '-' || sign == '+' ? 3 : 2;
    if (kind == '#') return comment(begin_length);
    if (kind == '%') {
      if (const auto raw_end = raw_begin(begin_length)) return raw(*raw_end);
    }
    advance(begin_length);
    push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    return inside(kind == '{');
  }

  void push_text(std::string_view text) {
    if (!text.empty()) push(TokenKind::kText, std::string(text));
  }

  // The text before a tag: '-' takes all blanks, lstrip_blocks the indent of a line of its own.
  std::string_view stripped_text(size_t tag, char kind, char sign) const {
    const std::string_view text = in_.substr(at_, tag - at_);
    if (sign == '-') return text.substr(0, blanks_at_end(text));
    if (sign == '+' || kind == '{') return text;
    const size_t newline = text.rfind('\n');
    if (newline == text.npos && !line_starting_) return text;
    const size_t line_begin = newline == text.npos ? 0 : newline + 1;
    return blanks_at_end(text) <= line_begin ? text.substr(0, line_begin) : text;
  }

  // Behind a tag: '-' takes all blanks, trim_blocks one newline (not with '+').
  void after_tag(char sign, bool trim) {
    const size_t begin = at_;
    if (sign == '-') {
      skip_blanks();
    } else if (trim && sign != '+' && peek() == '\n') {
      advance(1);
    }
    line_starting_ = at_ > begin && in_[at_ - 1] == '\n';
  }

  Expected<void> comment(size_t begin_length) {
    const size_t end = in_.find("#}", at_ + begin_length);
    if (end == in_.npos) return error("Missing end of comment tag");
    const char sign = end > at_ + begin_length ? in_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_tag(sign, /*trim=*/true);
    return {};
  }

  // If a raw tag stands here: the byte behind it.
  std::optional<size_t> raw_begin(size_t begin_length) const {
    size_t i = at_ + begin_length;
    const auto blanks = [&] {
      while (i < in_.size() && std::isspace(static_cast<unsigned char>(in_[i]))) ++i;
    };
    blanks();
    if (!in_.substr(i).starts_with("raw")) return std::nullopt;
    i += 3;
    blanks();
    if (in_.substr(i).starts_with("%}")) return i + 2;
    if (!in_.substr(i).starts_with("-%}")) return std::nullopt;
    i += 3;
    blanks();
    return i;
  }

  Expected<void> raw(size_t begin) {
    advance(begin - at_);
    for (size_t tag = in_.find("{%", at_); tag != in_.npos; tag = in_.find("{%", tag + 2)) {
      size_t i = tag + 2;
      const char sign = i < in_.size() ? in_[i] : '\0';
      if (sign == '-' || sign == '+') ++i;
      while (i < in_.size() && std::isspace(static_cast<unsigned char>(in_[i]))) ++i;
      if (!in_.substr(i).starts_with("endraw")) continue;
      i += 6;
      while (i < in_.size() && std::isspace(static_cast<unsigned char>(in_[i]))) ++i;
      const char end_sign = i < in_.size() ? in_[i] : '\0';
      if (end_sign == '-' || end_sign == '+') ++i;
      if (!in_.substr(i).starts_with("%}")) continue;
      line_starting_ = false;
      push_text(stripped_text(tag, '%', sign));
      advance(i + 2 - at_);
      after_tag(end_sign, /*trim=*/true);
      return {};
    }
    return error("Missing end of raw directive");
  }

  // The inside of {{ }} or {% %}.
  Expected<void> inside(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    std::string open;  // brackets still open
    while (true) {
      skip_blanks();
      if (at_ >= in_.size()) return error("unexpected end of template inside a tag");
      if (open.empty()) {
        const char sign = peek() == '-' || (!variable && peek() == '+') ? peek() : '\0';
        if (in_.substr(at_ + (sign != '\0' ? 1 : 0)).starts_with(end)) {
          push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          advance(end.size() + (sign != '\0' ? 1 : 0));
          after_tag(sign, /*trim=*/!variable);
          return {};
        }
      }
      TANDEM_TRY(token(open));
    }
  }

  Expected<void> token(std::string& open) {
    const char c = peek();
    if (c == '"' || c == '\'') return string(c);
    if (is_digit(c)) return number();
    const CodePoint point = utf8_decode(in_.substr(at_));
    if (c == '_' || is_word(point.value)) {
      const size_t begin = at_;
      while (at_ < in_.size()) {
        const CodePoint next = utf8_decode(in_.substr(at_));
        if (next.length == 0 || !(is_word(next.value) || next.value == '_')) break;
        at_ += next.length;
      }
      push(TokenKind::kName, std::string(in_.substr(begin, at_ - begin)));
      return {};
    }
    return operator_token(open);
  }

  Expected<void> operator_token(std::string& open) {
    for (std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!starts(two)) continue;
      push(TokenKind::kOperator, std::string(two));
      at_ += 2;
      return {};
    }
    const char c = peek();
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      return error("unexpected char " + std::string(in_.substr(at_, 1)));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return error("unexpected '" + std::string(1, c) + "'");
      open.pop_back();
    }
    push(TokenKind::kOperator, std::string(1, c));
    ++at_;
    return {};
  }

  // Digits with single underscores between them.
  void digits(std::string& out) {
    while (is_digit(peek()) || (peek() == '_' && is_digit(peek(1)))) {
      if (peek() != '_') out += peek();
      ++at_;
    }
  }

  Expected<void> number() {
    std::string text;
    if (peek() == '0' && std::string_view("xXoObB").find(peek(1)) != std::string_view::npos &&
        peek(1) != '\0') {
      text = in_.substr(at_, 2);
      at_ += 2;
      while (std::isxdigit(static_cast<unsigned char>(peek())) || peek() == '_') {
        if (peek() != '_') text += peek();
        ++at_;
      }
      push(TokenKind::kInteger, text);
      return {};
    }
    digits(text);
    bool is_float = false;
    // "1.5", but not "1.": a dot before a name is a member. After a dot ("x.0") no fraction.
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                           tokens_.back().text == ".";
    if (!after_dot && peek() == '.' && is_digit(peek(1))) {
      is_float = true;
      text += '.';
      ++at_;
      digits(text);
    }
    const bool sign = peek(1) == '+' || peek(1) == '-';
    if (!after_dot && (peek() == 'e' || peek() == 'E') && is_digit(peek(sign ? 2 : 1))) {
      is_float = true;
      text += 'e';
      ++at_;
      if (sign) text += in_[at_++];
      digits(text);
    }
    push(is_float ? TokenKind::kFloat : TokenKind::kInteger, text);
    return {};
  }

  Expected<void> string(char quote) {
    const size_t begin = at_ + 1;
    size_t end = begin;
    while (end < in_.size() && in_[end] != quote) end += in_[end] == '\\' ? 2 : 1;
    if (end >= in_.size()) return error("a string without its end");
    TANDEM_ASSIGN(std::string text, unescape(in_.substr(begin, end - begin)));
    push(TokenKind::kString, std::move(text));
    advance(end + 1 - at_);
    return {};
  }

  // Python's string escapes; an unknown one stays as written.
  Expected<std::string> unescape(std::string_view raw) const {
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 >= raw.size()) {
        out += raw[i];
        continue;
      }
      const char c = raw[++i];
      constexpr std::string_view kFrom = "abfnrtv\\'\"";
      constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t simple = kFrom.find(c); simple != kFrom.npos) {
        out += kTo[simple];
      } else if (c == '\n') {
        continue;
      } else if (c >= '0' && c <= '7') {
        char32_t code = 0;
        const size_t begin = i;
        while (i < raw.size() && i < begin + 3 && raw[i] >= '0' && raw[i] <= '7') {
          code = code * 8 + static_cast<char32_t>(raw[i++] - '0');
        }
        --i;
        utf8_append(out, code);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        TANDEM_ASSIGN(const char32_t code, hexadecimal(raw.substr(i + 1, length), length));
        i += length;
        utf8_append(out, code);
      } else if (c == 'N') {
        return error("'\\N' in a string is not supported");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  Expected<char32_t> hexadecimal(std::string_view digits, size_t length) const {
    char32_t code = 0;
    bool good = digits.size() == length;
    for (const char c : digits) {
      good = good && std::isxdigit(static_cast<unsigned char>(c));
      if (!good) break;
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      code = code * 16 + static_cast<char32_t>(digit);
    }
    if (!good || code > 0x10FFFF) return error("a wrong escape in a string");
    return code >= 0xD800 && code < 0xE000 ? 0xFFFD : code;  // half a pair is no character
  }

  std::string owned_;
  std::string_view in_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // whether nothing of the line has been written before at_
  std::vector<Token> tokens_;
};

}  // namespace

Expected<std::vector<Token>> tokenize_template(std::string_view source) {
  if (!utf8_is_valid(source)) {
    return fail(ErrorCode::kInvalidArgument, "the template is not valid UTF-8");
  }
  return Lexer(source).run();
}

}  // namespace tandem::text::jinja
