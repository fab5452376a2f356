#pragma once
// The `messages` list of a chat request: types checked, text parts joined, nulls made strings.
// Pure.

#include "base/json.h"
#include "serve/fields.h"

namespace tandem::serve {

constexpr size_t kMaxMessages = 10'000;

Checked<OrderedJson> normalize_messages(const OrderedJson* messages);

}  // namespace tandem::serve
