#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/lexer.h"
#include "text/jinja/token_stream.h"

namespace tandem::text::jinja {
namespace {

// Tags of Jinja2 that chat templates have no use for.
constexpr std::string_view kRefusedTags[] = {
    "block", "extends", "include", "import", "from", "autoescape", "trans", "do", "debug"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  Expected<Body> run() { return parse_body({}); }

 private:
  using Names = std::initializer_list<std::string_view>;

  StmtPtr make(StmtKind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = stream_.line();
    return stmt;
  }

  bool at_end_tag(Names end_tags) const {
    for (std::string_view tag : end_tags) {
      if (stream_.next().kind == TokenKind::kName && stream_.next().text == tag) return true;
    }
    return false;
  }

  // Text, prints and tags up to one of `end_tags`, whose name is then current. No end tags: to the
  // end of the template.
  Expected<Body> parse_body(Names end_tags) {
    const TokenStream::Nested nested(stream_);
    TANDEM_TRY(nested.check());
    Body body;
    while (!stream_.is(TokenKind::kEnd)) {
      if (stream_.is(TokenKind::kText)) {
        StmtPtr text = make(StmtKind::kText);
        text->text = stream_.current().text;
        stream_.skip();
        body.push_back(std::move(text));
      } else if (stream_.is(TokenKind::kVariableBegin)) {
        StmtPtr output = make(StmtKind::kOutput);
        stream_.skip();
        TANDEM_ASSIGN(ExprPtr expr, expressions_.parse_tuple(true));
        output->exprs.push_back(std::move(expr));
        TANDEM_TRY(stream_.expect(TokenKind::kVariableEnd, "end of print statement"));
        body.push_back(std::move(output));
      } else if (at_end_tag(end_tags)) {
        stream_.skip();
        return body;
      } else {
        stream_.skip();
        TANDEM_ASSIGN(StmtPtr statement, parse_statement());
        TANDEM_TRY(stream_.expect(TokenKind::kBlockEnd, "end of statement block"));
        body.push_back(std::move(statement));
      }
    }
    if (end_tags.size() == 0) return body;
    std::string wanted;
    for (std::string_view tag : end_tags) {
      wanted += (wanted.empty() ? "'" : " or '") + std::string(tag) + "'";
    }
    return stream_.error("Unexpected end of template. Jinja was looking for the following tags: " +
                         wanted);
  }

  // The end of the opening tag, then the body. The end tag's name is skipped if it is the last.
  Expected<Body> parse_block(Names end_tags, bool skip_name) {
    stream_.skip_if_operator(":");
    TANDEM_TRY(stream_.expect(TokenKind::kBlockEnd, "end of statement block"));
    TANDEM_ASSIGN(Body body, parse_body(end_tags));
    if (skip_name) stream_.skip();
    return body;
  }

  Expected<StmtPtr> parse_statement() {
    if (!stream_.is(TokenKind::kName)) return stream_.error("tag name expected");
    const std::string tag = stream_.current().text;
    if (tag == "for") return parse_for();
    if (tag == "if") return parse_if();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "print") return parse_print();
    if (tag == "break" || tag == "continue") return parse_loop_control(tag == "break");
    if (tag == "generation") return parse_generation();
    for (std::string_view refused : kRefusedTags) {
      if (tag == refused) return stream_.unsupported("the tag '" + tag + "'");
    }
    return stream_.error("Encountered unknown tag '" + tag + "'.");
  }

  // `x`, `x.y` (with_member), `x, y` or `(x, y)`.
  Expected<Target> parse_target(bool with_member) {
    TANDEM_ASSIGN(Target first, parse_single_target(with_member));
    if (!stream_.is_operator(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.parts.push_back(std::move(first));
    while (stream_.skip_if_operator(",")) {
      if (stream_.is_name("in") || stream_.is_operator("=") || stream_.is_operator(")") ||
          stream_.is(TokenKind::kBlockEnd)) {
        break;
      }
      TANDEM_ASSIGN(Target part, parse_single_target(with_member));
      tuple.parts.push_back(std::move(part));
    }
    return tuple;
  }

  Expected<Target> parse_single_target(bool with_member) {
    const TokenStream::Nested nested(stream_);
    TANDEM_TRY(nested.check());
    if (stream_.skip_if_operator("(")) {
      TANDEM_ASSIGN(Target inner, parse_target(with_member));
      TANDEM_TRY(stream_.expect_operator(")"));
      return inner;
    }
    Target target;
    TANDEM_ASSIGN(target.name, stream_.expect_name());
    for (std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (target.name == constant) return stream_.error("can't assign to '" + target.name + "'");
    }
    if (with_member && stream_.skip_if_operator(".")) {
      target.kind = Target::Kind::kMember;
      TANDEM_ASSIGN(target.member, stream_.expect_name());
    }
    return target;
  }

  static bool assigns(const Target& target, std::string_view name) {
    if (target.kind != Target::Kind::kTuple) return target.name == name;
    return std::any_of(target.parts.begin(), target.parts.end(), [name](const Target& part) {
      return assigns(part, name);
    });
  }

  Expected<StmtPtr> parse_for() {
    StmtPtr stmt = make(StmtKind::kFor);
    stream_.skip();
    TANDEM_ASSIGN(stmt->target, parse_target(/*with_member=*/false));
    if (assigns(stmt->target, "loop")) {
      return stream_.error("Can't assign to special loop variable in for-loop target");
    }
    if (!stream_.skip_if_name("in")) {
      return stream_.error("expected 'in', got " + stream_.describe());
    }
    TANDEM_ASSIGN(ExprPtr iterable, expressions_.parse_tuple(false, "recursive"));
    ExprPtr condition;
    if (stream_.skip_if_name("if")) {
      TANDEM_ASSIGN(condition, expressions_.parse_expression());
    }
    stmt->recursive = stream_.skip_if_name("recursive");
    stmt->exprs.push_back(std::move(iterable));
    stmt->exprs.push_back(std::move(condition));
    ++loop_depth_;
    auto body = parse_block({"endfor", "else"}, false);
    --loop_depth_;
    if (!body) return fail(std::move(body).error());
    stmt->body = *std::move(body);
    const bool has_else = stream_.is_name("else");
    stream_.skip();
    if (has_else) {
      TANDEM_ASSIGN(stmt->else_body, parse_block({"endfor"}, true));
    }
    return stmt;
  }

  Expected<StmtPtr> parse_if() {
    StmtPtr stmt = make(StmtKind::kIf);
    ++expressions_.soft_depth;
    auto done = parse_branches(*stmt);
    --expressions_.soft_depth;
    TANDEM_TRY(std::move(done));
    return stmt;
  }

  Expected<void> parse_branches(Stmt& stmt) {
    while (true) {
      const bool is_else = stream_.is_name("else");
      stream_.skip();
      ExprPtr test;
      if (!is_else) {
        TANDEM_ASSIGN(test, expressions_.parse_tuple(false));
      }
      auto body =
          is_else ? parse_block({"endif"}, false) : parse_block({"elif", "else", "endif"}, false);
      if (!body) return fail(std::move(body).error());
      stmt.branches.emplace_back(std::move(test), *std::move(body));
      if (stream_.skip_if_name("endif")) return {};
    }
  }

  Expected<StmtPtr> parse_set() {
    StmtPtr stmt = make(StmtKind::kSet);
    stream_.skip();
    TANDEM_ASSIGN(stmt->target, parse_target(/*with_member=*/true));
    if (stream_.skip_if_operator("=")) {
      TANDEM_ASSIGN(ExprPtr value, expressions_.parse_tuple(true));
      stmt->exprs.push_back(std::move(value));
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    ExprPtr filters;
    if (stream_.skip_if_operator("|")) {
      TANDEM_ASSIGN(filters, expressions_.parse_filter_chain());
    }
    stmt->exprs.push_back(std::move(filters));
    TANDEM_ASSIGN(stmt->body, parse_closed_block("endset"));
    return stmt;
  }

  // A body in which `break` and `continue` do not reach a loop outside.
  Expected<Body> parse_closed_block(std::string_view end_tag) {
    const int outer = std::exchange(loop_depth_, 0);
    auto body = parse_block({end_tag}, true);
    loop_depth_ = outer;
    return body;
  }

  Expected<std::vector<Parameter>> parse_parameters() {
    TANDEM_TRY(stream_.expect_operator("("));
    std::vector<Parameter> parameters;
    while (!stream_.is_operator(")")) {
      if (!parameters.empty()) TANDEM_TRY(stream_.expect_operator(","));
      if (stream_.is_operator(")")) break;
      Parameter parameter;
      TANDEM_ASSIGN(parameter.name, stream_.expect_name());
      if (stream_.skip_if_operator("=")) {
        TANDEM_ASSIGN(parameter.default_value, expressions_.parse_expression());
      } else if (!parameters.empty() && parameters.back().default_value) {
        return stream_.error("non-default argument follows default argument");
      }
      parameters.push_back(std::move(parameter));
    }
    stream_.skip();
    return parameters;
  }

  Expected<void> parse_macro_body(Stmt& stmt, std::string_view end_tag) {
    const int varargs_before = expressions_.varargs_uses;
    const int kwargs_before = expressions_.kwargs_uses;
    TANDEM_ASSIGN(stmt.body, parse_closed_block(end_tag));
    stmt.takes_varargs = expressions_.varargs_uses > varargs_before;
    stmt.takes_kwargs = expressions_.kwargs_uses > kwargs_before;
    return {};
  }

  Expected<StmtPtr> parse_macro() {
    StmtPtr stmt = make(StmtKind::kMacro);
    stream_.skip();
    TANDEM_ASSIGN(stmt->name, stream_.expect_name());
    TANDEM_ASSIGN(stmt->parameters, parse_parameters());
    TANDEM_TRY(parse_macro_body(*stmt, "endmacro"));
    return stmt;
  }

  Expected<StmtPtr> parse_call_block() {
    StmtPtr stmt = make(StmtKind::kCallBlock);
    stream_.skip();
    if (stream_.is_operator("(")) {
      TANDEM_ASSIGN(stmt->parameters, parse_parameters());
    }
    TANDEM_ASSIGN(ExprPtr call, expressions_.parse_expression());
    if (call->kind != ExprKind::kCall) return stream_.error("expected call");
    stmt->exprs.push_back(std::move(call));
    TANDEM_TRY(parse_macro_body(*stmt, "endcall"));
    return stmt;
  }

  Expected<StmtPtr> parse_filter_block() {
    StmtPtr stmt = make(StmtKind::kFilterBlock);
    stream_.skip();
    TANDEM_ASSIGN(ExprPtr filters, expressions_.parse_filter_chain());
    stmt->exprs.push_back(std::move(filters));
    TANDEM_ASSIGN(stmt->body, parse_closed_block("endfilter"));
    return stmt;
  }

  Expected<StmtPtr> parse_with() {
    StmtPtr stmt = make(StmtKind::kWith);
    stream_.skip();
    while (!stream_.is(TokenKind::kBlockEnd)) {
      if (!stmt->assignments.empty()) TANDEM_TRY(stream_.expect_operator(","));
      TANDEM_ASSIGN(Target target, parse_single_target(/*with_member=*/false));
      TANDEM_TRY(stream_.expect_operator("="));
      TANDEM_ASSIGN(ExprPtr value, expressions_.parse_expression());
      stmt->assignments.emplace_back(std::move(target), std::move(value));
    }
    TANDEM_ASSIGN(stmt->body, parse_block({"endwith"}, true));
    return stmt;
  }

  Expected<StmtPtr> parse_print() {
    StmtPtr stmt = make(StmtKind::kOutput);
    stream_.skip();
    while (!stream_.is(TokenKind::kBlockEnd)) {
      if (!stmt->exprs.empty()) TANDEM_TRY(stream_.expect_operator(","));
      TANDEM_ASSIGN(ExprPtr value, expressions_.parse_expression());
      stmt->exprs.push_back(std::move(value));
    }
    return stmt;
  }

  Expected<StmtPtr> parse_loop_control(bool is_break) {
    if (loop_depth_ == 0) {
      return stream_.error("'" + stream_.current().text + "' outside of a loop");
    }
    StmtPtr stmt = make(is_break ? StmtKind::kBreak : StmtKind::kContinue);
    stream_.skip();
    return stmt;
  }

  // Marks what the assistant wrote, for training; here only its body counts.
  Expected<StmtPtr> parse_generation() {
    StmtPtr stmt = make(StmtKind::kScope);
    stream_.skip();
    TANDEM_ASSIGN(stmt->body, parse_closed_block("endgeneration"));
    return stmt;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;
};

}  // namespace

Expected<Body> parse_template(std::string_view source) {
  TANDEM_ASSIGN(std::vector<Token> tokens, tokenize_template(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace tandem::text::jinja
