#include "text/jinja/format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/utf8.h"
#include "text/jinja/python_text.h"

namespace tandem::text::jinja {
namespace {

constexpr int kMaxWidth = 100'000;
constexpr int kMaxPrecision = 1000;

// [[fill]align][sign][#][0][width][,][.precision][type], Python's format specification.
struct Spec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  int width = 0;
  char grouping = '\0';
  int precision = -1;
  char type = '\0';
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Expected<int> read_number(std::string_view& text, int limit) {
  int number = 0;
  while (!text.empty() && is_digit(text[0])) {
    number = number * 10 + (text[0] - '0');
    if (number > limit) return fail_value("a width or precision above {} is not supported", limit);
    text.remove_prefix(1);
  }
  return number;
}

size_t code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Pads to the width. `numeric`: to the left by default, and '=' puts the padding behind the sign.
MarkedText padded(const MarkedText& text, const Spec& spec, bool numeric) {
  const size_t length = code_points(text.text());
  const auto width = static_cast<size_t>(spec.width);
  if (length >= width) return text;
  const size_t missing = width - length;
  const char align = spec.align != '\0' ? spec.align : numeric ? '>' : '<';
  const bool has_sign = !text.empty() && (text.text()[0] == '-' || text.text()[0] == '+');
  const size_t head = align == '=' && has_sign ? 1 : 0;
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  MarkedText out;
  out.append(text, 0, head);
  for (size_t i = 0; i < before; ++i) out.append(spec.fill, false);
  out.append(text, head, text.size());
  for (size_t i = before; i < missing; ++i) out.append(spec.fill, false);
  return out;
}

std::string grouped(const std::string& number, char separator) {
  const size_t begin = number.find_first_of("0123456789");
  size_t end = begin;
  while (end < number.size() && is_digit(number[end])) ++end;
  std::string out = number.substr(0, begin);
  for (size_t i = begin; i < end; ++i) {
    out += number[i];
    if ((end - i - 1) % 3 == 0 && i + 1 < end) out += separator;
  }
  return out + number.substr(end);
}

std::string with_sign(std::string number, char sign) {
  if (!number.starts_with('-') && (sign == '+' || sign == ' ')) number.insert(0, 1, sign);
  return number;
}

Expected<std::string> format_integer(Int number, const Spec& spec) {
  const char type = spec.type == '\0' ? 'd' : spec.type;
  std::string out;
  if (type == 'd' || type == 'i' || type == 'u' || type == 'n') {
    out = int_text(number);
    if (spec.precision > 0) {
      const size_t head = number < 0 ? 1 : 0;
      const auto wanted = static_cast<size_t>(spec.precision);
      if (out.size() - head < wanted) out.insert(head, wanted - (out.size() - head), '0');
    }
  } else {
    const int shift = type == 'o' ? 3 : type == 'b' ? 1 : 4;
    auto rest = number < 0 ? -static_cast<unsigned __int128>(number)
                           : static_cast<unsigned __int128>(number);
    const char* digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    do {
      out += digits[static_cast<size_t>(rest & ((1u << shift) - 1))];
      rest >>= shift;
    } while (rest != 0);
    if (spec.alternate) out += std::string(1, type) + "0";
    if (number < 0) out += '-';
    std::reverse(out.begin(), out.end());
  }
  if (spec.grouping != '\0') out = grouped(out, spec.grouping);
  return with_sign(std::move(out), spec.sign);
}

Expected<std::string> format_double(double number, const Spec& spec) {
  char type = spec.type;
  const bool percent = type == '%';
  if (percent) number *= 100;
  std::string out;
  if (std::isnan(number) || std::isinf(number)) {
    out = float_text(number);
    if (std::isupper(static_cast<unsigned char>(type))) {
      for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  } else if (type == '\0' && spec.precision < 0) {
    out = float_text(number);
  } else {
    if (percent) type = 'f';
    if (type == '\0' || type == 'n') type = 'g';
    const std::string pattern =
        std::string("%") + (spec.alternate ? "#" : "") + ".*" + std::string(1, type);
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    const int size = std::snprintf(nullptr, 0, pattern.c_str(), precision, number);
    out.resize(static_cast<size_t>(size) + 1);
    std::snprintf(out.data(), out.size(), pattern.c_str(), precision, number);
    out.resize(static_cast<size_t>(size));
  }
  if (percent) out += '%';
  if (spec.grouping != '\0') out = grouped(out, spec.grouping);
  return with_sign(std::move(out), spec.sign);
}

// The first `precision` characters.
MarkedText cut(const MarkedText& text, int precision) {
  if (precision < 0) return text;
  size_t end = 0;
  for (int count = 0; end < text.size() && count < precision; ++count) {
    end += std::max<size_t>(1, utf8_sequence_length(std::string_view(text.text()).substr(end, 4)));
  }
  return text.slice(0, end);
}

Expected<MarkedText> format_number(const Value& value, Spec spec, bool& is_number) {
  Int storage = 0;
  const Int* integer = value.integer_or_bool(storage);
  const double* real = value.get<double>();
  is_number = integer != nullptr || real != nullptr;
  if (!is_number) return MarkedText();
  std::string text;
  const bool as_integer =
      spec.type == '\0' ? integer != nullptr
                        : std::string_view("diunxXob").find(spec.type) != std::string_view::npos;
  if (as_integer) {
    if (integer == nullptr) {
      return fail_value("format code '{}' needs an integer, not float", spec.type);
    }
    TANDEM_ASSIGN(text, format_integer(*integer, spec));
  } else {
    const double number = real != nullptr ? *real : static_cast<double>(*integer);
    TANDEM_ASSIGN(text, format_double(number, spec));
  }
  return padded(MarkedText(std::move(text), false), spec, /*numeric=*/true);
}

// --- "%" ---

class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, const MarkedText& format, const Value& value)
      : budget_(budget), format_(format), value_(value) {
    const Sequence* sequence = value.sequence();
    if (sequence != nullptr && sequence->kind == SequenceKind::kTuple) tuple_ = sequence;
  }

  Expected<MarkedText> run() {
    const std::string_view in = format_.text();
    while (at_ < in.size()) {
      const size_t percent = std::min(in.find('%', at_), in.size());
      out_.append(format_, at_, percent);
      at_ = percent + 1;
      if (percent == in.size()) break;
      TANDEM_TRY(conversion());
      if (out_.size() > budget_.limits().max_output_bytes) {
        return fail_value("writes more than {} bytes", budget_.limits().max_output_bytes);
      }
    }
    const bool all_used =
        tuple_ != nullptr ? next_ == tuple_->items.size() : next_ > 0 || value_.dict() != nullptr;
    if (!all_used) return fail_value("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  Expected<Value> next_value() {
    const size_t index = next_++;
    if (tuple_ != nullptr && index < tuple_->items.size()) return tuple_->items[index];
    if (tuple_ == nullptr && index == 0) return value_;
    return fail_value("not enough arguments for format string");
  }

  Expected<void> conversion() {
    std::string_view rest = std::string_view(format_.text()).substr(at_);
    std::optional<Value> named;
    if (rest.starts_with('(')) {
      const size_t end = rest.find(')');
      if (end == rest.npos) return fail_value("incomplete format key");
      if (value_.dict() == nullptr) return fail_value("format requires a mapping");
      const Value* found = value_.dict()->find(rest.substr(1, end - 1));
      if (found == nullptr) return fail_value("KeyError: {}", quoted(rest.substr(1, end - 1)));
      named = *found;
      rest.remove_prefix(end + 1);
    }
    Spec spec;
    for (; !rest.empty() && std::string_view("-+ 0#").find(rest[0]) != std::string_view::npos;
         rest.remove_prefix(1)) {
      if (rest[0] == '-') spec.align = '<';
      if (rest[0] == '+' || rest[0] == ' ') spec.sign = rest[0];
      if (rest[0] == '#') spec.alternate = true;
      if (rest[0] == '0' && spec.align == '\0') {
        spec.align = '=';
        spec.fill = "0";
      }
    }
    if (spec.align == '<') spec.fill = " ";
    TANDEM_ASSIGN(spec.width, read_number(rest, kMaxWidth));
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      TANDEM_ASSIGN(spec.precision, read_number(rest, kMaxPrecision));
    }
    if (rest.empty()) return fail_value("incomplete format");
    spec.type = rest[0];
    at_ = format_.size() - rest.size() + 1;
    if (spec.type == '%') {
      out_.append("%", false);
      return {};
    }
    Value value;
    if (named) {
      value = *std::move(named);
    } else {
      TANDEM_ASSIGN(value, next_value());
    }
    return convert(value, spec);
  }

  Expected<void> convert(const Value& value, Spec spec) {
    if (spec.type == 's' || spec.type == 'r') {
      MarkedText text;
      if (spec.type == 's') {
        TANDEM_ASSIGN(text, str(budget_, value));
      } else {
        TANDEM_ASSIGN(std::string shown, repr(budget_, value));
        text = MarkedText(std::move(shown), has_untrusted(value));
      }
      if (spec.align == '=' || spec.align == '\0') spec.align = '>';
      spec.fill = " ";
      out_.append(padded(cut(text, spec.precision), spec, false));
      return {};
    }
    if (std::string_view("diufFeEgGxXo").find(spec.type) == std::string_view::npos) {
      return fail_value("unsupported format character '{}'", spec.type);
    }
    Value number = value;
    const double* real = value.get<double>();
    if (real != nullptr && (spec.type == 'd' || spec.type == 'i' || spec.type == 'u')) {
      if (!std::isfinite(*real) || std::abs(*real) > 1e38) {
        return fail_value("cannot convert float to integer");
      }
      number = Value(static_cast<Int>(*real));
    }
    bool is_number = false;
    TANDEM_ASSIGN(const MarkedText text, format_number(number, spec, is_number));
    if (!is_number) {
      return fail_value(
          "%{} format: a real number is required, not {}", spec.type, type_name(value));
    }
    out_.append(text);
    return {};
  }

  Budget& budget_;
  const MarkedText& format_;
  const Value& value_;
  const Sequence* tuple_ = nullptr;
  size_t next_ = 0;
  size_t at_ = 0;
  MarkedText out_;
};

// --- "{}" ---

Expected<Spec> read_spec(std::string_view text) {
  Spec spec;
  const size_t first = utf8_sequence_length(text);
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (first > 0 && first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  if (text.starts_with('#')) {
    spec.alternate = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('0')) {
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    text.remove_prefix(1);
  }
  TANDEM_ASSIGN(spec.width, read_number(text, kMaxWidth));
  if (text.starts_with(',') || text.starts_with('_')) {
    spec.grouping = text[0];
    text.remove_prefix(1);
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    TANDEM_ASSIGN(spec.precision, read_number(text, kMaxPrecision));
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  const bool known = spec.type == '\0' ||
                     std::string_view("sdnxXobfFeEgG%").find(spec.type) != std::string_view::npos;
  if (!text.empty() || !known) return fail_value("Invalid format specifier");
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Budget& budget, const MarkedText& format, const Arguments& arguments)
      : budget_(budget), format_(format), arguments_(arguments) {}

  Expected<MarkedText> run() {
    const std::string_view in = format_.text();
    for (size_t at = 0; at < in.size();) {
      const size_t brace = std::min(in.find_first_of("{}", at), in.size());
      out_.append(format_, at, brace);
      if (brace == in.size()) break;
      if (brace + 1 < in.size() && in[brace + 1] == in[brace]) {
        out_.append(format_, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (in[brace] == '}') return fail_value("Single '}}' encountered in format string");
      const size_t end = in.find('}', brace);
      if (end == in.npos) return fail_value("expected '}}' before end of string");
      TANDEM_TRY(field(in.substr(brace + 1, end - brace - 1)));
      at = end + 1;
      if (out_.size() > budget_.limits().max_output_bytes) {
        return fail_value("writes more than {} bytes", budget_.limits().max_output_bytes);
      }
    }
    return std::move(out_);
  }

 private:
  Expected<Value> find(std::string_view name) {
    if (name.find_first_of(".[") != name.npos) {
      return fail_value("members and items in format fields are not supported");
    }
    size_t index = 0;
    if (name.empty()) {
      index = next_++;
    } else if (is_digit(name[0])) {
      TANDEM_ASSIGN(index, read_number(name, kMaxWidth));
    } else {
      const Value* named = arguments_.find_named(name);
      if (named == nullptr) return fail_value("KeyError: {}", quoted(name));
      return *named;
    }
    if (index >= arguments_.positional.size()) {
      return fail_value("Replacement index {} out of range for positional args tuple", index);
    }
    return arguments_.positional[index];
  }

  Expected<void> field(std::string_view field) {
    if (field.find('{') != field.npos) return fail_value("nested format fields are not supported");
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    char conversion = '\0';
    if (const size_t mark = name.find('!'); mark != name.npos) {
      if (mark + 2 != name.size()) return fail_value("bad conversion in a format string");
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    TANDEM_ASSIGN(Value value, find(name));
    TANDEM_ASSIGN(const Spec spec,
                  read_spec(colon < field.size() ? field.substr(colon + 1) : std::string_view()));
    bool is_number = false;
    if (conversion == '\0' && spec.type != 's' && !value.is_bool()) {
      TANDEM_ASSIGN(const MarkedText number, format_number(value, spec, is_number));
      if (is_number) {
        out_.append(number);
        return {};
      }
    }
    MarkedText text;
    if (conversion == 'r') {
      TANDEM_ASSIGN(std::string shown, repr(budget_, value));
      text = MarkedText(std::move(shown), has_untrusted(value));
    } else {
      TANDEM_ASSIGN(text, str(budget_, value));
    }
    if (spec.type != '\0' && spec.type != 's') {
      return fail_value(
          "Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
    }
    out_.append(padded(cut(text, spec.precision), spec, false));
    return {};
  }

  Budget& budget_;
  const MarkedText& format_;
  const Arguments& arguments_;
  size_t next_ = 0;
  MarkedText out_;
};

}  // namespace

Expected<Value> percent_format(Budget& budget, const MarkedText& format, const Value& value) {
  TANDEM_TRY(budget.step_bytes(format.size()));
  TANDEM_ASSIGN(MarkedText text, PercentFormatter(budget, format, value).run());
  return make_string(budget, std::move(text));
}

Expected<Value> brace_format(Budget& budget, const MarkedText& format, const Arguments& arguments) {
  TANDEM_TRY(budget.step_bytes(format.size()));
  TANDEM_ASSIGN(MarkedText text, BraceFormatter(budget, format, arguments).run());
  return make_string(budget, std::move(text));
}

}  // namespace tandem::text::jinja
