// Filters on single values, and the table of all.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_ops.h"

namespace tandem::text::jinja {
namespace {

constexpr size_t kMaxIndent = 64;

Expected<Value> default_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "default", {"default_value", "boolean"}));
  TANDEM_ASSIGN(const bool boolean, bool_argument(bound[1], false));
  if (!input.is_undefined() && (!boolean || is_true(input))) return input;
  if (bound[0] != nullptr) return *bound[0];
  return in.string("");
}

// json.dumps, as transformers binds it: no HTML escapes.
Expected<Value> tojson(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(
      const auto bound,
      bind_arguments(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  TANDEM_ASSIGN(style.ensure_ascii, bool_argument(bound[0], false));
  TANDEM_ASSIGN(style.sort_keys, bool_argument(bound[3], false));
  MarkedText marks;  // of the style's own texts
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (bound[1]->string() != nullptr) {
      style.indent = bound[1]->text();
      marks.append(bound[1]->string()->text);
    } else {
      TANDEM_ASSIGN(const Int width, int_argument(bound[1], 0, "indent"));
      style.indent.assign(static_cast<size_t>(std::clamp<Int>(width, 0, kMaxIndent + 1)), ' ');
    }
    if (style.indent.size() > kMaxIndent) {
      return fail_value("an indent above {} is not supported", kMaxIndent);
    }
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    TANDEM_ASSIGN(const std::vector<Value> pair, in.iterate(*bound[2]));
    if (pair.size() != 2 || pair[0].string() == nullptr || pair[1].string() == nullptr) {
      return fail_value("separators must be two strings");
    }
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
    for (const Value& separator : pair) marks.append(separator.string()->text);
  }
  TANDEM_ASSIGN(std::string text, json_text(in.budget(), input, style));
  return in.string(MarkedText(std::move(text), has_untrusted(input) || marks.any_untrusted()));
}

Expected<Value> string_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "string", {}));
  if (input.string() != nullptr) return input;
  TANDEM_ASSIGN(MarkedText text, str(in.budget(), input));
  return in.string(std::move(text));
}

Expected<Value> safe(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "safe", {}));
  TANDEM_ASSIGN(MarkedText text, str(in.budget(), input));
  return make_string(in.budget(), std::move(text), /*html_safe=*/true);
}

Expected<Value> escape(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "escape", {}));
  if (input.string() != nullptr && input.string()->html_safe) return input;
  TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
  TANDEM_TRY(in.budget().step_bytes(text.size() * 4));
  return make_string(in.budget(), escape_html(text), /*html_safe=*/true);
}

// int(text, base): blanks around, a sign, single underscores between digits.
std::optional<Int> parse_int(std::string_view text, Int base) {
  const MarkedText stripped = strip(MarkedText(std::string(text), false), Side::kBoth, nullptr);
  std::string_view rest = stripped.text();
  const bool minus = rest.starts_with('-');
  if (minus || rest.starts_with('+')) rest.remove_prefix(1);
  const auto prefix = [&](char letter, Int of) {
    if (base == of && rest.size() > 2 && rest[0] == '0' && (rest[1] | 0x20) == letter) {
      rest.remove_prefix(2);
    }
  };
  prefix('x', 16);
  prefix('o', 8);
  prefix('b', 2);
  if (rest.empty() || rest.back() == '_' || rest.front() == '_') return std::nullopt;
  Int number = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '_' && rest[i - 1] != '_') continue;
    const Int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (digit >= base || __builtin_mul_overflow(number, base, &number) ||
        __builtin_add_overflow(number, digit, &number)) {
      return std::nullopt;
    }
  }
  return minus ? -number : number;
}

std::optional<double> parse_float(std::string_view text) {
  const MarkedText stripped = strip(MarkedText(std::string(text), false), Side::kBoth, nullptr);
  std::string_view rest = stripped.text();
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double number = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const bool all = end.ptr == rest.data() + rest.size() && !rest.empty();
  return all && end.ec == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<Int> int_of(double number) {
  if (!std::isfinite(number) || std::abs(number) > 1e38) return std::nullopt;
  return static_cast<Int>(number);
}

Expected<Value> int_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "int", {"default", "base"}));
  TANDEM_ASSIGN(const Int base, int_argument(bound[1], 10, "base"));
  if (base < 2 || base > 36) return fail_value("int() base must be >= 2 and <= 36");
  if (input.undefined() != nullptr) return fail_value("{}", input.undefined()->message);
  std::optional<Int> number;
  Int storage = 0;
  if (const Int* integer = input.integer_or_bool(storage)) {
    number = *integer;
  } else if (const double* real = input.get<double>()) {
    number = int_of(*real);
  } else if (input.string() != nullptr) {
    number = parse_int(input.text(), base);
    if (!number) {
      if (const auto parsed = parse_float(input.text())) number = int_of(*parsed);
    }
  }
  if (number) return Value(*number);
  return bound[0] != nullptr ? *bound[0] : Value(Int{0});
}

Expected<Value> float_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "float", {"default"}));
  if (input.undefined() != nullptr) return fail_value("{}", input.undefined()->message);
  Int storage = 0;
  if (const Int* integer = input.integer_or_bool(storage)) {
    return Value(static_cast<double>(*integer));
  }
  if (input.get<double>() != nullptr) return input;
  if (const auto real = parse_float(input.text())) return Value(*real);
  return bound[0] != nullptr ? *bound[0] : Value(0.0);
}

Expected<Value> abs_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "abs", {}));
  if (input.undefined() != nullptr) return fail_value("{}", input.undefined()->message);
  Int storage = 0;
  const Int* integer = input.integer_or_bool(storage);
  if (integer != nullptr) return *integer < 0 ? negative(input) : Expected<Value>(Value(*integer));
  if (const double* real = input.get<double>()) return Value(std::abs(*real));
  (void)in;
  return fail_value("bad operand type for abs(): '{}'", type_name(input));
}

Expected<Value> round_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "round", {"precision", "method"}));
  TANDEM_ASSIGN(const Int precision, int_argument(bound[0], 0, "precision"));
  TANDEM_ASSIGN(const MarkedText* method, text_argument(bound[1], "method"));
  if (input.undefined() != nullptr) return fail_value("{}", input.undefined()->message);
  if (precision < 0 || precision > 100) return fail_value("precision must be from 0 to 100");
  const std::string& name = method->text();
  if (!name.empty() && name != "common" && name != "ceil" && name != "floor") {
    return fail_value("method must be common, ceil or floor");
  }
  const bool common = name.empty() || name == "common";
  Int storage = 0;
  const Int* integer = input.integer_or_bool(storage);
  const double* real = input.get<double>();
  if (integer == nullptr && real == nullptr) {
    return fail_value("type {} doesn't define __round__ method", type_name(input));
  }
  if (integer != nullptr && common) return Value(*integer);
  const double number = real != nullptr ? *real : static_cast<double>(*integer);
  if (!std::isfinite(number)) return Value(number);
  if (common) {
    // printf rounds the exact value, half to even, as Python does.
    char buffer[512];
    const int size =
        std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), number);
    double rounded = 0;
    std::from_chars(buffer, buffer + size, rounded);
    return Value(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return Value((name == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale);
}

Expected<Value> length(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "length", {}));
  if (input.is_undefined()) return Value(Int{0});
  if (const String* string = input.string()) return Value(static_cast<Int>(string->code_points));
  if (const Dict* dict = input.dict()) return Value(static_cast<Int>(dict->entries.size()));
  const Sequence* sequence = input.sequence();
  if (sequence != nullptr && sequence->kind != SequenceKind::kGenerator) {
    return Value(static_cast<Int>(sequence->items.size()));
  }
  return fail_value("object of type '{}' has no len()", type_name(input));
}

Expected<Value> attr(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "attr", {"name"}, 1));
  TANDEM_TRY(text_argument(bound[0], "name"));
  if (input.dict() != nullptr && !has_method(input, bound[0]->text())) {
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", bound[0]->text()));
  }
  return in.get_attribute(input, *bound[0]);
}

Expected<Value> items(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "items", {}));
  std::vector<Value> out;
  if (input.dict() == nullptr && !input.is_undefined()) {
    return fail_value("Can only get item pairs from a mapping.");
  }
  if (input.dict() != nullptr) {
    for (const auto& [key, value] : input.dict()->entries) {
      TANDEM_ASSIGN(Value pair, make_sequence(in.budget(), SequenceKind::kTuple, {key, value}));
      out.push_back(std::move(pair));
    }
  }
  return make_sequence(in.budget(), SequenceKind::kGenerator, std::move(out));
}

}  // namespace

Filter find_filter(std::string_view name) {
  if (name == "default" || name == "d") return default_filter;
  if (name == "tojson") return tojson;
  if (name == "string") return string_filter;
  if (name == "safe") return safe;
  if (name == "escape" || name == "e" || name == "forceescape") return escape;
  if (name == "int") return int_filter;
  if (name == "float") return float_filter;
  if (name == "abs") return abs_filter;
  if (name == "round") return round_filter;
  if (name == "length" || name == "count") return length;
  if (name == "attr") return attr;
  if (name == "items") return items;
  if (const Filter filter = find_text_filter(name)) return filter;
  if (const Filter filter = find_sequence_filter(name)) return filter;
  return find_choice_filter(name);
}

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

}  // namespace tandem::text::jinja
