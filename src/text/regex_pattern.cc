#include "text/regex_pattern.h"

#include <cctype>
#include <vector>

namespace tandem::text {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr size_t kMaxGroupDepth = 64;

// Oniguruma's word characters (its table CR_Word). PCRE2 10.42's \w has no marks and all numbers.
constexpr std::string_view kWordItems =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Expected<std::string> run() {
    if (in_.size() > kMaxPatternBytes) return refuse("a pattern of more than 64 KiB");
    while (at_ < in_.size()) TANDEM_TRY(step());
    return std::move(out_);
  }

 private:
  std::unexpected<Error> refuse(std::string_view what) const {
    return fail(ErrorCode::kUnsupported,
                "regular expression '{}': {} is not supported",
                in_.substr(0, 200),
                what);
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool starts(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  // Starts an atom, so that a quantifier knows what it belongs to.
  void atom() { atom_ = out_.size(); }
  void copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  Expected<void> step() {
    switch (peek()) {
      case '\\':
        atom();
        return escape(/*in_class=*/false);
      case '[':
        atom();
        return char_class();
      case '(':
        return open_group();
      case ')':
        if (groups_.empty()) return refuse("an unmatched ')'");
        atom_ = groups_.back();
        groups_.pop_back();
        copy(1);
        return {};
      case '{':
        return braces();
      case '*':
      case '+':
      case '?':
        copy(1);
        if (peek() == '?' || peek() == '+') copy(1);
        return {};
      case '|':
      case '^':
      case '$':
        copy(1);
        return {};
      default:
        atom();
        copy(1);
        while (at_ < in_.size() && (static_cast<unsigned char>(peek()) & 0xC0) == 0x80) copy(1);
        return {};
    }
  }

  Expected<void> open_group() {
    if (groups_.size() >= kMaxGroupDepth) return refuse("nesting deeper than 64 groups");
    if (starts("(*")) return refuse("a '(*' verb");
    groups_.push_back(out_.size());
    if (!starts("(?")) {
      copy(1);
      return {};
    }
    for (std::string_view opening : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:"}) {
      if (starts(opening)) {
        copy(opening.size());
        return {};
      }
    }
    if (starts("(?i)") || starts("(?-i)")) {
      copy(in_[at_ + 2] == 'i' ? 3 : 4);  // the ')' closes it like any group
      return {};
    }
    return refuse("the group '" + std::string(in_.substr(at_, 4)) + "'");
  }

  // {n}, {n,}, {n,m}, {,m}; a brace that is no quantifier is itself, in both syntaxes.
  Expected<void> braces() {
    size_t end = at_ + 1;
    while (end < in_.size() &&
           (std::isdigit(static_cast<unsigned char>(in_[end])) || in_[end] == ',')) {
      ++end;
    }
    const std::string body(in_.substr(at_ + 1, end - at_ - 1));
    const size_t comma = body.find(',');
    const bool quantifier =
        end < in_.size() && in_[end] == '}' && !body.empty() && body != "," &&
        (comma == std::string::npos || body.find(',', comma + 1) == std::string::npos);
    if (!quantifier) {
      atom();
      out_ += "\\{";
      ++at_;
      return {};
    }
    out_ += comma == 0 ? "{0" + body + "}" : "{" + body + "}";
    at_ = end + 1;
    if (peek() == '?') {
      // Ruby reads {n}? as "n times or not at all".
      if (comma == std::string::npos) return refuse("'{n}?'");
      copy(1);
    }
    while (peek() == '+' || peek() == '*') {  // Ruby: repeated, not possessive
      out_.insert(atom_, "(?:");
      out_ += ')';
      copy(1);
    }
    return {};
  }

  Expected<void> property() {
    const size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) return refuse("'\\p' without braces");
    bool negated = peek(1) == 'P';
    std::string name(in_.substr(at_ + 3, end - at_ - 3));
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    for (const char c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '&') {
        return refuse("the property '" + name + "'");
      }
    }
    // Han, Latin, …: Oniguruma means the script; PCRE2 would take the script extensions too. Names
    // of categories have one or two letters; these long ones are binary properties.
    const bool binary = name == "Alphabetic" || name == "Emoji" || name == "Lowercase" ||
                        name == "Uppercase" || name == "Any" || name == "White_Space" ||
                        name == "Ideographic";
    if (name.size() > 2 && !binary) name.insert(0, "sc:");
    out_ += negated ? "\\P{" : "\\p{";
    out_ += name + '}';
    at_ = end + 1;
    return {};
  }

  Expected<void> escape(bool in_class) {
    const char c = peek(1);
    switch (c) {
      case '\0':
        return refuse("a trailing backslash");
      case 'p':
      case 'P':
        return property();
      case 'w':
        out_ += in_class ? std::string(kWordItems) : "[" + std::string(kWordItems) + "]";
        at_ += 2;
        return {};
      case 'W':
        if (in_class) return refuse("'\\W' inside a class");
        out_ += "[^" + std::string(kWordItems) + "]";
        at_ += 2;
        return {};
      case 'u': {
        const std::string digits(in_.substr(at_ + 2, 4));
        if (digits.size() != 4 ||
            digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
          return refuse("'\\u' without four hexadecimal digits");
        }
        out_ += "\\x{" + digits + "}";
        at_ += 6;
        return {};
      }
      case 'x':
      case 'd':
      case 'D':
      case 's':
      case 'S':
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'v':
      case 'e':
      case 'a':
        if (c == 'v') {  // Oniguruma: the one character U+000B; PCRE2: a class
          out_ += "\\x{0b}";
          at_ += 2;
          return {};
        }
        copy(2);
        return {};
      case 'A':
      case 'z':
      case 'Z':
      case 'X':
      case 'R':
        if (in_class) break;
        copy(2);
        return {};
      default:
        break;
    }
    if (std::isalnum(static_cast<unsigned char>(c))) {
      return refuse("'\\" + std::string(1, c) + "'");
    }
    copy(2);
    while (at_ < in_.size() && (static_cast<unsigned char>(peek()) & 0xC0) == 0x80) copy(1);
    return {};
  }

  Expected<void> char_class() {
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') {  // first: an ordinary character, in both syntaxes
      out_ += "\\]";
      ++at_;
    }
    while (at_ < in_.size()) {
      if (peek() == ']') {
        copy(1);
        return {};
      }
      if (peek() == '[') return refuse("a '[' inside a class");
      if (starts("&&")) return refuse("the class intersection '&&'");
      if (starts("--")) return refuse("the class difference '--'");
      if (peek() == '\\') {
        TANDEM_TRY(escape(/*in_class=*/true));
      } else {
        copy(1);
      }
    }
    return refuse("a class without its ']'");
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last atom starts in out_
  std::vector<size_t> groups_;  // where each open group starts in out_
};

}  // namespace

Expected<std::string> to_pcre2_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

std::string escape_pattern(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !std::isalnum(byte)) {
      out += fmt::format("\\x{{{:02x}}}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tandem::text
