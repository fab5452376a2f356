#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/jinja/builtins.h"

namespace tandem::text::jinja {
namespace {

// Of one expression's tree. Evaluation recurses over it.
constexpr int kMaxExpressionDepth = 160;

constexpr Int kIntMax = static_cast<Int>(~static_cast<unsigned __int128>(0) >> 1);

}  // namespace

ExprPtr ExpressionParser::make(ExprKind kind) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = stream_.line();
  return node;
}

Expected<ExprPtr> ExpressionParser::finish(ExprPtr node) const {
  const auto add = [&](const ExprPtr& part) {
    if (part) node->depth = std::max(node->depth, part->depth + 1);
  };
  for (const ExprPtr& part : node->parts) add(part);
  for (const ExprPtr& part : node->arguments.positional) add(part);
  for (const auto& [name, part] : node->arguments.named) add(part);
  add(node->arguments.star);
  add(node->arguments.double_star);
  if (node->depth > kMaxExpressionDepth) return stream_.error("the expression is nested too deep");
  return node;
}

Expected<ExprPtr> ExpressionParser::parse_expression(bool with_condition) {
  const TokenStream::Nested nested(stream_);
  TANDEM_TRY(nested.check());
  return with_condition ? parse_condition() : parse_or();
}

Expected<ExprPtr> ExpressionParser::parse_condition() {
  TANDEM_ASSIGN(ExprPtr node, parse_or());
  while (stream_.skip_if_name("if")) {
    ExprPtr condition = make(ExprKind::kCondition);
    TANDEM_ASSIGN(ExprPtr test, parse_or());
    ExprPtr otherwise;
    if (stream_.skip_if_name("else")) {
      TANDEM_ASSIGN(otherwise, parse_expression());
    }
    condition->parts.push_back(std::move(node));
    condition->parts.push_back(std::move(test));
    condition->parts.push_back(std::move(otherwise));
    TANDEM_ASSIGN(node, finish(std::move(condition)));
  }
  return node;
}

Expected<ExprPtr> ExpressionParser::parse_words(ExprKind kind,
                                                std::string_view word,
                                                Parse operand) {
  TANDEM_ASSIGN(ExprPtr first, (this->*operand)());
  if (!stream_.is_name(word)) return first;
  ExprPtr node = make(kind);
  node->parts.push_back(std::move(first));
  while (stream_.skip_if_name(word)) {
    TANDEM_ASSIGN(ExprPtr part, (this->*operand)());
    node->parts.push_back(std::move(part));
  }
  return finish(std::move(node));
}

Expected<ExprPtr> ExpressionParser::parse_or() {
  return parse_words(ExprKind::kOr, "or", &ExpressionParser::parse_and);
}

Expected<ExprPtr> ExpressionParser::parse_and() {
  return parse_words(ExprKind::kAnd, "and", &ExpressionParser::parse_not);
}

Expected<ExprPtr> ExpressionParser::parse_not() {
  if (!stream_.is_name("not")) return parse_compare();
  const TokenStream::Nested nested(stream_);
  TANDEM_TRY(nested.check());
  ExprPtr node = make(ExprKind::kNot);
  stream_.skip();
  TANDEM_ASSIGN(ExprPtr part, parse_not());
  node->parts.push_back(std::move(part));
  return finish(std::move(node));
}

Expected<ExprPtr> ExpressionParser::parse_compare() {
  constexpr std::pair<std::string_view, Operator> kOperators[] = {{"==", Operator::kEqual},
                                                                  {"!=", Operator::kNotEqual},
                                                                  {"<", Operator::kLess},
                                                                  {"<=", Operator::kLessEqual},
                                                                  {">", Operator::kGreater},
                                                                  {">=", Operator::kGreaterEqual}};
  TANDEM_ASSIGN(ExprPtr first, parse_sum());
  ExprPtr node = make(ExprKind::kCompare);
  while (true) {
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators), [&](auto& op) {
      return stream_.is_operator(op.first);
    });
    if (found != std::end(kOperators)) {
      node->operators.push_back(found->second);
    } else if (stream_.is_name("in")) {
      node->operators.push_back(Operator::kIn);
    } else if (stream_.is_name("not") && stream_.next().kind == TokenKind::kName &&
               stream_.next().text == "in") {
      node->operators.push_back(Operator::kNotIn);
      stream_.skip();
    } else {
      break;
    }
    stream_.skip();
    TANDEM_ASSIGN(ExprPtr part, parse_sum());
    node->parts.push_back(std::move(part));
  }
  if (node->operators.empty()) return first;
  node->parts.insert(node->parts.begin(), std::move(first));
  return finish(std::move(node));
}

Expected<ExprPtr> ExpressionParser::parse_chain(
    std::initializer_list<std::pair<std::string_view, Operator>> table, Parse operand) {
  TANDEM_ASSIGN(ExprPtr first, (this->*operand)());
  ExprPtr node = make(ExprKind::kChain);
  while (true) {
    const auto* found = std::find_if(
        table.begin(), table.end(), [&](auto& entry) { return stream_.is_operator(entry.first); });
    if (found == table.end()) break;
    node->operators.push_back(found->second);
    stream_.skip();
    TANDEM_ASSIGN(ExprPtr part, (this->*operand)());
    node->parts.push_back(std::move(part));
  }
  if (node->operators.empty()) return first;
  node->parts.insert(node->parts.begin(), std::move(first));
  return finish(std::move(node));
}

Expected<ExprPtr> ExpressionParser::parse_sum() {
  return parse_chain({{"+", Operator::kAdd}, {"-", Operator::kSubtract}},
                     &ExpressionParser::parse_concat);
}

Expected<ExprPtr> ExpressionParser::parse_concat() {
  TANDEM_ASSIGN(ExprPtr first, parse_product());
  if (!stream_.is_operator("~")) return first;
  ExprPtr node = make(ExprKind::kConcat);
  node->parts.push_back(std::move(first));
  while (stream_.skip_if_operator("~")) {
    TANDEM_ASSIGN(ExprPtr part, parse_product());
    node->parts.push_back(std::move(part));
  }
  return finish(std::move(node));
}

Expected<ExprPtr> ExpressionParser::parse_product() {
  return parse_chain({{"*", Operator::kMultiply},
                      {"/", Operator::kDivide},
                      {"//", Operator::kFloorDivide},
                      {"%", Operator::kModulo}},
                     &ExpressionParser::parse_power);
}

Expected<ExprPtr> ExpressionParser::parse_power() {
  return parse_chain({{"**", Operator::kPower}}, &ExpressionParser::parse_unary);
}

Expected<ExprPtr> ExpressionParser::parse_unary_with(bool with_filter) {
  const TokenStream::Nested nested(stream_);
  TANDEM_TRY(nested.check());
  ExprPtr node;
  if (stream_.is_operator("-") || stream_.is_operator("+")) {
    node = make(stream_.is_operator("-") ? ExprKind::kNegative : ExprKind::kPositive);
    stream_.skip();
    TANDEM_ASSIGN(ExprPtr part, parse_unary_with(false));
    node->parts.push_back(std::move(part));
    TANDEM_ASSIGN(node, finish(std::move(node)));
  } else {
    TANDEM_ASSIGN(node, parse_primary());
  }
  TANDEM_ASSIGN(node, parse_postfix(std::move(node)));
  return with_filter ? parse_filters(std::move(node)) : std::move(node);
}

Expected<ExprPtr> ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  ExprPtr node = make(ExprKind::kConstant);
  switch (token.kind) {
    case TokenKind::kName:
      if (token.text == "true" || token.text == "True") {
        node->value = Value(true);
      } else if (token.text == "false" || token.text == "False") {
        node->value = Value(false);
      } else if (token.text != "none" && token.text != "None") {
        node->kind = ExprKind::kName;
        node->name = token.text;
        varargs_uses += node->name == "varargs";
        kwargs_uses += node->name == "kwargs";
      }
      stream_.skip();
      return node;
    case TokenKind::kString: {
      std::string text;
      for (; stream_.is(TokenKind::kString); stream_.skip()) text += stream_.current().text;
      node->value = constant_string(std::move(text));
      return node;
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    case TokenKind::kOperator:
      if (token.text == "(") return parse_parentheses();
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      break;
    default:
      break;
  }
  return stream_.error("unexpected " + stream_.describe());
}

Expected<ExprPtr> ExpressionParser::parse_number() {
  ExprPtr node = make(ExprKind::kConstant);
  const std::string& text = stream_.current().text;
  if (stream_.is(TokenKind::kFloat)) {
    double number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end.ec != std::errc()) {  // too large or too small; Python has inf and 0
      const size_t exponent = text.find('e');
      const bool small = exponent != text.npos && text[exponent + 1] == '-';
      number = small ? 0.0 : std::numeric_limits<double>::infinity();
    }
    node->value = Value(number);
    stream_.skip();
    return node;
  }
  Int number = 0;
  Int base = 10;
  size_t first = 0;
  if (text.size() > 1 && text[0] == '0' && (text[1] | 0x20) >= 'a') {
    base = (text[1] | 0x20) == 'x' ? 16 : (text[1] | 0x20) == 'o' ? 8 : 2;
    first = 2;
  }
  for (size_t i = first; i < text.size(); ++i) {
    const Int digit = text[i] <= '9' ? text[i] - '0' : (text[i] | 0x20) - 'a' + 10;
    if (digit >= base || number > (kIntMax - digit) / base) {
      return stream_.error("the number " + text.substr(0, 64) + " is too large");
    }
    number = number * base + digit;
  }
  node->value = Value(number);
  stream_.skip();
  return node;
}

Expected<ExprPtr> ExpressionParser::parse_parentheses() {
  ExprPtr tuple = make(ExprKind::kTuple);
  stream_.skip();
  if (stream_.skip_if_operator(")")) return tuple;
  TANDEM_ASSIGN(ExprPtr node, parse_tuple(true));
  TANDEM_TRY(stream_.expect_operator(")"));
  return node;
}

Expected<ExprPtr> ExpressionParser::parse_list() {
  ExprPtr node = make(ExprKind::kList);
  stream_.skip();
  while (!stream_.is_operator("]")) {
    if (!node->parts.empty()) TANDEM_TRY(stream_.expect_operator(","));
    if (stream_.is_operator("]")) break;
    TANDEM_ASSIGN(ExprPtr part, parse_expression());
    node->parts.push_back(std::move(part));
  }
  stream_.skip();
  return finish(std::move(node));
}

Expected<ExprPtr> ExpressionParser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict);
  stream_.skip();
  while (!stream_.is_operator("}")) {
    if (!node->parts.empty()) TANDEM_TRY(stream_.expect_operator(","));
    if (stream_.is_operator("}")) break;
    TANDEM_ASSIGN(ExprPtr key, parse_expression());
    TANDEM_TRY(stream_.expect_operator(":"));
    TANDEM_ASSIGN(ExprPtr value, parse_expression());
    node->parts.push_back(std::move(key));
    node->parts.push_back(std::move(value));
  }
  stream_.skip();
  return finish(std::move(node));
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
  return stream_.is(TokenKind::kVariableEnd) || stream_.is(TokenKind::kBlockEnd) ||
         stream_.is(TokenKind::kEnd) || stream_.is_operator(")") ||
         (!end_name.empty() && stream_.is_name(end_name));
}

Expected<ExprPtr> ExpressionParser::parse_tuple(bool with_condition, std::string_view end_name) {
  ExprPtr tuple = make(ExprKind::kTuple);
  bool has_comma = false;
  while (!at_tuple_end(end_name)) {
    TANDEM_ASSIGN(ExprPtr part, parse_expression(with_condition));
    tuple->parts.push_back(std::move(part));
    if (!stream_.skip_if_operator(",")) break;
    has_comma = true;
  }
  if (tuple->parts.empty())
    return stream_.error("expected an expression, got " + stream_.describe());
  if (!has_comma) return std::move(tuple->parts[0]);
  return finish(std::move(tuple));
}

Expected<ExprPtr> ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (stream_.is_operator(".") || stream_.is_operator("[")) {
      TANDEM_ASSIGN(node, parse_subscript(std::move(node)));
    } else if (stream_.is_operator("(")) {
      TANDEM_ASSIGN(node, parse_call_of(std::move(node)));
    } else {
      return node;
    }
  }
}

Expected<ExprPtr> ExpressionParser::parse_filters(ExprPtr node) {
  while (true) {
    if (stream_.skip_if_operator("|")) {
      TANDEM_ASSIGN(node, parse_filter(std::move(node)));
    } else if (stream_.skip_if_name("is")) {
      TANDEM_ASSIGN(node, parse_test(std::move(node)));
    } else if (stream_.is_operator("(")) {
      TANDEM_ASSIGN(node, parse_call_of(std::move(node)));
    } else {
      return node;
    }
  }
}

Expected<ExprPtr> ExpressionParser::parse_filter_chain() {
  TANDEM_ASSIGN(ExprPtr node, parse_filter(nullptr));
  while (stream_.skip_if_operator("|")) {
    TANDEM_ASSIGN(node, parse_filter(std::move(node)));
  }
  return node;
}

Expected<std::string> ExpressionParser::parse_dotted_name() {
  TANDEM_ASSIGN(std::string name, stream_.expect_name());
  while (stream_.skip_if_operator(".")) {
    TANDEM_ASSIGN(const std::string part, stream_.expect_name());
    name += "." + part;
  }
  return name;
}

Expected<ExprPtr> ExpressionParser::parse_filter(ExprPtr node) {
  ExprPtr filter = make(ExprKind::kFilter);
  TANDEM_ASSIGN(filter->name, parse_dotted_name());
  if (soft_depth == 0 && !is_filter(filter->name)) {
    return stream_.error("No filter named '" + filter->name + "'.");
  }
  if (stream_.is_operator("(")) {
    TANDEM_ASSIGN(filter->arguments, parse_arguments());
  }
  filter->parts.push_back(std::move(node));
  return finish(std::move(filter));
}

Expected<ExprPtr> ExpressionParser::parse_test(ExprPtr node) {
  ExprPtr negation = make(ExprKind::kNot);
  const bool negated = stream_.skip_if_name("not");
  ExprPtr test = make(ExprKind::kTest);
  TANDEM_ASSIGN(test->name, parse_dotted_name());
  if (soft_depth == 0 && !is_test(test->name)) {
    return stream_.error("No test named '" + test->name + "'.");
  }
  const TokenKind kind = stream_.current().kind;
  const bool operand = kind == TokenKind::kName || kind == TokenKind::kString ||
                       kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
                       stream_.is_operator("[") || stream_.is_operator("{");
  if (stream_.is_operator("(")) {
    TANDEM_ASSIGN(test->arguments, parse_arguments());
  } else if (operand && !stream_.is_name("else") && !stream_.is_name("or") &&
             !stream_.is_name("and")) {
    if (stream_.is_name("is")) return stream_.error("You cannot chain multiple tests with is");
    TANDEM_ASSIGN(ExprPtr argument, parse_primary());
    TANDEM_ASSIGN(argument, parse_postfix(std::move(argument)));
    test->arguments.positional.push_back(std::move(argument));
  }
  test->parts.push_back(std::move(node));
  TANDEM_ASSIGN(ExprPtr out, finish(std::move(test)));
  if (!negated) return out;
  negation->parts.push_back(std::move(out));
  return finish(std::move(negation));
}

Expected<ExprPtr> ExpressionParser::parse_call_of(ExprPtr callee) {
  ExprPtr call = make(ExprKind::kCall);
  TANDEM_ASSIGN(call->arguments, parse_arguments());
  call->parts.push_back(std::move(callee));
  return finish(std::move(call));
}

Expected<ArgumentExprs> ExpressionParser::parse_arguments() {
  const TokenStream::Nested nested(stream_);
  TANDEM_TRY(nested.check());
  TANDEM_TRY(stream_.expect_operator("("));
  ArgumentExprs out;
  bool first = true;
  while (!stream_.is_operator(")")) {
    if (!first) {
      TANDEM_TRY(stream_.expect_operator(","));
      if (stream_.is_operator(")")) break;
    }
    first = false;
    if (stream_.skip_if_operator("*")) {
      if (out.star || out.double_star) return stream_.error("invalid syntax for function call");
      TANDEM_ASSIGN(out.star, parse_expression());
    } else if (stream_.skip_if_operator("**")) {
      if (out.double_star) return stream_.error("invalid syntax for function call");
      TANDEM_ASSIGN(out.double_star, parse_expression());
    } else if (stream_.is(TokenKind::kName) && stream_.next().kind == TokenKind::kOperator &&
               stream_.next().text == "=") {
      if (out.double_star) return stream_.error("invalid syntax for function call");
      std::string name = stream_.current().text;
      stream_.skip();
      stream_.skip();
      TANDEM_ASSIGN(ExprPtr value, parse_expression());
      out.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (out.star || out.double_star || !out.named.empty()) {
        return stream_.error("invalid syntax for function call");
      }
      TANDEM_ASSIGN(ExprPtr value, parse_expression());
      out.positional.push_back(std::move(value));
    }
  }
  stream_.skip();
  return out;
}

Expected<ExprPtr> ExpressionParser::parse_subscript(ExprPtr node) {
  if (!stream_.skip_if_operator(".")) return parse_subscribed(std::move(node));
  ExprPtr out = make(ExprKind::kAttribute);
  if (stream_.is(TokenKind::kInteger)) {
    out->kind = ExprKind::kItem;
    TANDEM_ASSIGN(ExprPtr index, parse_number());
    out->parts.push_back(std::move(node));
    out->parts.push_back(std::move(index));
    return finish(std::move(out));
  }
  TANDEM_ASSIGN(out->name, stream_.expect_name());
  out->value = constant_string(out->name);
  out->parts.push_back(std::move(node));
  return finish(std::move(out));
}

// object[index], object[start:stop:step], object[a, b] (a tuple).
Expected<ExprPtr> ExpressionParser::parse_subscribed(ExprPtr node) {
  ExprPtr out = make(ExprKind::kItem);
  stream_.skip();
  const auto at_end = [&] { return stream_.is_operator("]") || stream_.is_operator(","); };
  ExprPtr index;
  if (!stream_.is_operator(":")) {
    TANDEM_ASSIGN(index, parse_expression());
  }
  out->parts.push_back(std::move(node));
  out->parts.push_back(std::move(index));
  if (stream_.is_operator(":")) {
    out->kind = ExprKind::kSlice;
    out->parts.resize(4);
    for (size_t part = 2; part < 4 && stream_.skip_if_operator(":"); ++part) {
      if (at_end() || stream_.is_operator(":")) continue;
      TANDEM_ASSIGN(out->parts[part], parse_expression());
    }
    if (stream_.is_operator(",")) return stream_.unsupported("a slice of several dimensions");
  } else if (stream_.is_operator(",")) {
    ExprPtr tuple = make(ExprKind::kTuple);
    tuple->parts.push_back(std::move(out->parts[1]));
    while (stream_.skip_if_operator(",")) {
      if (stream_.is_operator("]")) break;
      TANDEM_ASSIGN(ExprPtr part, parse_expression());
      tuple->parts.push_back(std::move(part));
    }
    TANDEM_ASSIGN(out->parts[1], finish(std::move(tuple)));
  }
  TANDEM_TRY(stream_.expect_operator("]"));
  return finish(std::move(out));
}

}  // namespace tandem::text::jinja
