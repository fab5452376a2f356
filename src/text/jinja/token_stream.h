#pragma once
// The tokens of a template with one token of look-ahead, and bounds on nesting. For the parsers.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"

namespace tandem::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void skip() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  int line() const { return current().line; }

  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is(TokenKind kind, std::string_view text) const {
    return current().kind == kind && current().text == text;
  }
  bool is_name(std::string_view text) const { return is(TokenKind::kName, text); }
  bool is_operator(std::string_view text) const { return is(TokenKind::kOperator, text); }

  bool skip_if(TokenKind kind, std::string_view text) {
    const bool here = is(kind, text);
    if (here) skip();
    return here;
  }
  bool skip_if_name(std::string_view text) { return skip_if(TokenKind::kName, text); }
  bool skip_if_operator(std::string_view text) { return skip_if(TokenKind::kOperator, text); }

  std::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, "line {}: {}", line(), what);
  }
  std::unexpected<Error> unsupported(std::string_view what) const {
    return fail(ErrorCode::kUnsupported, "line {}: {} is not supported", line(), what);
  }
  // "'x'", or what kind of token it is.
  std::string describe() const {
    switch (current().kind) {
      case TokenKind::kEnd:
        return "end of template";
      case TokenKind::kText:
        return "template data";
      case TokenKind::kVariableEnd:
        return "end of print statement";
      case TokenKind::kBlockEnd:
        return "end of statement block";
      default:
        return "'" + current().text + "'";
    }
  }

  Expected<void> expect_operator(std::string_view text) {
    if (skip_if_operator(text)) return {};
    return error("expected token '" + std::string(text) + "', got " + describe());
  }
  Expected<void> expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) return error("expected " + std::string(what) + ", got " + describe());
    skip();
    return {};
  }
  Expected<std::string> expect_name() {
    if (!is(TokenKind::kName)) return error("expected a name, got " + describe());
    std::string name = current().text;
    skip();
    return name;
  }

  // Nesting of parentheses, operators before an operand, and blocks.
  static constexpr int kMaxNesting = 64;
  class Nested {
   public:
    explicit Nested(TokenStream& stream) : stream_(stream) { ++stream_.nesting_; }
    ~Nested() { --stream_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Expected<void> check() const {
      if (stream_.nesting_ <= kMaxNesting) return {};
      return stream_.error("nested deeper than 64 levels");
    }

   private:
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;  // the last one is kEnd
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace tandem::text::jinja
