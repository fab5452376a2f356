#include "text/jinja/python_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/callable.h"
#include "text/jinja/scope.h"
#include "text/unicode.h"

namespace tandem::text::jinja {
namespace {

// Namespaces can hold themselves; printing one stops here.
constexpr int kMaxPrintDepth = kMaxValueDepth + 32;

void append_escape(std::string& out, char32_t c) {
  if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
}

class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  Expected<void> print(const Value& value, int depth) {
    TANDEM_TRY(budget_.step());
    if (depth > kMaxPrintDepth) return fail_value("maximum recursion depth exceeded");
    if (out.size() > budget_.limits().max_output_bytes) {
      return fail_value("writes more than {} bytes", budget_.limits().max_output_bytes);
    }
    if (const String* string = value.string()) {
      TANDEM_TRY(budget_.step_bytes(string->text.size()));
      out += quoted(string->text.text());
    } else if (const Sequence* sequence = value.sequence()) {
      return print_sequence(value, *sequence, depth);
    } else if (const Dict* dict = value.dict()) {
      out += '{';
      TANDEM_TRY(print_entries(dict->entries, depth));
      out += '}';
    } else if (const Namespace* name_space = value.name_space()) {
      out += "<Namespace {";
      bool first = true;
      for (const auto& [name, member] : name_space->members) {
        out += (first ? "" : ", ") + quoted(name) + ": ";
        first = false;
        TANDEM_TRY(print(member, depth + 1));
      }
      out += "}>";
    } else {
      print_simple(value);
    }
    return {};
  }

  std::string out;

 private:
  void print_simple(const Value& value) {
    if (value.is_undefined()) {
      out += "Undefined";
    } else if (const bool* flag = value.get<bool>()) {
      out += *flag ? "True" : "False";
    } else if (const Int* number = value.get<Int>()) {
      out += int_text(*number);
    } else if (const double* real = value.get<double>()) {
      out += float_text(*real);
    } else if (const Loop* loop = value.loop()) {
      out += fmt::format("<LoopContext {}/{}>", loop->index0 + 1, loop->length);
    } else if (const Callable* callable = value.callable()) {
      out += callable->kind == Callable::Kind::kMacro ? "<Macro '" + callable->name + "'>"
                                                      : "<function " + callable->name + ">";
    } else {
      out += "None";
    }
  }

  Expected<void> print_entries(const std::vector<Dict::Entry>& entries, int depth) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += ", ";
      TANDEM_TRY(print(entries[i].first, depth + 1));
      out += ": ";
      TANDEM_TRY(print(entries[i].second, depth + 1));
    }
    return {};
  }

  Expected<void> print_sequence(const Value& value, const Sequence& sequence, int depth) {
    const SequenceKind kind = sequence.kind;
    const auto& items = sequence.items;
    if (kind == SequenceKind::kGenerator) {
      out += "<generator object>";
      return {};
    }
    const bool view = kind == SequenceKind::kKeys || kind == SequenceKind::kValues ||
                      kind == SequenceKind::kItems;
    const bool tuple = kind == SequenceKind::kTuple;
    if (view) out += type_name(value) + "(";
    out += tuple ? '(' : '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ", ";
      TANDEM_TRY(print(items[i], depth + 1));
    }
    if (tuple && items.size() == 1) out += ',';
    out += tuple ? ')' : ']';
    if (view) out += ')';
    return {};
  }

  Budget& budget_;
};

class JsonPrinter {
 public:
  JsonPrinter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  Expected<void> print(const Value& value, int depth) {
    TANDEM_TRY(budget_.step());
    if (out.size() > budget_.limits().max_output_bytes) {
      return fail_value("writes more than {} bytes", budget_.limits().max_output_bytes);
    }
    if (const String* string = value.string()) return print_string(string->text.text());
    if (const Dict* dict = value.dict()) return print_dict(*dict, depth);
    if (const Sequence* sequence = value.sequence()) {
      const bool list = sequence->kind == SequenceKind::kList;
      if (list || sequence->kind == SequenceKind::kTuple) return print_list(*sequence, depth);
    }
    if (value.is_none()) {
      out += "null";
    } else if (const bool* flag = value.get<bool>()) {
      out += *flag ? "true" : "false";
    } else if (const Int* number = value.get<Int>()) {
      out += int_text(*number);
    } else if (const double* real = value.get<double>()) {
      out += json_float(*real);
    } else {
      return fail_value("Object of type {} is not JSON serializable", type_name(value));
    }
    return {};
  }

  std::string out;

 private:
  static std::string json_float(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_text(number);
  }

  void new_line(int depth) {
    if (!style_.has_indent) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += style_.indent;
  }

  Expected<void> print_list(const Sequence& sequence, int depth) {
    out += '[';
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(depth + 1);
      TANDEM_TRY(print(sequence.items[i], depth + 1));
    }
    if (!sequence.items.empty()) new_line(depth);
    out += ']';
    return {};
  }

  Expected<void> print_dict(const Dict& dict, int depth) {
    std::vector<const Dict::Entry*> entries;
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) TANDEM_TRY(sort(entries));
    out += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(depth + 1);
      TANDEM_TRY(print_key(entries[i]->first));
      out += style_.key_separator;
      TANDEM_TRY(print(entries[i]->second, depth + 1));
    }
    if (!entries.empty()) new_line(depth);
    out += '}';
    return {};
  }

  static Expected<void> sort(std::vector<const Dict::Entry*>& entries) {
    for (const auto* entry : entries) {
      if (entry->first.string() == nullptr) {
        return fail_value("sort_keys with a key of type {}", type_name(entry->first));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
      return a->first.text() < b->first.text();
    });
    return {};
  }

  // Keys are strings; numbers, bools and None are written as JSON in quotes.
  Expected<void> print_key(const Value& key) {
    if (key.string() != nullptr) return print_string(key.text());
    if (key.sequence() != nullptr || key.dict() != nullptr || key.is_undefined()) {
      return fail_value("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    out += '"';
    TANDEM_TRY(print(key, 0));
    out += '"';
    return {};
  }

  Expected<void> print_string(std::string_view text) {
    TANDEM_TRY(budget_.step_bytes(text.size()));
    out += '"';
    while (!text.empty()) {
      const char c = text[0];
      constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
      constexpr std::string_view kTo = "\"\\nrtfb";
      const size_t simple = kFrom.find(c);
      if (simple != kFrom.npos) {
        out += '\\';
        out += kTo[simple];
        text.remove_prefix(1);
        continue;
      }
      const CodePoint point = utf8_decode(text);
      const size_t length = std::max<size_t>(1, point.length);
      if (point.value < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point.value));
      } else if (style_.ensure_ascii && point.value > 0x7E) {
        print_ascii(point.value);
      } else {
        out += text.substr(0, length);
      }
      text.remove_prefix(length);
    }
    out += '"';
    return {};
  }

  void print_ascii(char32_t c) {
    if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {  // UTF-16's pair
      const auto above = static_cast<uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
    }
  }

  Budget& budget_;
  const JsonStyle& style_;
};

}  // namespace

std::string int_text(Int number) {
  if (number == 0) return "0";
  const bool negative = number < 0;
  auto rest =
      negative ? -static_cast<unsigned __int128>(number) : static_cast<unsigned __int128>(number);
  std::string digits;
  for (; rest != 0; rest /= 10) digits += static_cast<char>('0' + static_cast<int>(rest % 10));
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  std::string out;
  if (text[0] == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  const bool negative_exponent = text[e + 1] == '-';
  std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
  if (negative_exponent) exponent = -exponent;
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {  // where repr() turns to exponents
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  const auto zeros = [](int how_many) { return std::string(static_cast<size_t>(how_many), '0'); };
  if (exponent < 0) return out + "0." + zeros(-exponent - 1) + digits;
  if (count <= exponent + 1) return out + digits + zeros(exponent + 1 - count) + ".0";
  const size_t point = static_cast<size_t>(exponent) + 1;
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

std::string quoted(std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    const CodePoint c = utf8_decode(text);
    const size_t length = std::max<size_t>(1, c.length);
    if (c.value == static_cast<unsigned char>(quote) || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (!is_printable(c.value)) {
      append_escape(out, c.value);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out + quote;
}

Expected<MarkedText> str(Budget& budget, const Value& value) {
  if (const String* string = value.string()) return string->text;
  if (value.is_undefined()) return MarkedText();
  TANDEM_ASSIGN(std::string text, repr(budget, value));
  return MarkedText(std::move(text), has_untrusted(value) || value.name_space() != nullptr);
}

Expected<std::string> repr(Budget& budget, const Value& value) {
  Printer printer(budget);
  TANDEM_TRY(printer.print(value, 0));
  return std::move(printer.out);
}

Expected<std::string> json_text(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(budget, style);
  TANDEM_TRY(printer.print(value, 0));
  return std::move(printer.out);
}

}  // namespace tandem::text::jinja
