#pragma once
// What a template can call, and with what.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace tandem::text::jinja {

struct Stmt;
struct Scope;

// Owned by the interpreter that made it.
struct Callable {
  enum class Kind { kFunction, kMethod, kMacro };
  Kind kind = Kind::kFunction;
  std::string name;
  Value receiver;               // kMethod
  const Stmt* macro = nullptr;  // kMacro: also a call block's caller()
  Scope* scope = nullptr;       // kMacro: where it was defined
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find_named(std::string_view name) const {
    for (const auto& [known, value] : named) {
      if (known == name) return &value;
    }
    return nullptr;
  }
};

// The arguments of `function` by the names of its parameters; null where one is left out.
// Errors: too many, one unknown, one given twice, one of the first `required` missing.
Expected<std::vector<const Value*>> bind_arguments(const Arguments& arguments,
                                                   std::string_view function,
                                                   std::initializer_list<std::string_view> names,
                                                   size_t required = 0);

// Values of bound arguments, with Python's complaint where the type is wrong.
Expected<Int> int_argument(const Value* value, Int if_missing, std::string_view what);
Expected<bool> bool_argument(const Value* value, bool if_missing);
// A string's marked text; an empty one if missing.
Expected<const MarkedText*> text_argument(const Value* value, std::string_view what);

}  // namespace tandem::text::jinja
