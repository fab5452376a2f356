#pragma once
// The tree of a parsed template. Immutable once parsed; shared by renderings.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace tandem::text::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

enum class ExprKind {
  kConstant,   // value
  kName,       // name
  kConcat,     // parts: a ~ b ~ c
  kChain,      // parts and operators of one rank, from the left
  kCompare,    // parts and operators: a < b < c
  kAnd,        // parts
  kOr,         // parts
  kNot,        // parts[0]
  kNegative,   // parts[0]
  kPositive,   // parts[0]
  kCondition,  // parts: then, test, else (null: undefined)
  kAttribute,  // parts[0].name; value: the name as a string
  kItem,       // parts[0][parts[1]]
  kSlice,      // parts: object, start, stop, step (null where left out)
  kCall,       // parts[0](arguments)
  kFilter,     // parts[0] | name(arguments); in a filter block, parts[0] is null
  kTest,       // parts[0] is name(arguments)
  kList,       // parts
  kTuple,      // parts
  kDict,       // parts: key, value, key, value …
};

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct ArgumentExprs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args
  ExprPtr double_star;  // **kwargs
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int depth = 1;  // of the tree below
  Value value;
  std::string name;
  std::vector<ExprPtr> parts;
  std::vector<Operator> operators;
  ArgumentExprs arguments;
};

enum class StmtKind {
  kText,         // text
  kOutput,       // exprs[0]
  kFor,          // target, exprs: iterable, condition or null; body, else_body
  kIf,           // branches
  kSet,          // target = exprs[0]
  kSetBlock,     // target = body through the filter exprs[0] (may be null)
  kMacro,        // name, parameters, body
  kCallBlock,    // exprs[0] is the call; parameters, body are its caller()
  kFilterBlock,  // body through exprs[0]
  kWith,         // assignments, body
  kScope,        // body with names of its own (generation)
  kBreak,
  kContinue,
};

// What a value is assigned to: a name, a member of a namespace, or several of these.
struct Target {
  enum class Kind { kName, kMember, kTuple };
  Kind kind = Kind::kName;
  std::string name;    // the name, or the namespace's
  std::string member;  // kMember
  std::vector<Target> parts;
};

struct Parameter {
  std::string name;
  ExprPtr default_value;  // null: none
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  std::string name;
  Target target;
  bool recursive = false;      // kFor
  bool takes_varargs = false;  // kMacro, kCallBlock: the body uses `varargs`
  bool takes_kwargs = false;   // the body uses `kwargs`
  std::vector<ExprPtr> exprs;
  std::vector<Parameter> parameters;
  std::vector<std::pair<ExprPtr, Body>> branches;       // kIf: the last may have no test (else)
  std::vector<std::pair<Target, ExprPtr>> assignments;  // kWith
  Body body;
  Body else_body;
};

}  // namespace tandem::text::jinja
