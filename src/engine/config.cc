#include "engine/config.h"

#include <cmath>
#include <span>

#include "engine/request.h"

namespace tandem::engine {
namespace {

// Generous, but such that no sum or product of them overflows 32 or 64 bits where they are used.
constexpr int32_t kMaxBlocks = 1 << 28;
constexpr int32_t kMaxBlockTokens = 1 << 10;
constexpr int32_t kMaxCount = 1 << 24;
constexpr int32_t kMaxDrafts = 1 << 8;

Expected<void> in_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    return fail(ErrorCode::kInvalidArgument, "{} is {}, not {} … {}", name, value, low, high);
  return {};
}

Expected<void> ids_in_range(const char* name, std::span<const int32_t> ids, int32_t vocabulary) {
  for (const int32_t id : ids) TANDEM_TRY(in_range(name, id, 0, vocabulary - 1));
  return {};
}

Expected<void> validate_sampling(const EngineConfig& config, const SamplingParams& sampling) {
  for (const float value : {sampling.temperature,
                            sampling.top_p,
                            sampling.min_p,
                            sampling.repetition_penalty,
                            sampling.presence_penalty,
                            sampling.frequency_penalty})
    if (!std::isfinite(value))
      return fail(ErrorCode::kInvalidArgument, "a sampling parameter is not finite");
  if (sampling.temperature < 0)
    return fail(ErrorCode::kInvalidArgument, "temperature is {}, below 0", sampling.temperature);
  if (sampling.repetition_penalty <= 0)
    return fail(ErrorCode::kInvalidArgument,
                "repetition_penalty is {}, not above 0",
                sampling.repetition_penalty);
  TANDEM_TRY(in_range("max_tokens", sampling.max_tokens, 1, INT32_MAX));
  TANDEM_TRY(in_range("min_tokens", sampling.min_tokens, 0, sampling.max_tokens));
  TANDEM_TRY(in_range("logprobs", sampling.top_logprobs, -1, config.max_top_logprobs));
  TANDEM_TRY(
      in_range("prompt_logprobs", sampling.prompt_top_logprobs, -1, config.max_top_logprobs));
  for (const auto& [id, bias] : sampling.logit_bias) {
    TANDEM_TRY(in_range("logit_bias", id, 0, config.vocabulary - 1));
    if (!std::isfinite(bias)) return fail(ErrorCode::kInvalidArgument, "logit_bias is not finite");
  }
  TANDEM_TRY(ids_in_range("allowed_token_ids", sampling.allowed_token_ids, config.vocabulary));
  for (const std::vector<int32_t>& word : sampling.bad_words) {
    if (word.empty()) return fail(ErrorCode::kInvalidArgument, "bad_words has an empty entry");
    TANDEM_TRY(ids_in_range("bad_words", word, config.vocabulary));
  }
  return {};
}

}  // namespace

Expected<void> EngineConfig::validate() const {
  TANDEM_TRY(in_range("KV blocks", blocks, 1, kMaxBlocks));
  TANDEM_TRY(in_range("block_tokens", block_tokens, 1, kMaxBlockTokens));
  TANDEM_TRY(in_range("kv_groups", kv_groups, 1, 16));
  TANDEM_TRY(in_range("vocabulary", vocabulary, 1, kMaxCount));
  TANDEM_TRY(in_range("max_model_len", max_model_len, 2, kMaxCount));
  TANDEM_TRY(in_range("max_num_seqs", max_num_seqs, 1, 1 << 16));
  TANDEM_TRY(in_range("max_num_batched_tokens", max_num_batched_tokens, 1, kMaxCount));
  TANDEM_TRY(in_range("long_prefill_threshold", long_prefill_threshold, 0, kMaxCount));
  TANDEM_TRY(in_range("max_prompt_logprob_rows", max_prompt_logprob_rows, 1, kMaxCount));
  TANDEM_TRY(in_range("max_queue", max_queue, 1, kMaxCount));
  TANDEM_TRY(in_range("max_choices", max_choices, 1, 1 << 16));
  TANDEM_TRY(in_range("max_top_logprobs", max_top_logprobs, 0, vocabulary));
  TANDEM_TRY(in_range("max_drafts", max_drafts, 0, kMaxDrafts));
  TANDEM_TRY(in_range("block_event_capacity", block_event_capacity, 0, kMaxCount));
  TANDEM_TRY(in_range("KV pool tokens", length_limit(), 2, kMaxCount));
  TANDEM_TRY(in_range("mla_expand_from", form.expand_from, 0, kMaxCount));
  if (form.segment <= 0 || form.segment % block_tokens != 0)
    return fail(ErrorCode::kInvalidArgument,
                "the MLA segment of {} tokens is no multiple of the block's {}",
                form.segment,
                block_tokens);
  return {};
}

Expected<void> validate_request(const EngineConfig& config, const Request& request) {
  if (request.id.empty()) return fail(ErrorCode::kInvalidArgument, "the request has no id");
  if (!request.sink) return fail(ErrorCode::kInvalidArgument, "the request has no event sink");
  if (request.prompt.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  TANDEM_TRY(in_range("n", request.choices, 1, config.max_choices));
  const size_t length = request.prompt.size() + request.resume_output.size();
  const auto limit = static_cast<size_t>(config.length_limit());
  if (length >= limit)
    return Expected<void>(fail(Error{
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the prompt has {} tokens; with one token of output at most {} fit", length, limit),
        limit < static_cast<size_t>(config.max_model_len)
            ? "the KV pool is smaller than max_model_len: give it more memory"
            : "shorten the prompt or raise --max-model-len"}));
  if (!request.resume_output.empty()) {
    if (request.choices != 1)
      return fail(ErrorCode::kInvalidArgument, "only a request with n = 1 can be resumed");
    if (request.resume_output.size() >= static_cast<size_t>(request.sampling.max_tokens))
      return fail(ErrorCode::kInvalidArgument, "the resumed output has max_tokens already");
  }
  TANDEM_TRY(ids_in_range("prompt token", request.prompt, config.vocabulary));
  TANDEM_TRY(ids_in_range("output token", request.resume_output, config.vocabulary));
  return validate_sampling(config, request.sampling);
}

}  // namespace tandem::engine
