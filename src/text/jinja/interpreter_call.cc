// Calls, members and items.

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/deeper.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace tandem::text::jinja {
namespace {

// How Jinja2 names an object in its messages.
std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.name_space() != nullptr) return "jinja2.utils.Namespace object";
  return type_name(value) + " object";
}

Value unsafe_member(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format(
      "access to attribute {} of '{}' object is unsafe.", quoted(name), type_name(object)));
}

bool is_loop_method(const Value& object, std::string_view name) {
  return object.loop() != nullptr && (name == "cycle" || name == "changed");
}

// The position of an index in `length` items, counted from the end if negative; -1: outside.
int64_t position(Int index, size_t length) {
  const Int count = static_cast<Int>(length);
  if (index < 0) index += count;
  return index < 0 || index >= count ? -1 : static_cast<int64_t>(index);
}

}  // namespace

Value Interpreter::undefined_member(const Value& object, const Value& name) {
  if (name.string() != nullptr) {
    const std::string of = object_name(object);
    return Value::undefined(fmt::format("{} has no attribute {}", quoted(of), quoted(name.text())));
  }
  Int storage = 0;
  const Int* index = name.integer_or_bool(storage);
  return Value::undefined(fmt::format("{} has no element {}",
                                      object_name(object),
                                      index != nullptr ? int_text(*index) : type_name(name)));
}

// Methods and members, in Python's sense of attributes.
Expected<Value> Interpreter::attribute_or_undefined(const Value& object,
                                                    const Value& name,
                                                    bool& found) {
  const std::string_view text = name.text();
  found = true;
  if (Namespace* name_space = object.name_space()) {
    if (const Value* member = name_space->find(text)) return *member;
  }
  if (object.loop() != nullptr && !is_loop_method(object, text)) {
    TANDEM_ASSIGN(Value value, loop_attribute(*object.loop(), text));
    if (!value.is_undefined() || text == "previtem" || text == "nextitem") return value;
  }
  if (has_method(object, text) || is_loop_method(object, text)) {
    if (is_unsafe_method(object, text)) return unsafe_member(object, text);
    Callable method;
    method.kind = Callable::Kind::kMethod;
    method.name = text;
    method.receiver = object;
    TANDEM_ASSIGN(const Callable* made, make_callable(std::move(method)));
    return Value(made);
  }
  if (const Callable* callable = object.callable()) {
    if (callable->kind == Callable::Kind::kMacro && text == "name") return string(callable->name);
  }
  if (text.starts_with("__") && text.ends_with("__")) return unsafe_member(object, text);
  found = false;
  return Value();
}

Expected<Value> Interpreter::item_or_undefined(const Value& object, const Value& key, bool& found) {
  found = false;
  if (const Dict* dict = object.dict()) {
    TANDEM_TRY(budget_.step(1 + dict->entries.size() / 256));
    const Value* value = is_hashable(key) ? dict->find(key) : nullptr;
    found = value != nullptr;
    if (found) return *value;  // not ?: — g++ 12 with sanitizers takes its temporary for unset
    return Value();
  }
  Int storage = 0;
  const Int* index = key.integer_or_bool(storage);
  if (index == nullptr) return Value();
  if (const Sequence* sequence = object.sequence()) {
    const bool indexed = sequence->kind == SequenceKind::kList ||
                         sequence->kind == SequenceKind::kTuple ||
                         sequence->kind == SequenceKind::kRange;
    const int64_t at = indexed ? position(*index, sequence->items.size()) : -1;
    found = at >= 0;
    if (found) return sequence->items[static_cast<size_t>(at)];
    return Value();
  }
  if (const String* text = object.string()) {
    const int64_t at = position(*index, text->code_points);
    found = at >= 0;
    if (found) {
      const auto begin = static_cast<size_t>(at);
      return sub_string(budget_, *text, begin, begin + 1);
    }
  }
  return Value();
}

Expected<Value> Interpreter::get_attribute(const Value& object, const Value& name) {
  if (object.undefined() != nullptr) return fail_value("{}", object.undefined()->message);
  bool found = false;
  TANDEM_ASSIGN(Value value, attribute_or_undefined(object, name, found));
  if (found) return value;
  TANDEM_ASSIGN(value, item_or_undefined(object, name, found));
  return found ? value : undefined_member(object, name);
}

Expected<Value> Interpreter::get_item(const Value& object, const Value& key) {
  if (object.undefined() != nullptr) return fail_value("{}", object.undefined()->message);
  bool found = false;
  TANDEM_ASSIGN(Value value, item_or_undefined(object, key, found));
  if (found) return value;
  if (key.string() != nullptr) {
    TANDEM_ASSIGN(value, attribute_or_undefined(object, key, found));
    if (found) return value;
  }
  return undefined_member(object, key);
}

Expected<Value> Interpreter::evaluate_call(const Expr& expr, Scope& scope) {
  const Expr& callee = *expr.parts[0];
  TANDEM_ASSIGN(const Arguments arguments, evaluate_arguments(expr.arguments, scope));
  if (callee.kind == ExprKind::kAttribute) return call_attribute(callee, arguments, scope);
  TANDEM_ASSIGN(const Value function, evaluate(callee, scope));
  return call(function, arguments);
}

// object.name(…) without making a method object.
Expected<Value> Interpreter::call_attribute(const Expr& attribute,
                                            const Arguments& arguments,
                                            Scope& scope) {
  TANDEM_ASSIGN(const Value object, evaluate(*attribute.parts[0], scope));
  const std::string& name = attribute.name;
  if (is_loop_method(object, name)) return call_loop_method(*object.loop(), name, arguments);
  if (has_method(object, name) && !is_unsafe_method(object, name)) {
    return call_method(*this, object, name, arguments);
  }
  TANDEM_ASSIGN(const Value function, get_attribute(object, attribute.value));
  return call(function, arguments);
}

Expected<Arguments> Interpreter::evaluate_arguments(const ArgumentExprs& exprs, Scope& scope) {
  Arguments arguments;
  TANDEM_ASSIGN(arguments.positional, evaluate_all(exprs.positional, scope));
  for (const auto& [name, expr] : exprs.named) {
    TANDEM_ASSIGN(Value value, evaluate(*expr, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (exprs.star) {
    TANDEM_ASSIGN(const Value more, evaluate(*exprs.star, scope));
    TANDEM_ASSIGN(const std::vector<Value> items, iterate(more));
    arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
  }
  if (exprs.double_star) {
    TANDEM_ASSIGN(const Value more, evaluate(*exprs.double_star, scope));
    if (more.dict() == nullptr) return fail_value("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict()->entries) {
      if (key.string() == nullptr) return fail_value("keywords must be strings");
      arguments.named.emplace_back(key.text(), value);
    }
  }
  return arguments;
}

Expected<Value> Interpreter::call(const Value& callee, const Arguments& arguments) {
  TANDEM_TRY(budget_.step());
  if (callee.undefined() != nullptr) return fail_value("{}", callee.undefined()->message);
  if (callee.loop() != nullptr) return call_recursive_loop(*callee.loop(), arguments);
  const Callable* callable = callee.callable();
  if (callable == nullptr) return fail_value("'{}' object is not callable", type_name(callee));
  switch (callable->kind) {
    case Callable::Kind::kMacro:
      return call_macro(*callable, arguments);
    case Callable::Kind::kMethod:
      if (Loop* loop = callable->receiver.loop()) {
        return call_loop_method(*loop, callable->name, arguments);
      }
      return call_method(*this, callable->receiver, callable->name, arguments);
    case Callable::Kind::kFunction:
      break;
  }
  return find_function(callable->name)(*this, arguments);
}

Expected<Value> Interpreter::call_macro(const Callable& macro, const Arguments& arguments) {
  const Deeper deeper(depth_);
  TANDEM_TRY(deeper.check(budget_));
  auto scope = open_scope(*macro.scope);
  TANDEM_TRY(bind_parameters(*macro.macro, arguments, *scope));
  Output output;
  Output* const outer = std::exchange(output_, &output);
  auto flow = run_body(macro.macro->body, *scope);
  output_ = outer;
  close_scope(std::move(scope));
  budget_.release(output.taken_bytes);
  if (!flow) return fail(std::move(flow).error());
  return make_string(budget_, std::move(output.text));
}

Expected<void> Interpreter::bind_parameters(const Stmt& macro,
                                            const Arguments& arguments,
                                            Scope& scope) {
  const size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.takes_varargs) {
    return fail_value("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  std::vector<bool> used(arguments.named.size(), false);
  for (size_t i = 0; i < arguments.named.size(); ++i) {
    if (arguments.named[i].first != "caller") continue;
    scope.set("caller", arguments.named[i].second);
    used[i] = true;
  }
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(), [&](const auto& entry) {
          return entry.first == parameter.name;
        });
    if (i < arguments.positional.size()) {
      if (named != arguments.named.end()) {
        return fail_value(
            "macro '{}' got multiple values for argument '{}'", macro.name, parameter.name);
      }
      scope.set(parameter.name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      used[static_cast<size_t>(named - arguments.named.begin())] = true;
      scope.set(parameter.name, named->second);
    } else if (parameter.default_value) {
      TANDEM_ASSIGN(Value value, evaluate(*parameter.default_value, scope));
      scope.set(parameter.name, std::move(value));
    } else {
      scope.set(parameter.name,
                Value::undefined("parameter '" + parameter.name + "' was not provided"));
    }
  }
  std::vector<Dict::Entry> rest;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    if (!macro.takes_kwargs) {
      return fail_value(
          "macro '{}' takes no keyword argument '{}'", macro.name, arguments.named[i].first);
    }
    TANDEM_ASSIGN(Value key, string(arguments.named[i].first));
    rest.emplace_back(std::move(key), arguments.named[i].second);
  }
  if (macro.takes_kwargs) {
    TANDEM_ASSIGN(Value kwargs, make_dict(budget_, std::move(rest)));
    scope.set("kwargs", std::move(kwargs));
  }
  if (macro.takes_varargs) {
    std::vector<Value> more;
    for (size_t i = count; i < arguments.positional.size(); ++i) {
      more.push_back(arguments.positional[i]);
    }
    TANDEM_ASSIGN(Value varargs, make_sequence(budget_, SequenceKind::kTuple, std::move(more)));
    scope.set("varargs", std::move(varargs));
  }
  return {};
}

}  // namespace tandem::text::jinja
