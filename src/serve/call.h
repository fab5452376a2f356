#pragma once
// One answered request: from started generations to a JSON answer or an SSE stream. Chat and
// completions differ in how a choice is written (choice_format.h), in nothing else.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/frontend.h"
#include "net/response_writer.h"
#include "serve/choice_format.h"
#include "serve/generation_fields.h"
#include "serve/stream_frame.h"

namespace tandem::serve {

// Calls that are under way: not yet answered, or still in the engine because the client has only
// just gone. Shared by them and by whoever tells.
using LoadCounter = std::atomic<int64_t>;

// Counts one call while it lives.
class LoadTicket {
 public:
  explicit LoadTicket(std::shared_ptr<LoadCounter> counter) : counter_(std::move(counter)) {
    ++*counter_;
  }
  ~LoadTicket() { release(); }
  LoadTicket(LoadTicket&&) noexcept = default;
  LoadTicket& operator=(LoadTicket&&) = delete;
  void release() {
    if (counter_) --*std::exchange(counter_, nullptr);
  }

 private:
  std::shared_ptr<LoadCounter> counter_;
};

struct CallSetup {
  AnswerHead head;
  ChoiceStyle style;
  StreamOptions stream;
  int choices_per_prompt = 1;
  bool usage_details = false;
  bool splits_reasoning = false;
  std::vector<std::vector<int32_t>> prompts;  // ids, for usage and return_token_ids
  std::vector<std::string> prompt_texts;      // what comes before each text, with echo
};

// Owner: shared by the generations, and by whoever waits for the connection's end. Thread-safe:
// output of several generations and the end of the connection may come at the same time.
class Call final : public frontend::OutputListener, public std::enable_shared_from_this<Call> {
 public:
  Call(CallSetup setup, LoadTicket load, net::ResponseWriter writer);

  // Starts every generation, then the stream if one was asked for. If one cannot start, the others
  // are aborted and the answer is the error. Called once.
  void start(frontend::Frontend& frontend, std::vector<frontend::PreparedGeneration> prepared);

  void on_output(int generation, frontend::OutputDelta delta) override;

 private:
  void set_over();
  void begin_stream();
  bool hold(ChoiceState& choice, frontend::OutputDelta& delta) const;
  void stream_delta(ChoiceState& choice, frontend::OutputDelta& delta);
  void write_plain(int32_t index, const frontend::OutputDelta& delta);
  bool is_plain(const frontend::OutputDelta& delta) const;
  void collect_delta(ChoiceState& choice, frontend::OutputDelta& delta);
  void end_with_error(const frontend::RequestError& error);
  void finish();
  void write_choice(OrderedJson choice);
  void write_frame(const OrderedJson& frame);
  void abort_all();
  Usage usage() const;
  bool is_streaming() const { return setup_.stream.stream; }

  CallSetup setup_;
  LoadTicket load_;
  net::ResponseWriter writer_;
  std::optional<StreamFrame> frame_;  // of streams
  std::mutex mutex_;
  std::vector<ChoiceState> choices_;  // [prompt * choices_per_prompt + choice]
  std::vector<std::shared_ptr<frontend::Generation>> generations_;
  std::vector<int32_t> cached_tokens_;  // by prompt
  int64_t completion_tokens_ = 0;
  int64_t reasoning_tokens_ = 0;
  size_t open_choices_ = 0;
  bool over_ = false;
};

}  // namespace tandem::serve
