#pragma once
// Parses expressions, in the ranks that Jinja2 gives its operators. For parser.cc.

#include <initializer_list>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace tandem::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  // `a if b else c` is part of it only with `with_condition`.
  Expected<ExprPtr> parse_expression(bool with_condition = true);
  // One expression, or several with commas between: a tuple. `end_name`: the word at which it ends.
  Expected<ExprPtr> parse_tuple(bool with_condition, std::string_view end_name = {});
  // The filters of a filter block or block assignment: `name(…) | name(…)`, on a null operand.
  Expected<ExprPtr> parse_filter_chain();
  Expected<ExprPtr> parse_call_of(ExprPtr callee);
  Expected<ArgumentExprs> parse_arguments();

  // Within an `if`: an unknown filter or test is an error only where it is used.
  int soft_depth = 0;
  // How often the names `varargs` and `kwargs` have been read.
  int varargs_uses = 0;
  int kwargs_uses = 0;

 private:
  using Parse = Expected<ExprPtr> (ExpressionParser::*)();

  Expected<ExprPtr> parse_condition();
  Expected<ExprPtr> parse_or();
  Expected<ExprPtr> parse_and();
  Expected<ExprPtr> parse_not();
  Expected<ExprPtr> parse_compare();
  Expected<ExprPtr> parse_sum();
  Expected<ExprPtr> parse_concat();
  Expected<ExprPtr> parse_product();
  Expected<ExprPtr> parse_power();
  Expected<ExprPtr> parse_unary() { return parse_unary_with(true); }
  Expected<ExprPtr> parse_unary_with(bool with_filter);
  Expected<ExprPtr> parse_primary();
  Expected<ExprPtr> parse_number();
  Expected<ExprPtr> parse_parentheses();
  Expected<ExprPtr> parse_list();
  Expected<ExprPtr> parse_dict();
  Expected<ExprPtr> parse_postfix(ExprPtr node);
  Expected<ExprPtr> parse_filters(ExprPtr node);
  Expected<ExprPtr> parse_filter(ExprPtr node);
  Expected<ExprPtr> parse_test(ExprPtr node);
  Expected<ExprPtr> parse_subscript(ExprPtr node);
  Expected<ExprPtr> parse_subscribed(ExprPtr node);
  Expected<std::string> parse_dotted_name();

  Expected<ExprPtr> parse_words(ExprKind kind, std::string_view word, Parse operand);
  Expected<ExprPtr> parse_chain(std::initializer_list<std::pair<std::string_view, Operator>> table,
                                Parse operand);
  bool at_tuple_end(std::string_view end_name) const;

  ExprPtr make(ExprKind kind) const;
  Expected<ExprPtr> finish(ExprPtr node) const;

  TokenStream& stream_;
};

}  // namespace tandem::text::jinja
