#pragma once
// A running request seen from outside the engine: token events in (engine thread), text out (output
// threads).

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/request.h"
#include "frontend/generation_observer.h"
#include "frontend/output.h"
#include "frontend/output_pump.h"
#include "frontend/reasoning.h"
#include "frontend/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace tandem::frontend {

struct GenerationSetup {
  std::string id;  // the engine's request id
  int index = 0;   // the listener's number for it
  int32_t choices = 1;
  std::vector<int32_t> prompt;
  std::vector<std::string> stop;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  int32_t min_tokens = 0;
  int32_t max_tokens = 0;
  TimePoint arrival{};
  // Set: thinking is told from what is said.
  std::optional<ReasoningMarks> marks;
  ReasoningState reasoning = ReasoningState::kContent;
  const text::Tokenizer* tokenizer = nullptr;
  // Tells the engine that a choice is over; -1 = all of them.
  std::function<void(const std::string& id, int32_t choice)> abort;
  OutputPump* pump = nullptr;
  const Clock* clock = nullptr;
  GenerationObserver* observer = nullptr;  // may be null
};

// Owner: shared by the engine (as the request's sink) and the listener's side.
class Generation final : public engine::EventSink,
                         public PumpTask,
                         public std::enable_shared_from_this<Generation> {
 public:
  Generation(GenerationSetup setup, std::shared_ptr<OutputListener> listener);

  void on_event(engine::TokenEvent event) override;  // engine thread
  bool drain() override;                             // one output thread at a time

  // Ends it without further output. Any thread; idempotent.
  void abort();

  const std::string& id() const { return setup_.id; }

 private:
  struct Choice {
    explicit Choice(const GenerationSetup& setup);
    text::Detokenizer detokenizer;
    StopMatcher matcher;
    std::optional<ReasoningSplitter> splitter;
    int32_t tokens = 0;
    TimePoint first_token{};
    TimePoint last_token{};
    bool over = false;
  };
  struct TimedEvent {
    engine::TokenEvent event;
    TimePoint time{};  // when the engine gave it
  };

  void process(TimedEvent& timed);
  void note_token(TimePoint time, Choice& choice);
  void note_end(const TimedEvent& timed, const Choice& choice, engine::FinishReason finish);
  OutputDelta begin_delta(const engine::TokenEvent& event) const;
  void add_prompt(engine::TokenEvent& event, OutputDelta& delta) const;
  void add_token(const engine::TokenEvent& event, Choice& choice, OutputDelta& delta);
  void finish(const engine::TokenEvent& event, Choice& choice, OutputDelta& delta);
  void push_text(const std::string& piece, Choice& choice, OutputDelta& delta);
  static void release(const std::string& text, Choice& choice, OutputDelta& delta);
  TokenText token_text(int32_t id) const;

  GenerationSetup setup_;
  std::shared_ptr<OutputListener> listener_;  // output threads only
  std::vector<Choice> choices_;               // output threads only
  int32_t longest_output_ = 0;                // output threads only

  std::mutex mutex_;
  std::deque<TimedEvent> events_;  // by mutex_
  bool queued_ = false;            // by mutex_: the pump knows of it
  std::atomic<bool> aborted_{false};
};

}  // namespace tandem::frontend
