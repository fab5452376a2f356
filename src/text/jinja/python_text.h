#pragma once
// How Python writes values: str(), repr(), numbers, json.dumps.

#include <string>
#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja {

std::string int_text(Int number);
// repr(float): the shortest digits that read back as the same number.
std::string float_text(double number);
// repr(str).
std::string quoted(std::string_view text);

// str(value). Marks of a string stay; the text of a list or dict is untrusted as a whole if any of
// it is. Errors: the budget's.
Expected<MarkedText> str(Budget& budget, const Value& value);
// repr(value), without marks (see has_untrusted).
Expected<std::string> repr(Budget& budget, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent;  // one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// json.dumps(value). Errors: what JSON has no form for.
Expected<std::string> json_text(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace tandem::text::jinja
