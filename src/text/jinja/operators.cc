#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/format.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_ops.h"

namespace tandem::text::jinja {
namespace {

const char* sign_of(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "** or pow()";
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    default:
      return "in";
  }
}

std::unexpected<Error> wrong_types(Operator op, const Value& a, const Value& b) {
  return fail_value(
      "unsupported operand type(s) for {}: '{}' and '{}'", sign_of(op), type_name(a), type_name(b));
}

std::unexpected<Error> too_large() { return fail_value("an integer has more than 128 bits"); }

Expected<Value> power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) return fail_value("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  if (base == 0 || base == 1) return Value(exponent == 0 ? Int{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? Int{1} : Int{-1});
  for (Int i = 0; i < exponent; ++i) {  // at most 127 rounds before it overflows
    if (__builtin_mul_overflow(result, base, &result)) return too_large();
  }
  return Value(result);
}

Expected<Value> integer_arithmetic(Operator op, Int a, Int b) {
  Int result = 0;
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Expected<Value>(too_large()) : Value(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Expected<Value>(too_large()) : Value(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Expected<Value>(too_large()) : Value(result);
    case Operator::kPower:
      return power(a, b);
    default:
      break;
  }
  if (b == 0) {
    return op == Operator::kDivide ? fail_value("division by zero")
                                   : fail_value("integer division or modulo by zero");
  }
  if (op == Operator::kDivide) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // the one quotient that can overflow
    if (op == Operator::kModulo) return Value(Int{0});
    return __builtin_sub_overflow(Int{0}, a, &result) ? Expected<Value>(too_large())
                                                      : Value(result);
  }
  // Python rounds down; the remainder has the divisor's sign.
  const Int remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Operator::kFloorDivide) return Value(a / b - (adjust ? 1 : 0));
  return Value(remainder + (adjust ? b : 0));
}

Expected<Value> float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSubtract:
      return Value(a - b);
    case Operator::kMultiply:
      return Value(a * b);
    case Operator::kPower: {
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
        return fail_value("a complex number is not supported");
      }
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        return a == 0 ? fail_value("0.0 cannot be raised to a negative power")
                      : fail_value("Numerical result out of range");
      }
      return Value(result);
    }
    default:
      break;
  }
  if (b == 0) {
    return op == Operator::kDivide ? fail_value("float division by zero")
                                   : fail_value("float floor division by zero");
  }
  if (op == Operator::kDivide) return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == Operator::kModulo) return Value(remainder == 0 ? std::copysign(0.0, b) : remainder);
  return Value(std::floor((a - remainder) / b + 0.5));
}

Expected<Value> add_sequences(Budget& budget, const Sequence& a, const Sequence& b) {
  TANDEM_TRY(budget.step_bytes((a.items.size() + b.items.size()) * sizeof(Value)));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return make_sequence(budget, a.kind, std::move(items));
}

// Strings and lists times an integer.
Expected<Value> repeat(Budget& budget, const Value& value, Int times) {
  times = std::max<Int>(times, 0);
  const String* string = value.string();
  const size_t unit =
      string != nullptr ? string->text.size() : value.sequence()->items.size() * sizeof(Value);
  if (unit != 0 && times > static_cast<Int>(budget.limits().max_live_bytes / unit)) {
    return fail_value("needs more than {} bytes of memory", budget.limits().max_live_bytes);
  }
  if (unit == 0) times = std::min<Int>(times, 1);
  TANDEM_TRY(budget.step_bytes(unit * static_cast<size_t>(times)));
  if (string != nullptr) {
    const MarkedText& one = string->text;
    const bool all_untrusted = one.untrusted() == std::vector<Range>{{0, one.size()}};
    if (all_untrusted || !one.any_untrusted()) {
      std::string text;
      const size_t total = unit * static_cast<size_t>(times);
      text.reserve(total);
      if (total > 0) text = one.text();
      while (text.size() < total) text.append(text, 0, std::min(text.size(), total - text.size()));
      return make_string(budget, MarkedText(std::move(text), all_untrusted));
    }
    TANDEM_TRY(budget.step(static_cast<uint64_t>(times)));
    MarkedText text;
    for (Int i = 0; i < times; ++i) text.append(one);
    return make_string(budget, std::move(text));
  }
  const Sequence& sequence = *value.sequence();
  std::vector<Value> items;
  for (Int i = 0; i < times; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return make_sequence(budget, sequence.kind, std::move(items));
}

bool is_list_or_tuple(const Sequence* sequence) {
  return sequence != nullptr &&
         (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple);
}

// As it stands beside text that is HTML already.
MarkedText html_form(const String& string) {
  return string.html_safe ? string.text : escape_html(string.text);
}

Expected<Value> add_others(Budget& budget, const Value& a, const Value& b) {
  if (a.string() != nullptr) {
    if (b.string() == nullptr) {
      return fail_value("can only concatenate str (not \"{}\") to str", type_name(b));
    }
    TANDEM_TRY(budget.step_bytes(a.text().size() + b.text().size()));
    const bool html_safe = a.string()->html_safe || b.string()->html_safe;
    MarkedText text = html_safe ? html_form(*a.string()) : a.string()->text;
    text.append(html_safe ? html_form(*b.string()) : b.string()->text);
    return make_string(budget, std::move(text), html_safe);
  }
  if (is_list_or_tuple(a.sequence())) {
    if (!is_list_or_tuple(b.sequence()) || a.sequence()->kind != b.sequence()->kind) {
      return fail_value(
          "can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
    }
    return add_sequences(budget, *a.sequence(), *b.sequence());
  }
  return wrong_types(Operator::kAdd, a, b);
}

Expected<int> order_sequences(Budget& budget, const Sequence& a, const Sequence& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    TANDEM_TRY(budget.step());
    if (equals(a.items[i], b.items[i])) continue;
    return order(budget, a.items[i], b.items[i]);
  }
  return a.items.size() == b.items.size() ? 0 : a.items.size() < b.items.size() ? -1 : 1;
}

std::optional<double> as_double(const Value& value) {
  Int storage = 0;
  if (const double* number = value.get<double>()) return *number;
  if (const Int* number = value.integer_or_bool(storage)) return static_cast<double>(*number);
  return std::nullopt;
}

// Python's adjustment of a slice bound to [low, high].
Int clamp_index(Int index, Int length, Int low, Int high) {
  if (index < 0) index += length;
  return std::clamp(index, low, high);
}

}  // namespace

Expected<Value> arithmetic(Budget& budget, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kModulo && a.string() != nullptr) {  // takes an undefined value too
    return percent_format(budget, a.string()->text, b);
  }
  for (const Value* operand : {&a, &b}) {
    if (operand->undefined() != nullptr) return fail_value("{}", operand->undefined()->message);
  }
  Int storage_a = 0;
  Int storage_b = 0;
  const Int* int_a = a.integer_or_bool(storage_a);
  const Int* int_b = b.integer_or_bool(storage_b);
  if (int_a != nullptr && int_b != nullptr) return integer_arithmetic(op, *int_a, *int_b);
  const auto float_a = as_double(a);
  const auto float_b = as_double(b);
  if (float_a && float_b) return float_arithmetic(op, *float_a, *float_b);
  if (op == Operator::kAdd) return add_others(budget, a, b);
  if (op == Operator::kMultiply) {
    const bool repeats_a = a.string() != nullptr || is_list_or_tuple(a.sequence());
    const bool repeats_b = b.string() != nullptr || is_list_or_tuple(b.sequence());
    if (repeats_a && int_b != nullptr) return repeat(budget, a, *int_b);
    if (repeats_b && int_a != nullptr) return repeat(budget, b, *int_a);
  }
  return wrong_types(op, a, b);
}

Expected<Value> negative(const Value& value) {
  if (value.undefined() != nullptr) return fail_value("{}", value.undefined()->message);
  Int storage = 0;
  if (const Int* number = value.integer_or_bool(storage)) {
    return integer_arithmetic(Operator::kSubtract, 0, *number);
  }
  if (const double* number = value.get<double>()) return Value(-*number);
  return fail_value("bad operand type for unary -: '{}'", type_name(value));
}

Expected<int> order(Budget& budget, const Value& a, const Value& b) {
  for (const Value* operand : {&a, &b}) {
    if (operand->undefined() != nullptr) return fail_value("{}", operand->undefined()->message);
  }
  Int storage_a = 0;
  Int storage_b = 0;
  const Int* int_a = a.integer_or_bool(storage_a);
  const Int* int_b = b.integer_or_bool(storage_b);
  if (int_a != nullptr && int_b != nullptr) return *int_a < *int_b ? -1 : *int_a > *int_b;
  const auto float_a = as_double(a);
  const auto float_b = as_double(b);
  if (float_a && float_b) return *float_a < *float_b ? -1 : *float_a > *float_b;
  if (a.string() != nullptr && b.string() != nullptr) {
    // The order of UTF-8 bytes is the order of code points.
    TANDEM_TRY(budget.step_bytes(std::min(a.text().size(), b.text().size())));
    const int result = a.text().compare(b.text());
    return result < 0 ? -1 : result > 0;
  }
  if (is_list_or_tuple(a.sequence()) && is_list_or_tuple(b.sequence()) &&
      a.sequence()->kind == b.sequence()->kind) {
    return order_sequences(budget, *a.sequence(), *b.sequence());
  }
  return fail_value(
      "'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b));
}

Expected<bool> contains(Budget& budget, const Value& container, const Value& item) {
  if (container.string() != nullptr) {
    if (item.undefined() != nullptr) return fail_value("{}", item.undefined()->message);
    if (item.string() == nullptr) {
      return fail_value("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    TANDEM_TRY(budget.step_bytes(container.text().size()));
    return container.text().find(item.text()) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (!is_hashable(item)) return fail_value("unhashable type: '{}'", type_name(item));
    TANDEM_TRY(budget.step(1 + dict->entries.size() / 64));
    return dict->find(item) != nullptr;
  }
  if (const Sequence* sequence = container.sequence()) {
    TANDEM_TRY(budget.step(sequence->weight / 8));
    const auto begin = sequence->items.begin() + static_cast<std::ptrdiff_t>(sequence->consumed);
    const auto found = std::find_if(
        begin, sequence->items.end(), [&](const Value& held) { return equals(held, item); });
    if (sequence->kind == SequenceKind::kGenerator) sequence->consumed = sequence->items.size();
    return found != sequence->items.end();
  }
  if (container.is_undefined()) return false;  // it is empty
  return fail_value("argument of type '{}' is not iterable", type_name(container));
}

Expected<bool> compare(Budget& budget, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
    case Operator::kNotEqual:
      TANDEM_TRY(budget.step(std::min(weight_of(a), weight_of(b))));
      return equals(a, b) == (op == Operator::kEqual);
    case Operator::kIn:
      return contains(budget, b, a);
    case Operator::kNotIn: {
      TANDEM_ASSIGN(const bool found, contains(budget, b, a));
      return !found;
    }
    default:
      break;
  }
  const auto nan = [](const Value& value) {
    const double* number = value.get<double>();
    return number != nullptr && std::isnan(*number);
  };
  if (nan(a) || nan(b)) return false;
  TANDEM_ASSIGN(const int result, order(budget, a, b));
  switch (op) {
    case Operator::kLess:
      return result < 0;
    case Operator::kLessEqual:
      return result <= 0;
    case Operator::kGreater:
      return result > 0;
    default:
      return result >= 0;
  }
}

size_t byte_of_code_point(const String& string, size_t index) {
  if (string.ascii()) return index;
  const std::string& text = string.text.text();
  if (index == string.code_points) return text.size();
  size_t at = 0;
  for (size_t count = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    if (count++ == index) break;
  }
  return at;
}

Expected<Value> sub_string(Budget& budget, const String& string, size_t begin, size_t end) {
  TANDEM_TRY(budget.step_bytes(string.ascii() ? end - begin : string.text.size()));
  const size_t first = byte_of_code_point(string, begin);
  const size_t last = byte_of_code_point(string, end);
  return make_string(budget, string.text.slice(first, last));
}

Expected<Value> slice(
    Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step) {
  const String* string = object.string();
  const Sequence* sequence = object.sequence();
  const auto bound = [&](const Value& value, Int if_missing) -> Expected<Int> {
    if (value.is_none()) return if_missing;
    Int storage = 0;
    if (const Int* number = value.integer_or_bool(storage)) {
      return std::clamp<Int>(*number, INT64_MIN, INT64_MAX);
    }
    return fail_value("slice indices must be integers or None");
  };
  TANDEM_ASSIGN(const Int by, bound(step, 1));
  if (by == 0) return fail_value("slice step cannot be zero");
  const Int length =
      static_cast<Int>(string != nullptr ? string->code_points : sequence->items.size());
  const Int low = by > 0 ? 0 : -1;
  const Int high = by > 0 ? length : length - 1;
  TANDEM_ASSIGN(const Int first_given, bound(start, by > 0 ? 0 : length));
  TANDEM_ASSIGN(const Int last_given, bound(stop, by > 0 ? length : -length - 1));
  const Int first = clamp_index(first_given, length, low, high);
  const Int last = clamp_index(last_given, length, low, high);
  if (string != nullptr && by == 1) {
    return sub_string(
        budget, *string, static_cast<size_t>(first), static_cast<size_t>(std::max(first, last)));
  }
  std::vector<size_t> chosen;
  for (Int i = first; by > 0 ? i < last : i > last; i += by) {
    chosen.push_back(static_cast<size_t>(i));
  }
  if (sequence != nullptr) {
    std::vector<Value> items;
    items.reserve(chosen.size());
    for (const size_t i : chosen) items.push_back(sequence->items[i]);
    return make_sequence(budget, sequence->kind, std::move(items));
  }
  std::vector<size_t> starts;  // byte of each code point, and the end
  const std::string& text = string->text.text();
  TANDEM_TRY(budget.step_bytes(text.size()));
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  }
  starts.push_back(text.size());
  MarkedText out;
  for (const size_t i : chosen) out.append(string->text, starts[i], starts[i + 1]);
  return make_string(budget, std::move(out));
}

}  // namespace tandem::text::jinja
