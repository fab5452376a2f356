#pragma once
// The `attribute` argument of filters: a member, an index, or several with dots ("user.name", "0").

#include <vector>

#include "text/jinja/value.h"

namespace tandem::text::jinja {

class Interpreter;

class AttributePath {
 public:
  // Without parts: the value itself.
  AttributePath() = default;

  // Null or None: the value itself. Errors: neither a string nor an integer.
  static Expected<AttributePath> parse(Interpreter& interpreter, const Value* attribute);
  // Paths with commas between.
  static Expected<std::vector<AttributePath>> parse_several(Interpreter& interpreter,
                                                            const Value* attribute);

  // The member of `item`; `if_undefined` in place of each that is not there, if given.
  Expected<Value> get(Interpreter& interpreter,
                      const Value& item,
                      const Value* if_undefined = nullptr) const;

 private:
  std::vector<Value> parts_;
};

}  // namespace tandem::text::jinja
