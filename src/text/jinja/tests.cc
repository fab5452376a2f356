// The tests: `value is name(arguments)`.

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace tandem::text::jinja {
namespace {

bool is_integer(const Value& value) { return value.get<Int>() != nullptr; }
bool is_float(const Value& value) { return value.get<double>() != nullptr; }
bool is_number(const Value& value) {
  return is_integer(value) || is_float(value) || value.is_bool();
}
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_string(const Value& value) { return value.string() != nullptr; }
bool is_callable(const Value& value) {
  return value.callable() != nullptr || value.loop() != nullptr || value.is_undefined();
}
bool is_iterable(const Value& value) {
  return value.string() != nullptr || value.sequence() != nullptr || value.dict() != nullptr ||
         value.is_undefined() || value.loop() != nullptr;
}
// Has a length and can be indexed.
bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.string() != nullptr || value.dict() != nullptr || value.is_undefined() ||
         (sequence != nullptr && sequence->kind != SequenceKind::kGenerator &&
          sequence->kind != SequenceKind::kKeys && sequence->kind != SequenceKind::kValues &&
          sequence->kind != SequenceKind::kItems);
}
bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true_value(const Value& value) { return value.is_bool() && *value.get<bool>(); }
bool is_false_value(const Value& value) { return value.is_bool() && !*value.get<bool>(); }
bool is_escaped(const Value&) { return false; }  // nothing is, without autoescape

template <bool (*holds)(const Value&)>
Expected<bool> plain(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "test", {}));
  return holds(input);
}

template <Operator op>
Expected<bool> compared(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "test", {"other"}, 1));
  return compare(in.budget(), op, input, *bound[0]);
}

Expected<bool> same_as(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "sameas", {"other"}, 1));
  const Value& other = *bound[0];
  // Of values that never change, the same kind and equal is as good as the same.
  if (type_name(input) != type_name(other)) return false;
  if (input.sequence() != nullptr) return input.sequence() == other.sequence();
  if (input.dict() != nullptr) return input.dict() == other.dict();
  return equals(input, other);
}

Expected<Int> remainder(Interpreter& in, const Value& input, Int by) {
  TANDEM_ASSIGN(const Value rest, arithmetic(in.budget(), Operator::kModulo, input, Value(by)));
  if (const double* real = rest.get<double>()) return *real == 0.0 ? 0 : *real == 1.0 ? 1 : 2;
  const Int* number = rest.get<Int>();
  if (number == nullptr) return fail_value("not all arguments converted");
  return *number;
}

template <Int wanted>
Expected<bool> parity(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "test", {}));
  TANDEM_ASSIGN(const Int rest, remainder(in, input, 2));
  return rest == wanted;
}

Expected<bool> divisible_by(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "divisibleby", {"num"}, 1));
  TANDEM_ASSIGN(const Int by, int_argument(bound[0], 1, "num"));
  TANDEM_ASSIGN(const Int rest, remainder(in, input, by));
  return rest == 0;
}

template <bool upper>
Expected<bool> cased(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "test", {}));
  TANDEM_ASSIGN(MarkedText text, str(in.budget(), input));
  TANDEM_ASSIGN(const Value as_string, in.string(std::move(text)));
  TANDEM_ASSIGN(
      const Value holds,
      call_string_method(in, *as_string.string(), upper ? "isupper" : "islower", arguments));
  return is_true(holds);
}

template <bool (*known)(std::string_view)>
Expected<bool> names(Interpreter&, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "test", {}));
  return known(input.text());
}

struct Entry {
  std::string_view name;
  Test test;
};

constexpr Entry kTests[] = {
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true_value>},
    {"false", plain<is_false_value>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"sameas", same_as},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible_by},
    {"lower", cased<false>},
    {"upper", cased<true>},
    {"filter", names<is_filter>},
    {"test", names<is_test>},
    {"eq", compared<Operator::kEqual>},
    {"equalto", compared<Operator::kEqual>},
    {"==", compared<Operator::kEqual>},
    {"ne", compared<Operator::kNotEqual>},
    {"!=", compared<Operator::kNotEqual>},
    {"lt", compared<Operator::kLess>},
    {"lessthan", compared<Operator::kLess>},
    {"<", compared<Operator::kLess>},
    {"le", compared<Operator::kLessEqual>},
    {"<=", compared<Operator::kLessEqual>},
    {"gt", compared<Operator::kGreater>},
    {"greaterthan", compared<Operator::kGreater>},
    {">", compared<Operator::kGreater>},
    {"ge", compared<Operator::kGreaterEqual>},
    {">=", compared<Operator::kGreaterEqual>},
    {"in", compared<Operator::kIn>},
};

}  // namespace

Test find_test(std::string_view name) {
  const auto* it = std::find_if(std::begin(kTests), std::end(kTests), [name](const Entry& entry) {
    return entry.name == name;
  });
  return it == std::end(kTests) ? nullptr : it->test;
}

bool is_test(std::string_view name) { return find_test(name) != nullptr; }

}  // namespace tandem::text::jinja
