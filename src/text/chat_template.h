#pragma once
// A model's chat template: Jinja source to text, with bounds, and with the parts marked that came
// from the client. ChatTemplate: immutable after parse, any thread.

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "text/jinja/budget.h"
#include "text/marked_text.h"

namespace tandem::text {

// What a template is rendered with.
struct ChatContext {
  // An object: `messages`, `tools`, `documents` (null where there are none),
  // `add_generation_prompt` and whatever else the template may read. All its strings and keys are
  // untrusted, but for `messages[i].role` where it is a role by name (system, user, …).
  const OrderedJson* variables = nullptr;
  // Trusted strings: bos_token, eos_token … of tokenizer_config.json. They win over variables of
  // the same name.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  // Local time for strftime_now; none: the system's at the call.
  std::optional<std::tm> now;
};

class ChatTemplate {
 public:
  static constexpr size_t kMaxSourceBytes = 1 << 20;

  // Errors: kInvalidArgument (syntax, with the line), kUnsupported (a part of Jinja that is not
  // built, by name).
  static Expected<ChatTemplate> parse(std::string_view source, const TemplateLimits& limits = {});

  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // The text, and which of it is untrusted: what Tokenizer::encode takes. Errors:
  // kInvalidArgument with the message that the template gave to raise_exception, as it is;
  // kInvalidArgument where the template cannot digest the values or a bound is passed, kTimeout
  // where it takes too many steps or too long ("chat template, line N: …").
  Expected<MarkedText> render(const ChatContext& context, const Clock& clock) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

}  // namespace tandem::text
