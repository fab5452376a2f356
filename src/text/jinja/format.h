#pragma once
// Python's two ways to put values into a text: "%s" % x and "{}".format(x).

#include "text/jinja/budget.h"
#include "text/jinja/callable.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja {

// `format % value`; a tuple gives several values, a dict named ones ("%(name)s").
Expected<Value> percent_format(Budget& budget, const MarkedText& format, const Value& value);

// `format.format(...)`: positions and names; members and items of them are refused.
Expected<Value> brace_format(Budget& budget, const MarkedText& format, const Arguments& arguments);

}  // namespace tandem::text::jinja
