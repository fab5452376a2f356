#pragma once
// The one request path for HTTP, command line and Python: template, tokenize, validate, submit; and
// back: detokenize, stop strings. Everything that a client can get wrong is found here, before the
// engine hears of it.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "frontend/chat_input.h"
#include "frontend/chat_prompt.h"
#include "frontend/generation.h"
#include "frontend/generation_observer.h"
#include "frontend/generation_options.h"
#include "frontend/output.h"
#include "frontend/output_pump.h"
#include "frontend/reasoning.h"
#include "frontend/request_error.h"
#include "frontend/validate.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tandem::frontend {

struct FrontendConfig {
  RequestLimits limits;
  model::GenerationDefaults defaults;  // where a client says nothing
  std::vector<int32_t> eos_ids;
  SpecialTokens special_tokens;
  // Set: chats have the model's thinking split off.
  std::optional<ReasoningMarks> reasoning_marks;
  bool thinks_unasked = false;  // the model thinks first even where its template opens nothing
  int output_threads = 1;
  GenerationObserver* observer = nullptr;  // may be null; outlives the frontend
};

// A request that will be accepted if there is room for it.
struct PreparedGeneration {
  std::vector<int32_t> prompt;
  ValidatedOptions options;
  std::string cache_salt;
  int32_t priority = 0;
  std::optional<ReasoningState> reasoning;  // none: not split
};

// Owner: the program. Tokenizer, template, engine and clock outlive it. Every function from any
// thread.
class Frontend {
 public:
  // `chat_template` may be null: then chat is refused with the reason.
  Frontend(FrontendConfig config,
           const text::Tokenizer& tokenizer,
           const text::ChatTemplate* chat_template,
           engine::Engine& engine,
           const Clock& clock);

  // A raw prompt: spellings of special tokens become those tokens, as in vLLM.
  Checked<std::vector<int32_t>> encode_text(std::string_view text, bool add_special_tokens) const;
  // A conversation through the chat template: text of messages never becomes a control token.
  Checked<std::vector<int32_t>> encode_chat(const ChatInput& input) const;

  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const;
  TokenText token_text(int32_t id) const;

  // Checks everything. `default_max_tokens` as in validate_options.
  Checked<PreparedGeneration> prepare(std::vector<int32_t> prompt,
                                      const GenerationOptions& options,
                                      std::optional<int64_t> default_max_tokens) const;

  // Hands it to the engine. kOverloaded if the queue is full or the engine drains. The listener
  // hears of it until its last choice ends; dropping the Generation does not abort it.
  Checked<std::shared_ptr<Generation>> start(PreparedGeneration prepared,
                                             int index,
                                             std::shared_ptr<OutputListener> listener);

  const FrontendConfig& config() const { return config_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  Checked<void> add_bad_words(const std::vector<std::string>& words,
                              engine::SamplingParams& sampling) const;

  FrontendConfig config_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  engine::Engine& engine_;
  const Clock& clock_;
  OutputPump pump_;
};

}  // namespace tandem::frontend
