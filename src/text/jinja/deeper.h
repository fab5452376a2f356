#pragma once
// Counts nested evaluations of the interpreter, so that its recursion ends before the stack does.

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja {

class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

  Expected<void> check(const Budget& budget) const {
    if (depth_ <= budget.limits().max_depth) return {};
    return fail_value("evaluation is nested deeper than {} levels", budget.limits().max_depth);
  }

 private:
  int& depth_;
};

}  // namespace tandem::text::jinja
