#pragma once
// Cuts a template into tokens, as Jinja2 does with trim_blocks and lstrip_blocks on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::text::jinja {

enum class TokenKind {
  kText,           // outside of tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,   // text: unescaped
  kInteger,  // text: as written, without '_'
  kFloat,
  kOperator,  // text: the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;
};

// Errors: kInvalidArgument with the line: an unclosed tag, comment, string or bracket, a character
// that starts nothing.
Expected<std::vector<Token>> tokenize_template(std::string_view source);

}  // namespace tandem::text::jinja
