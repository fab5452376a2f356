#pragma once
// Runs a parsed template on a context. One object a rendering; one thread.

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/callable.h"
#include "text/jinja/scope.h"
#include "text/jinja/value.h"
#include "text/marked_text.h"

namespace tandem::text::jinja {

class Interpreter {
 public:
  // `context`: the template's variables. `now`: local time, for strftime_now. All outlive this.
  Interpreter(Budget& budget, const std::tm& now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set_variable(std::string name, Value value);

  // The text. A message given to raise_exception comes back as it is; other errors name the line.
  Expected<MarkedText> run(const Body& body);

  // --- For the built-in functions. ---
  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }

  // What `for` walks over: the items of a list, the keys of a dict, the characters of a string.
  Expected<std::vector<Value>> iterate(const Value& value);
  // value.name, value['name'] and value[key], by Jinja2's rules: what is not there is undefined.
  Expected<Value> get_attribute(const Value& object, const Value& name);
  Expected<Value> get_item(const Value& object, const Value& key);
  Expected<Value> call(const Value& callee, const Arguments& arguments);
  Expected<Value> apply_filter(std::string_view name, const Value& input, const Arguments& rest);
  Expected<bool> apply_test(std::string_view name, const Value& input, const Arguments& rest);

  Expected<Value> make_namespace(std::vector<std::pair<std::string, Value>> members);
  std::unexpected<Error> raise(std::string message);

  Expected<Value> string(MarkedText text) { return make_string(budget_, std::move(text)); }
  Expected<Value> string(std::string_view trusted) { return make_string(budget_, trusted); }
  Expected<Value> list(std::vector<Value> items) {
    return make_sequence(budget_, SequenceKind::kList, std::move(items));
  }

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Text being written, paid for as it grows.
  struct Output {
    MarkedText text;
    size_t taken_bytes = 0;
  };

  // interpreter.cc
  Expected<Flow> run_body(const Body& body, Scope& scope);
  Expected<Flow> run_statement(const Stmt& stmt, Scope& scope);
  Expected<Flow> run_statement_kind(const Stmt& stmt, Scope& scope);
  Expected<Flow> run_if(const Stmt& stmt, Scope& scope);
  Expected<void> run_output(const Stmt& stmt, Scope& scope);
  Expected<void> run_set_block(const Stmt& stmt, Scope& scope);
  Expected<void> run_filter_block(const Stmt& stmt, Scope& scope);
  Expected<Flow> run_with(const Stmt& stmt, Scope& scope);
  Expected<void> run_macro(const Stmt& stmt, Scope& scope);
  Expected<void> run_call_block(const Stmt& stmt, Scope& scope);
  Expected<void> assign(const Target& target, const Value& value, Scope& scope);
  Expected<void> write(std::string_view text);
  Expected<void> write(const MarkedText& text);
  Expected<void> pay_for_output();
  Expected<Value> capture(const Body& body, Scope& scope);
  std::unique_ptr<Scope> open_scope(Scope& parent);
  void close_scope(std::unique_ptr<Scope> scope);
  Expected<const Callable*> make_callable(Callable callable);

  // interpreter_loop.cc
  Expected<Flow> run_for(const Stmt& stmt, Scope& scope);
  Expected<void> run_loop(const Value::LoopRef& loop);
  Expected<bool> find_ahead(Loop& loop);
  Expected<Flow> run_round(const Value::LoopRef& loop);
  Expected<Value> make_loop(const Stmt& stmt, Scope& outer, const Value& iterable, int depth0);
  Expected<int64_t> loop_length(Loop& loop);
  Expected<Value> loop_attribute(Loop& loop, std::string_view name);
  Expected<Value> call_loop_method(Loop& loop, std::string_view name, const Arguments& arguments);
  Expected<Value> call_recursive_loop(Loop& loop, const Arguments& arguments);

  // interpreter_call.cc
  Expected<Value> evaluate_call(const Expr& expr, Scope& scope);
  Expected<Value> call_attribute(const Expr& attribute, const Arguments& arguments, Scope& scope);
  Expected<Arguments> evaluate_arguments(const ArgumentExprs& exprs, Scope& scope);
  Expected<Value> call_macro(const Callable& macro, const Arguments& arguments);
  Expected<void> bind_parameters(const Stmt& macro, const Arguments& arguments, Scope& scope);
  Expected<Value> attribute_or_undefined(const Value& object, const Value& name, bool& found);
  Expected<Value> item_or_undefined(const Value& object, const Value& key, bool& found);
  static Value undefined_member(const Value& object, const Value& name);

  // interpreter_expression.cc
  Expected<Value> evaluate(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_kind(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_name(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_concat(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_chain(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_compare(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_logic(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_sign(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_condition(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_slice(const Expr& expr, Scope& scope);
  Expected<Value> evaluate_filter(const Expr& expr, Scope& scope, const Value* block_input);
  Expected<Value> evaluate_test(const Expr& expr, Scope& scope);
  Expected<std::vector<Value>> evaluate_all(const std::vector<ExprPtr>& exprs, Scope& scope);
  Expected<Value> evaluate_dict(const Expr& expr, Scope& scope);

  Budget& budget_;
  const std::tm& now_;
  int depth_ = 0;
  int loop_depth_ = 0;
  bool raised_ = false;
  int error_line_ = 0;
  Output* output_ = nullptr;
  std::unordered_map<std::string, Value> variables_;
  Scope root_;
  std::vector<std::unique_ptr<Scope>> pinned_scopes_;
  std::deque<Callable> callables_;
  std::deque<Namespace> namespaces_;
  size_t arena_bytes_ = 0;
};

}  // namespace tandem::text::jinja
