#pragma once
// The filters, tests, methods and functions that templates may use. Each is a plain function of the
// interpreter (for its budget and for calling back) and its arguments.

#include <optional>
#include <string_view>

#include "base/error.h"
#include "text/jinja/callable.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja {

class Interpreter;

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

using Filter = Expected<Value> (*)(Interpreter&, const Value& input, const Arguments&);
using Test = Expected<bool> (*)(Interpreter&, const Value& input, const Arguments&);
using Function = Expected<Value> (*)(Interpreter&, const Arguments&);

// Null if there is none of the name.
Filter find_filter(std::string_view name);
Filter find_text_filter(std::string_view name);      // filters_text.cc
Filter find_sequence_filter(std::string_view name);  // filters_sequence.cc
Filter find_choice_filter(std::string_view name);    // filters_choice.cc
Test find_test(std::string_view name);
Function find_function(std::string_view name);

// Whether values of this type have the method (or would, were it not for the sandbox).
bool has_method(const Value& receiver, std::string_view name);
// Methods that change their list or dict: Jinja2's immutable sandbox refuses them.
bool is_unsafe_method(const Value& receiver, std::string_view name);
// A call of a method that has_method() and is not unsafe.
Expected<Value> call_method(Interpreter& interpreter,
                            const Value& receiver,
                            std::string_view name,
                            const Arguments& arguments);
// The methods of strings, for call_method.
Expected<Value> call_string_method(Interpreter& interpreter,
                                   const String& receiver,
                                   std::string_view name,
                                   const Arguments& arguments);
bool has_string_method(std::string_view name);

}  // namespace tandem::text::jinja
