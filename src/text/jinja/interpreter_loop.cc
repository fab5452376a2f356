// The `for` statement and the variable `loop`.

#include <algorithm>

#include "text/jinja/deeper.h"
#include "text/jinja/interpreter.h"

namespace tandem::text::jinja {
namespace {

// Ends a loop however it is left: it may be referred to later, but runs no more.
class LoopEnd {
 public:
  LoopEnd(Loop& loop, Value::LoopRef keep) : loop_(loop), keep_(std::move(keep)) {}
  ~LoopEnd() {
    loop_.active = false;
    loop_.changed_values.clear();  // could hold the loop itself
  }
  LoopEnd(const LoopEnd&) = delete;
  LoopEnd& operator=(const LoopEnd&) = delete;

 private:
  Loop& loop_;
  Value::LoopRef keep_;
};

}  // namespace

Expected<Interpreter::Flow> Interpreter::run_for(const Stmt& stmt, Scope& scope) {
  TANDEM_ASSIGN(const Value iterable, evaluate(*stmt.exprs[0], scope));
  TANDEM_ASSIGN(const Value made, make_loop(stmt, scope, iterable, 0));
  const Value::LoopRef& loop = *made.get<Value::LoopRef>();
  TANDEM_TRY(run_loop(loop));
  if (loop->index0 >= 0 || stmt.else_body.empty()) return Flow::kNormal;
  auto inner = open_scope(scope);
  auto flow = run_body(stmt.else_body, *inner);
  close_scope(std::move(inner));
  return flow;
}

Expected<Value> Interpreter::make_loop(const Stmt& stmt,
                                       Scope& outer,
                                       const Value& iterable,
                                       int depth0) {
  auto loop = std::make_shared<Loop>();
  loop->stmt = &stmt;
  loop->outer = &outer;
  loop->depth0 = depth0;
  loop->all_pass = stmt.exprs[1] == nullptr;
  const Sequence* sequence = iterable.sequence();
  if (sequence != nullptr && sequence->kind != SequenceKind::kGenerator) {
    loop->list = iterable;
  } else {
    TANDEM_ASSIGN(std::vector<Value> items, iterate(iterable));
    TANDEM_ASSIGN(loop->list, list(std::move(items)));
  }
  loop->depth = loop->list.sequence()->depth + 1;
  if (loop->depth > kMaxValueDepth) {
    return fail_value("a list or dict is nested deeper than {} levels", kMaxValueDepth);
  }
  return Value(std::move(loop));
}

Expected<void> Interpreter::run_loop(const Value::LoopRef& loop) {
  const LoopEnd end(*loop, loop);
  while (true) {
    TANDEM_TRY(budget_.step());
    TANDEM_ASSIGN(const bool more, find_ahead(*loop));
    if (!more) return {};
    loop->has_previous = loop->index0 >= 0;
    loop->previous = std::move(loop->current);
    loop->current = std::move(loop->ahead);
    loop->has_ahead = false;
    ++loop->index0;
    TANDEM_ASSIGN(const Flow flow, run_round(loop));
    if (flow == Flow::kBreak) return {};
  }
}

// Whether there is an item after the current one; it is then in `ahead`.
Expected<bool> Interpreter::find_ahead(Loop& loop) {
  const std::vector<Value>& items = loop.list.sequence()->items;
  while (!loop.has_ahead && loop.next_item < items.size()) {
    if (!loop.all_pass && !loop.active) return false;  // its names are gone
    const Value& item = items[loop.next_item++];
    if (!loop.all_pass) {
      TANDEM_TRY(budget_.step());
      auto scope = open_scope(*loop.outer);
      TANDEM_TRY(assign(loop.stmt->target, item, *scope));
      TANDEM_ASSIGN(const Value passes, evaluate(*loop.stmt->exprs[1], *scope));
      close_scope(std::move(scope));
      if (!is_true(passes)) continue;
    }
    loop.ahead = item;
    loop.has_ahead = true;
  }
  return loop.has_ahead;
}

Expected<Interpreter::Flow> Interpreter::run_round(const Value::LoopRef& loop) {
  auto scope = open_scope(*loop->outer);
  scope->set("loop", Value(loop));
  TANDEM_TRY(assign(loop->stmt->target, loop->current, *scope));
  auto flow = run_body(loop->stmt->body, *scope);
  close_scope(std::move(scope));
  return flow;
}

// With a condition, asking for the length decides it for all items that are left.
Expected<int64_t> Interpreter::loop_length(Loop& loop) {
  if (loop.length >= 0) return loop.length;
  if (!loop.all_pass) {
    std::vector<Value> rest;
    const bool had_ahead = loop.has_ahead;
    const Value ahead = loop.ahead;
    loop.has_ahead = false;
    while (true) {
      TANDEM_ASSIGN(const bool more, find_ahead(loop));
      if (!more) break;
      rest.push_back(std::move(loop.ahead));
      loop.has_ahead = false;
    }
    loop.has_ahead = had_ahead;
    loop.ahead = ahead;
    loop.length = loop.index0 + 1 + static_cast<int64_t>(rest.size()) + (had_ahead ? 1 : 0);
    TANDEM_ASSIGN(loop.list, list(std::move(rest)));
    loop.next_item = 0;
    loop.all_pass = true;
    return loop.length;
  }
  loop.length = static_cast<int64_t>(loop.list.sequence()->items.size());
  return loop.length;
}

Expected<Value> Interpreter::loop_attribute(Loop& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") {
    return loop.has_previous ? loop.previous : Value::undefined("there is no previous item");
  }
  if (name == "last" || name == "nextitem") {
    TANDEM_ASSIGN(const bool more, find_ahead(loop));
    if (name == "last") return Value(!more);
    return more ? loop.ahead : Value::undefined("there is no next item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    TANDEM_ASSIGN(const int64_t length, loop_length(loop));
    if (name == "length") return Value::integer(length);
    return Value::integer(length - loop.index0 - (name == "revindex" ? 0 : 1));
  }
  return Value::undefined(
      fmt::format("'jinja2.runtime.LoopContext object' has no attribute '{}'", name));
}

Expected<Value> Interpreter::call_loop_method(Loop& loop,
                                              std::string_view name,
                                              const Arguments& arguments) {
  if (name == "cycle") {
    if (arguments.positional.empty()) return fail_value("no items for cycling given");
    const auto count = static_cast<int64_t>(arguments.positional.size());
    return arguments.positional[static_cast<size_t>(std::max<int64_t>(loop.index0, 0) % count)];
  }
  const std::vector<Value>& values = arguments.positional;
  const bool same = loop.has_changed_values && loop.changed_values.size() == values.size() &&
                    std::equal(values.begin(), values.end(), loop.changed_values.begin(), equals);
  if (same) return Value(false);
  loop.has_changed_values = true;
  if (loop.active) loop.changed_values = values;
  return Value(true);
}

// loop(children): the loop's body on other items.
Expected<Value> Interpreter::call_recursive_loop(Loop& loop, const Arguments& arguments) {
  if (!loop.stmt->recursive || !loop.active) {
    return fail_value(
        "The loop must have the 'recursive' marker to be called recursively, and still run");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return fail_value("loop() takes one argument");
  }
  const Deeper deeper(depth_);
  TANDEM_TRY(deeper.check(budget_));
  TANDEM_ASSIGN(const Value made,
                make_loop(*loop.stmt, *loop.outer, arguments.positional[0], loop.depth0 + 1));
  Output output;
  Output* const outer = std::exchange(output_, &output);
  auto done = run_loop(*made.get<Value::LoopRef>());
  output_ = outer;
  budget_.release(output.taken_bytes);
  if (!done) return fail(std::move(done).error());
  return make_string(budget_, std::move(output.text));
}

}  // namespace tandem::text::jinja
