#pragma once
// Parses a template: statements here, expressions in expression_parser.h. The grammar is Jinja2
// 3.1's with loop controls and the `generation` tag; template inheritance, includes and autoescape
// are refused by name.

#include <string_view>

#include "base/error.h"
#include "text/jinja/ast.h"

namespace tandem::text::jinja {

// Errors: kInvalidArgument (syntax) or kUnsupported, with the line.
Expected<Body> parse_template(std::string_view source);

}  // namespace tandem::text::jinja
