// Expressions.

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/deeper.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace tandem::text::jinja {

Expected<Value> Interpreter::evaluate(const Expr& expr, Scope& scope) {
  if (expr.kind == ExprKind::kConstant) return expr.value;
  if (expr.kind == ExprKind::kName) return evaluate_name(expr, scope);
  const Deeper deeper(depth_);
  TANDEM_TRY(deeper.check(budget_));
  TANDEM_TRY(budget_.step());
  return evaluate_kind(expr, scope);
}

Expected<Value> Interpreter::evaluate_kind(const Expr& expr, Scope& scope) {
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.value;
    case ExprKind::kName:
      return evaluate_name(expr, scope);
    case ExprKind::kConcat:
      return evaluate_concat(expr, scope);
    case ExprKind::kChain:
      return evaluate_chain(expr, scope);
    case ExprKind::kCompare:
      return evaluate_compare(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return evaluate_logic(expr, scope);
    case ExprKind::kNot:
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return evaluate_sign(expr, scope);
    case ExprKind::kCondition:
      return evaluate_condition(expr, scope);
    case ExprKind::kAttribute: {
      TANDEM_ASSIGN(const Value object, evaluate(*expr.parts[0], scope));
      return get_attribute(object, expr.value);
    }
    case ExprKind::kItem: {
      TANDEM_ASSIGN(const Value object, evaluate(*expr.parts[0], scope));
      TANDEM_ASSIGN(const Value key, evaluate(*expr.parts[1], scope));
      return get_item(object, key);
    }
    case ExprKind::kSlice:
      return evaluate_slice(expr, scope);
    case ExprKind::kCall:
      return evaluate_call(expr, scope);
    case ExprKind::kFilter:
      return evaluate_filter(expr, scope, nullptr);
    case ExprKind::kTest:
      return evaluate_test(expr, scope);
    case ExprKind::kList:
    case ExprKind::kTuple: {
      TANDEM_ASSIGN(std::vector<Value> items, evaluate_all(expr.parts, scope));
      const bool tuple = expr.kind == ExprKind::kTuple;
      return make_sequence(
          budget_, tuple ? SequenceKind::kTuple : SequenceKind::kList, std::move(items));
    }
    case ExprKind::kDict:
      return evaluate_dict(expr, scope);
  }
  return Value();
}

Expected<Value> Interpreter::evaluate_name(const Expr& expr, Scope& scope) {
  TANDEM_TRY(budget_.step());
  if (const Value* value = scope.find(expr.name)) return *value;
  if (const auto it = variables_.find(expr.name); it != variables_.end()) return it->second;
  if (find_function(expr.name) != nullptr) {
    Callable function;
    function.name = expr.name;
    TANDEM_ASSIGN(const Callable* made, make_callable(std::move(function)));
    // Once made, it is found like a variable.
    return variables_.emplace(expr.name, Value(made)).first->second;
  }
  return Value::undefined("'" + expr.name + "' is undefined");
}

Expected<Value> Interpreter::evaluate_concat(const Expr& expr, Scope& scope) {
  MarkedText text;
  for (const ExprPtr& part : expr.parts) {
    TANDEM_ASSIGN(const Value value, evaluate(*part, scope));
    TANDEM_TRY(budget_.step_bytes(value.text().size()));
    if (const String* string = value.string()) {
      text.append(string->text);
    } else {
      TANDEM_ASSIGN(const MarkedText shown, str(budget_, value));
      text.append(shown);
    }
    if (text.size() > budget_.limits().max_live_bytes) {
      return fail_value("needs more than {} bytes of memory", budget_.limits().max_live_bytes);
    }
  }
  return make_string(budget_, std::move(text));
}

Expected<Value> Interpreter::evaluate_chain(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(Value left, evaluate(*expr.parts[0], scope));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    TANDEM_ASSIGN(const Value right, evaluate(*expr.parts[i + 1], scope));
    TANDEM_ASSIGN(left, arithmetic(budget_, expr.operators[i], left, right));
  }
  return left;
}

Expected<Value> Interpreter::evaluate_compare(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(Value left, evaluate(*expr.parts[0], scope));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    TANDEM_ASSIGN(Value right, evaluate(*expr.parts[i + 1], scope));
    TANDEM_ASSIGN(const bool holds, compare(budget_, expr.operators[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

// The operand that decided.
Expected<Value> Interpreter::evaluate_logic(const Expr& expr, Scope& scope) {
  Value value;
  for (const ExprPtr& part : expr.parts) {
    TANDEM_ASSIGN(value, evaluate(*part, scope));
    if (is_true(value) == (expr.kind == ExprKind::kOr)) return value;
  }
  return value;
}

Expected<Value> Interpreter::evaluate_sign(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(const Value value, evaluate(*expr.parts[0], scope));
  if (expr.kind == ExprKind::kNot) return Value(!is_true(value));
  TANDEM_ASSIGN(Value negated, negative(value));
  if (expr.kind == ExprKind::kNegative) return negated;
  return value.is_bool() ? negative(negated) : Expected<Value>(value);  // +true is 1
}

Expected<Value> Interpreter::evaluate_condition(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(const Value test, evaluate(*expr.parts[1], scope));
  if (is_true(test)) return evaluate(*expr.parts[0], scope);
  if (expr.parts[2]) return evaluate(*expr.parts[2], scope);
  return Value::undefined(
      "the inline if-expression evaluated to false and no else section was defined.");
}

Expected<Value> Interpreter::evaluate_slice(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(const Value object, evaluate(*expr.parts[0], scope));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.parts[i + 1]) continue;
    TANDEM_ASSIGN(bounds[i], evaluate(*expr.parts[i + 1], scope));
  }
  if (object.undefined() != nullptr) return fail_value("{}", object.undefined()->message);
  const Sequence* sequence = object.sequence();
  const bool sliceable = object.string() != nullptr ||
                         (sequence != nullptr && (sequence->kind == SequenceKind::kList ||
                                                  sequence->kind == SequenceKind::kTuple ||
                                                  sequence->kind == SequenceKind::kRange));
  if (!sliceable) {  // Jinja2 swallows Python's TypeError
    return Value::undefined(fmt::format("{} object has no such slice", type_name(object)));
  }
  return slice(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Expected<Value> Interpreter::evaluate_filter(const Expr& expr,
                                             Scope& scope,
                                             const Value* block_input) {
  Value input;
  if (!expr.parts[0]) {
    if (block_input != nullptr) input = *block_input;
  } else if (block_input != nullptr && expr.parts[0]->kind == ExprKind::kFilter) {
    const Deeper deeper(depth_);
    TANDEM_TRY(deeper.check(budget_));
    TANDEM_ASSIGN(input, evaluate_filter(*expr.parts[0], scope, block_input));
  } else {
    TANDEM_ASSIGN(input, evaluate(*expr.parts[0], scope));
  }
  TANDEM_ASSIGN(const Arguments arguments, evaluate_arguments(expr.arguments, scope));
  return apply_filter(expr.name, input, arguments);
}

Expected<Value> Interpreter::evaluate_test(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(const Value input, evaluate(*expr.parts[0], scope));
  TANDEM_ASSIGN(const Arguments arguments, evaluate_arguments(expr.arguments, scope));
  TANDEM_ASSIGN(const bool holds, apply_test(expr.name, input, arguments));
  return Value(holds);
}

Expected<std::vector<Value>> Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs,
                                                       Scope& scope) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    TANDEM_ASSIGN(Value value, evaluate(*expr, scope));
    values.push_back(std::move(value));
  }
  return values;
}

Expected<Value> Interpreter::evaluate_dict(const Expr& expr, Scope& scope) {
  TANDEM_ASSIGN(std::vector<Value> parts, evaluate_all(expr.parts, scope));
  std::vector<Dict::Entry> entries;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    entries.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
  }
  return make_dict(budget_, std::move(entries));
}

Expected<std::vector<Value>> Interpreter::iterate(const Value& value) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    TANDEM_TRY(budget_.step(1 + sequence->items.size() / 8));
    const size_t first = sequence->kind == SequenceKind::kGenerator ? sequence->consumed : 0;
    items.assign(sequence->items.begin() + static_cast<std::ptrdiff_t>(first),
                 sequence->items.end());
    if (sequence->kind == SequenceKind::kGenerator) sequence->consumed = sequence->items.size();
  } else if (const Dict* dict = value.dict()) {
    TANDEM_TRY(budget_.step(1 + dict->entries.size() / 8));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const String* text = value.string()) {
    const std::string_view all = text->text.text();
    for (size_t at = 0; at < all.size();) {
      const size_t length = std::max<size_t>(1, utf8_sequence_length(all.substr(at, 4)));
      TANDEM_ASSIGN(Value character, make_string(budget_, text->text.slice(at, at + length)));
      items.push_back(std::move(character));
      at += length;
    }
  } else if (value.loop() != nullptr || value.callable() != nullptr || !value.is_undefined()) {
    return fail_value("'{}' object is not iterable", type_name(value));
  }
  return items;
}

Expected<Value> Interpreter::apply_filter(std::string_view name,
                                          const Value& input,
                                          const Arguments& rest) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) return fail_value("No filter named '{}'.", name);
  return filter(*this, input, rest);
}

Expected<bool> Interpreter::apply_test(std::string_view name,
                                       const Value& input,
                                       const Arguments& rest) {
  const Test test = find_test(name);
  if (test == nullptr) return fail_value("No test named '{}'.", name);
  return test(*this, input, rest);
}

}  // namespace tandem::text::jinja
