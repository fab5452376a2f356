#pragma once
// A conversation in the shape that chat templates take.

#include "base/json.h"

namespace tandem::frontend {

struct ChatInput {
  // Checked list of objects: role, content (always a string), and where given name, tool_calls,
  // tool_call_id, reasoning_content.
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // null or a non-empty list
  OrderedJson documents;  // null or a list
  OrderedJson template_kwargs =
      OrderedJson::object();  // further variables, e.g. {"thinking": true}
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the last message is left open
  bool add_special_tokens = false;      // templates write the begin token themselves
};

}  // namespace tandem::frontend
