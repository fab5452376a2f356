#include "serve/model_cards.h"

#include <algorithm>

#include "base/log.h"
#include "serve/api_error.h"

namespace tandem::serve {
namespace {

OrderedJson model_card(const ModelCardFacts& facts, const std::string& name) {
  OrderedJson card;
  card["id"] = name;
  card["object"] = "model";
  card["created"] = facts.created;
  card["owned_by"] = "tandem";
  card["root"] = facts.root;
  card["parent"] = nullptr;
  card["max_model_len"] = facts.max_model_len;
  card["permission"] = OrderedJson::array();
  return card;
}

}  // namespace

OrderedJson model_list(const ModelCardFacts& facts) {
  OrderedJson out;
  out["object"] = "list";
  out["data"] = OrderedJson::array();
  for (const std::string& name : facts.names) out["data"].push_back(model_card(facts, name));
  return out;
}

net::Response model_card_response(const ModelCardFacts& facts, const std::string& id) {
  if (std::find(facts.names.begin(), facts.names.end(), id) == facts.names.end()) {
    return error_response(
        404, fmt::format("The model `{}` does not exist.", log_safe(id)), "model");
  }
  return json_response(200, model_card(facts, id));
}

}  // namespace tandem::serve
