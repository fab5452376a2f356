#pragma once
// Python's operators on values, and what follows from its order and indexing.

#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja {

// + - * / // % **. Errors: wrong types (Python's words), division by zero, an integer above 128
// bits, the budget's.
Expected<Value> arithmetic(Budget& budget, Operator op, const Value& a, const Value& b);
Expected<Value> negative(const Value& value);

// == != < <= > >= in, not in.
Expected<bool> compare(Budget& budget, Operator op, const Value& a, const Value& b);
// Below, equal, above: -1, 0, 1. Errors: types without an order between them.
Expected<int> order(Budget& budget, const Value& a, const Value& b);
// `item in container`.
Expected<bool> contains(Budget& budget, const Value& container, const Value& item);

// The byte at which code point `index` of the string starts (index <= code_points).
size_t byte_of_code_point(const String& string, size_t index);
// Characters [begin, end) of a string.
Expected<Value> sub_string(Budget& budget, const String& string, size_t begin, size_t end);

// object[start:stop:step] of a string or a list; null or None: left out.
Expected<Value> slice(
    Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace tandem::text::jinja
