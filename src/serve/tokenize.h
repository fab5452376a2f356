#pragma once
// POST /tokenize and /detokenize: {prompt | messages …} -> {count, max_model_len, tokens,
// token_strs}; {tokens} -> {prompt}. Shapes: vLLM's.

#include "base/json.h"
#include "frontend/frontend.h"
#include "serve/fields.h"

namespace tandem::serve {

Checked<OrderedJson> answer_tokenize(const OrderedJson& body, const frontend::Frontend& frontend);
Checked<OrderedJson> answer_detokenize(const OrderedJson& body, const frontend::Frontend& frontend);

}  // namespace tandem::serve
