#pragma once
// GET /v1/models and /v1/models/{id}. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "net/http_message.h"

namespace tandem::serve {

struct ModelCardFacts {
  std::vector<std::string> names;
  std::string root;
  int64_t max_model_len = 0;
  int64_t created = 0;  // seconds since 1970: when the server started
};

OrderedJson model_list(const ModelCardFacts& facts);
// The card, or 404 in the error shape.
net::Response model_card_response(const ModelCardFacts& facts, const std::string& id);

}  // namespace tandem::serve
