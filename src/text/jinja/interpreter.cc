#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/deeper.h"
#include "text/jinja/python_text.h"

namespace tandem::text::jinja {

Interpreter::Interpreter(Budget& budget, const std::tm& now) : budget_(budget), now_(now) {}

Interpreter::~Interpreter() { budget_.release(arena_bytes_); }

void Interpreter::set_variable(std::string name, Value value) {
  variables_.insert_or_assign(std::move(name), std::move(value));
}

Expected<MarkedText> Interpreter::run(const Body& body) {
  Output output;
  output_ = &output;
  auto flow = run_body(body, root_);
  output_ = nullptr;
  budget_.release(output.taken_bytes);
  if (flow) return std::move(output.text);
  Error error = std::move(flow).error();
  if (!raised_)
    error.message = fmt::format("chat template, line {}: {}", error_line_, error.message);
  return fail(std::move(error));
}

std::unexpected<Error> Interpreter::raise(std::string message) {
  raised_ = true;
  return fail(Error{ErrorCode::kInvalidArgument,
                    std::move(message),
                    "the model's chat template refuses these messages"});
}

Expected<Interpreter::Flow> Interpreter::run_body(const Body& body, Scope& scope) {
  const Deeper deeper(depth_);
  TANDEM_TRY(deeper.check(budget_));
  for (const StmtPtr& stmt : body) {
    TANDEM_ASSIGN(const Flow flow, run_statement(*stmt, scope));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Expected<Interpreter::Flow> Interpreter::run_statement(const Stmt& stmt, Scope& scope) {
  TANDEM_TRY(budget_.step());
  auto flow = run_statement_kind(stmt, scope);
  if (!flow && error_line_ == 0) error_line_ = stmt.line;
  return flow;
}

Expected<Interpreter::Flow> Interpreter::run_statement_kind(const Stmt& stmt, Scope& scope) {
  const auto normal = [](Expected<void> done) -> Expected<Flow> {
    if (!done) return fail(std::move(done).error());
    return Flow::kNormal;
  };
  switch (stmt.kind) {
    case StmtKind::kText:
      return normal(write(stmt.text));
    case StmtKind::kOutput:
      return normal(run_output(stmt, scope));
    case StmtKind::kFor:
      return run_for(stmt, scope);
    case StmtKind::kIf:
      return run_if(stmt, scope);
    case StmtKind::kSet: {
      TANDEM_ASSIGN(const Value value, evaluate(*stmt.exprs[0], scope));
      return normal(assign(stmt.target, value, scope));
    }
    case StmtKind::kSetBlock:
      return normal(run_set_block(stmt, scope));
    case StmtKind::kMacro:
      return normal(run_macro(stmt, scope));
    case StmtKind::kCallBlock:
      return normal(run_call_block(stmt, scope));
    case StmtKind::kFilterBlock:
      return normal(run_filter_block(stmt, scope));
    case StmtKind::kWith:
      return run_with(stmt, scope);
    case StmtKind::kScope: {
      auto inner = open_scope(scope);
      auto flow = run_body(stmt.body, *inner);
      close_scope(std::move(inner));
      return flow;
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Expected<Interpreter::Flow> Interpreter::run_if(const Stmt& stmt, Scope& scope) {
  for (const auto& [test, body] : stmt.branches) {
    if (test) {
      TANDEM_ASSIGN(const Value value, evaluate(*test, scope));
      if (!is_true(value)) continue;
    }
    return run_body(body, scope);
  }
  return Flow::kNormal;
}

Expected<void> Interpreter::run_output(const Stmt& stmt, Scope& scope) {
  for (const ExprPtr& expr : stmt.exprs) {
    TANDEM_ASSIGN(const Value value, evaluate(*expr, scope));
    if (const String* text = value.string()) {
      TANDEM_TRY(write(text->text));
    } else {
      TANDEM_ASSIGN(const MarkedText text_of_value, str(budget_, value));
      TANDEM_TRY(write(text_of_value));
    }
  }
  return {};
}

Expected<void> Interpreter::write(std::string_view text) {
  TANDEM_TRY(budget_.step_bytes(text.size()));
  output_->text.append(text, false);
  return pay_for_output();
}

Expected<void> Interpreter::write(const MarkedText& text) {
  TANDEM_TRY(budget_.step_bytes(text.size()));
  output_->text.append(text);
  return pay_for_output();
}

Expected<void> Interpreter::pay_for_output() {
  const MarkedText& text = output_->text;
  if (text.size() > budget_.limits().max_output_bytes) {
    return fail_value("writes more than {} bytes", budget_.limits().max_output_bytes);
  }
  const size_t bytes = text.size() + text.untrusted().size() * sizeof(Range);
  TANDEM_TRY(budget_.take(bytes - output_->taken_bytes));
  output_->taken_bytes = bytes;
  return {};
}

Expected<Value> Interpreter::capture(const Body& body, Scope& scope) {
  Output output;
  Output* const outer = std::exchange(output_, &output);
  auto inner = open_scope(scope);
  auto flow = run_body(body, *inner);
  close_scope(std::move(inner));
  output_ = outer;
  budget_.release(output.taken_bytes);
  if (!flow) return fail(std::move(flow).error());
  return make_string(budget_, std::move(output.text));
}

Expected<void> Interpreter::run_set_block(const Stmt& stmt, Scope& scope) {
  TANDEM_ASSIGN(Value text, capture(stmt.body, scope));
  if (stmt.exprs[0]) {
    TANDEM_ASSIGN(text, evaluate_filter(*stmt.exprs[0], scope, &text));
  }
  return assign(stmt.target, text, scope);
}

Expected<void> Interpreter::run_filter_block(const Stmt& stmt, Scope& scope) {
  TANDEM_ASSIGN(const Value text, capture(stmt.body, scope));
  TANDEM_ASSIGN(const Value filtered, evaluate_filter(*stmt.exprs[0], scope, &text));
  TANDEM_ASSIGN(const MarkedText written, str(budget_, filtered));
  return write(written);
}

// The values are of the outer scope: they do not see each other's names.
Expected<Interpreter::Flow> Interpreter::run_with(const Stmt& stmt, Scope& scope) {
  auto inner = open_scope(scope);
  auto flow = [&]() -> Expected<Flow> {
    for (const auto& [target, expr] : stmt.assignments) {
      TANDEM_ASSIGN(const Value value, evaluate(*expr, scope));
      TANDEM_TRY(assign(target, value, *inner));
    }
    return run_body(stmt.body, *inner);
  }();
  close_scope(std::move(inner));
  return flow;
}

Expected<const Callable*> Interpreter::make_callable(Callable callable) {
  // With the scope that it may pin.
  constexpr size_t kBytes = sizeof(Callable) + sizeof(Scope);
  TANDEM_TRY(budget_.take(kBytes));
  arena_bytes_ += kBytes;
  callables_.push_back(std::move(callable));
  return &callables_.back();
}

Expected<void> Interpreter::run_macro(const Stmt& stmt, Scope& scope) {
  Callable macro;
  macro.kind = Callable::Kind::kMacro;
  macro.name = stmt.name;
  macro.macro = &stmt;
  macro.scope = &scope;
  for (Scope* around = &scope; around != nullptr; around = around->parent) around->pinned = true;
  TANDEM_ASSIGN(const Callable* made, make_callable(std::move(macro)));
  scope.set(stmt.name, Value(made));
  return {};
}

Expected<void> Interpreter::run_call_block(const Stmt& stmt, Scope& scope) {
  Callable caller;
  caller.kind = Callable::Kind::kMacro;
  caller.name = "caller";
  caller.macro = &stmt;
  caller.scope = &scope;
  for (Scope* around = &scope; around != nullptr; around = around->parent) around->pinned = true;
  TANDEM_ASSIGN(const Callable* made, make_callable(std::move(caller)));
  const Expr& call_expr = *stmt.exprs[0];
  TANDEM_ASSIGN(const Value callee, evaluate(*call_expr.parts[0], scope));
  TANDEM_ASSIGN(Arguments arguments, evaluate_arguments(call_expr.arguments, scope));
  arguments.named.emplace_back("caller", Value(made));
  TANDEM_ASSIGN(const Value result, call(callee, arguments));
  TANDEM_ASSIGN(const MarkedText text, str(budget_, result));
  return write(text);
}

Expected<void> Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.kind == Target::Kind::kName) {
    scope.set(target.name, value);
    return {};
  }
  if (target.kind == Target::Kind::kMember) {
    const Value* held = scope.find(target.name);
    Namespace* name_space = held != nullptr ? held->name_space() : nullptr;
    if (name_space == nullptr) {
      return fail_value("cannot assign attribute on non-namespace object");
    }
    for (auto& [name, member] : name_space->members) {
      if (name != target.member) continue;
      member = value;
      return {};
    }
    TANDEM_TRY(budget_.take(sizeof(Value) + target.member.size()));
    arena_bytes_ += sizeof(Value) + target.member.size();
    name_space->members.emplace_back(target.member, value);
    return {};
  }
  TANDEM_ASSIGN(const std::vector<Value> values, iterate(value));
  if (values.size() != target.parts.size()) {
    return values.size() > target.parts.size()
               ? fail_value("too many values to unpack (expected {})", target.parts.size())
               : fail_value("not enough values to unpack (expected {}, got {})",
                            target.parts.size(),
                            values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    TANDEM_TRY(assign(target.parts[i], values[i], scope));
  }
  return {};
}

std::unique_ptr<Scope> Interpreter::open_scope(Scope& parent) {
  auto scope = std::make_unique<Scope>();
  scope->parent = &parent;
  return scope;
}

// A macro that was defined in the scope may outlive it.
void Interpreter::close_scope(std::unique_ptr<Scope> scope) {
  if (scope->pinned) pinned_scopes_.push_back(std::move(scope));
}

Expected<Value> Interpreter::make_namespace(std::vector<std::pair<std::string, Value>> members) {
  const size_t bytes = sizeof(Namespace) + members.size() * sizeof(members[0]);
  TANDEM_TRY(budget_.take(bytes));
  arena_bytes_ += bytes;
  namespaces_.emplace_back().members = std::move(members);
  return Value(&namespaces_.back());
}

}  // namespace tandem::text::jinja
