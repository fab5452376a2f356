#include "serve/call.h"

#include <iterator>
#include <numeric>
#include <utility>

#include "net/sse.h"
#include "serve/api_error.h"

namespace tandem::serve {
namespace {

PromptView prompt_of(const CallSetup& setup, size_t prompt) {
  return {setup.prompt_texts.empty() ? nullptr : &setup.prompt_texts[prompt],
          &setup.prompts[prompt]};
}

}  // namespace

Call::Call(CallSetup setup, LoadTicket load, net::ResponseWriter writer)
    : setup_(std::move(setup)), load_(std::move(load)), writer_(std::move(writer)) {
  const size_t prompts = setup_.prompts.size();
  choices_.resize(prompts * static_cast<size_t>(setup_.choices_per_prompt));
  for (size_t i = 0; i < choices_.size(); ++i) choices_[i].index = static_cast<int32_t>(i);
  cached_tokens_.resize(prompts);
  open_choices_ = choices_.size();
  if (is_streaming()) frame_.emplace(setup_.head, setup_.stream.include_usage);
}

void Call::start(frontend::Frontend& frontend, std::vector<frontend::PreparedGeneration> prepared) {
  {
    // Output that arrives meanwhile waits, so that the head of the stream is first.
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < prepared.size(); ++i) {
      auto generation =
          frontend.start(std::move(prepared[i]), static_cast<int>(i), shared_from_this());
      if (!generation) {
        set_over();
        abort_all();
        writer_.respond(error_response(generation.error()));
        return;
      }
      generations_.push_back(std::move(*generation));
    }
    if (is_streaming()) begin_stream();
  }
  // The connection holds the call weakly: when the client goes, the engine is told at once.
  writer_.on_close([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const std::lock_guard lock(self->mutex_);
      self->over_ = true;  // a load until the engine has let go of it
      self->abort_all();
    }
  });
}

void Call::on_output(int generation, frontend::OutputDelta delta) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  if (delta.error) {
    end_with_error(*delta.error);
    return;
  }
  const auto prompt = static_cast<size_t>(generation);
  ChoiceState& choice = choices_[prompt * static_cast<size_t>(setup_.choices_per_prompt) +
                                 static_cast<size_t>(delta.choice)];
  cached_tokens_[prompt] = delta.cached_tokens;
  if (setup_.style.score_only) {
    delta.tokens.clear();
    delta.text.clear();
  }
  completion_tokens_ += static_cast<int64_t>(delta.tokens.size());
  reasoning_tokens_ += delta.reasoning_tokens;
  if (is_streaming()) {
    stream_delta(choice, delta);
  } else {
    collect_delta(choice, delta);
  }
  if (delta.finish != engine::FinishReason::kNone && --open_choices_ == 0) finish();
}

// Nothing is said after this.
void Call::set_over() {
  over_ = true;
  load_.release();
}

void Call::begin_stream() {
  writer_.begin_stream(200,
                       {{"content-type", std::string(net::kSseContentType)},
                        {"cache-control", "no-cache"},
                        {"x-accel-buffering", "no"}});
  for (ChoiceState& choice : choices_) {
    const size_t prompt =
        static_cast<size_t>(choice.index) / static_cast<size_t>(setup_.choices_per_prompt);
    for (OrderedJson& opening : opening_choices(setup_.style, choice, prompt_of(setup_, prompt))) {
      OrderedJson frame = head_json(setup_.head);
      frame["choices"] = OrderedJson::array({std::move(opening)});
      if (setup_.style.chat && setup_.style.return_token_ids)
        frame["prompt_token_ids"] = setup_.prompts[prompt];
      write_frame(frame);
    }
  }
}

// With stream_interval: the first token goes out at once, then so many together, and the rest at
// the end. True: nothing to show yet; else `delta` has all that was held.
bool Call::hold(ChoiceState& choice, frontend::OutputDelta& delta) const {
  if (setup_.stream.interval == 1 || !choice.has_streamed) {
    choice.has_streamed = true;
    return false;
  }
  frontend::OutputDelta& held = choice.held;
  held.text += delta.text;
  held.reasoning += delta.reasoning;
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(held.tokens));
  const bool ends = delta.finish != engine::FinishReason::kNone;
  if (!ends && static_cast<int64_t>(held.tokens.size()) < setup_.stream.interval) return true;
  delta.text = std::exchange(held.text, {});
  delta.reasoning = std::exchange(held.reasoning, {});
  delta.tokens = std::exchange(held.tokens, {});
  return false;
}

void Call::stream_delta(ChoiceState& choice, frontend::OutputDelta& delta) {
  if (hold(choice, delta)) return;
  if (!setup_.style.include_reasoning) delta.reasoning.clear();
  if (!delta.reasoning.empty() && !delta.text.empty()) {
    // One chunk has one kind of text; the tokens go with the second.
    frontend::OutputDelta thought;
    thought.reasoning = std::exchange(delta.reasoning, {});
    write_choice(stream_choice(setup_.style, choice, thought));
  }
  const bool nothing = delta.text.empty() && delta.reasoning.empty() &&
                       delta.finish == engine::FinishReason::kNone &&
                       !(setup_.style.logprobs && !delta.tokens.empty()) && delta.prompt.empty() &&
                       !(setup_.style.return_token_ids && !delta.tokens.empty());
  if (nothing) return;
  if (is_plain(delta)) {
    write_plain(choice.index, delta);
  } else {
    write_choice(stream_choice(setup_.style, choice, delta));
  }
}

void Call::write_plain(int32_t index, const frontend::OutputDelta& delta) {
  ChunkText kind = ChunkText::kCompletion;
  if (setup_.style.chat)
    kind = delta.reasoning.empty() ? ChunkText::kChatContent : ChunkText::kChatReasoning;
  writer_.write(frame_->event(kind, index, delta.reasoning.empty() ? delta.text : delta.reasoning));
}

void Call::write_choice(OrderedJson choice) {
  OrderedJson frame = head_json(setup_.head);
  frame["choices"] = OrderedJson::array({std::move(choice)});
  write_frame(frame);
}

// What nearly every token gives: one kind of text and nothing else.
bool Call::is_plain(const frontend::OutputDelta& delta) const {
  return delta.text.empty() != delta.reasoning.empty() &&
         delta.finish == engine::FinishReason::kNone && delta.prompt.empty() &&
         !setup_.style.logprobs && !setup_.style.return_token_ids &&
         !setup_.stream.continuous_usage;
}

void Call::collect_delta(ChoiceState& choice, frontend::OutputDelta& delta) {
  choice.text += delta.text;
  choice.reasoning += delta.reasoning;
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(choice.tokens));
  if (!delta.prompt.empty()) choice.prompt = std::move(delta.prompt);
  if (delta.finish != engine::FinishReason::kNone) {
    choice.finish = delta.finish;
    choice.stop_reason = std::move(delta.stop_reason);
  }
}

void Call::end_with_error(const frontend::RequestError& error) {
  set_over();
  abort_all();
  if (!is_streaming()) {
    writer_.respond(error_response(error));
    return;
  }
  writer_.write(net::sse_data(dump_json(error_body(error))));
  writer_.write(net::sse_data("[DONE]"));
  writer_.end();
}

void Call::finish() {
  set_over();
  if (is_streaming()) {
    if (setup_.stream.include_usage) {
      OrderedJson frame = head_json(setup_.head);
      frame["choices"] = OrderedJson::array();
      frame["usage"] = usage_json(usage());
      writer_.write(net::sse_data(dump_json(frame)));
    }
    writer_.write(net::sse_data("[DONE]"));
    writer_.end();
    return;
  }
  OrderedJson body = head_json(setup_.head);
  OrderedJson list = OrderedJson::array();
  for (ChoiceState& choice : choices_) {
    const size_t prompt =
        static_cast<size_t>(choice.index) / static_cast<size_t>(setup_.choices_per_prompt);
    list.push_back(whole_choice(setup_.style, choice, prompt_of(setup_, prompt)));
  }
  body["choices"] = std::move(list);
  body["service_tier"] = nullptr;
  body["system_fingerprint"] = setup_.head.fingerprint;
  body["usage"] = usage_json(usage());
  if (setup_.style.chat) {
    body["prompt_logprobs"] =
        setup_.style.prompt_logprobs ? prompt_logprobs_json(choices_[0].prompt) : OrderedJson();
    body["prompt_token_ids"] =
        setup_.style.return_token_ids ? OrderedJson(setup_.prompts[0]) : OrderedJson();
  }
  body["kv_transfer_params"] = nullptr;
  writer_.respond(json_response(200, body));
}

void Call::write_frame(const OrderedJson& frame) {
  if (!setup_.stream.include_usage) {
    writer_.write(net::sse_data(dump_json(frame)));
    return;
  }
  OrderedJson with_usage = frame;
  with_usage["usage"] = setup_.stream.continuous_usage ? usage_json(usage()) : OrderedJson();
  writer_.write(net::sse_data(dump_json(with_usage)));
}

void Call::abort_all() {
  for (const auto& generation : generations_) generation->abort();
}

Usage Call::usage() const {
  Usage out;
  for (const auto& prompt : setup_.prompts)
    out.prompt_tokens += static_cast<int64_t>(prompt.size());
  out.completion_tokens = completion_tokens_;
  out.cached_tokens = std::accumulate(cached_tokens_.begin(), cached_tokens_.end(), int64_t{0});
  out.with_details = setup_.usage_details;
  if (setup_.splits_reasoning) out.reasoning_tokens = reasoning_tokens_;
  return out;
}

}  // namespace tandem::serve
