#include "frontend/validate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem::frontend {
namespace {

Checked<float> number(const std::optional<double>& value,
                      double fallback,
                      const char* name,
                      bool accepted,
                      const char* range) {
  const double chosen = value.value_or(fallback);
  if (!std::isfinite(chosen) || !accepted)
    return invalid(name, "must be {}, found {}", range, chosen);
  return static_cast<float>(chosen);
}

Checked<void> check_ids(const std::vector<int64_t>& ids,
                        const char* name,
                        const RequestLimits& limits) {
  for (const int64_t id : ids) {
    if (id < 0 || id >= limits.vocabulary) {
      return invalid(name, "must hold token ids from 0 to {}, found {}", limits.vocabulary - 1, id);
    }
  }
  return {};
}

Checked<void> check_count(size_t count, int64_t most, const char* name) {
  if (static_cast<int64_t>(count) <= most) return {};
  return std::unexpected(
      RequestError{ErrorKind::kTooLarge,
                   fmt::format("'{}' has {} entries, at most {} are accepted", name, count, most),
                   name});
}

Checked<void> set_numbers(const GenerationOptions& o,
                          const model::GenerationDefaults& d,
                          engine::SamplingParams& p) {
  const double temperature = o.temperature.value_or(d.temperature.value_or(1.0));
  TANDEM_ASSIGN(
      p.temperature,
      number(
          temperature, 1, "temperature", temperature >= 0 && temperature <= 2, "between 0 and 2"));
  // vLLM: below 1e-5 is greedy, up to 0.01 is raised to 0.01 (logits divided by less overflow).
  if (p.temperature < 1e-5f) {
    p.temperature = 0;
  } else {
    p.temperature = std::max(p.temperature, 0.01f);
  }
  const double top_p = o.top_p.value_or(d.top_p.value_or(1.0));
  TANDEM_ASSIGN(p.top_p, number(top_p, 1, "top_p", top_p > 0 && top_p <= 1, "in (0, 1]"));
  const int64_t top_k = o.top_k.value_or(d.top_k.value_or(0));
  if (top_k < -1 || top_k > INT32_MAX)
    return invalid("top_k", "must be -1 or 0 (off) or at least 1, found {}", top_k);
  p.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  const double min_p = o.min_p.value_or(d.min_p.value_or(0.0));
  TANDEM_ASSIGN(p.min_p, number(min_p, 0, "min_p", min_p >= 0 && min_p <= 1, "between 0 and 1"));
  const double repetition = o.repetition_penalty.value_or(d.repetition_penalty.value_or(1.0));
  TANDEM_ASSIGN(p.repetition_penalty,
                number(repetition, 1, "repetition_penalty", repetition > 0, "above 0"));
  const double presence = o.presence_penalty.value_or(0);
  TANDEM_ASSIGN(
      p.presence_penalty,
      number(presence, 0, "presence_penalty", std::abs(presence) <= 2, "between -2 and 2"));
  const double frequency = o.frequency_penalty.value_or(0);
  TANDEM_ASSIGN(
      p.frequency_penalty,
      number(frequency, 0, "frequency_penalty", std::abs(frequency) <= 2, "between -2 and 2"));
  return {};
}

Checked<void> set_lengths(const GenerationOptions& o,
                          const model::GenerationDefaults& d,
                          int64_t room,
                          std::optional<int64_t> default_max_tokens,
                          engine::SamplingParams& p) {
  std::optional<int64_t> wanted = o.max_tokens;
  if (wanted && (*wanted < 1 || *wanted > INT32_MAX)) {
    return invalid(o.max_tokens_name, "must be between 1 and {}, found {}", INT32_MAX, *wanted);
  }
  if (!wanted) wanted = d.max_new_tokens;
  if (!wanted) wanted = default_max_tokens;
  const int64_t max_tokens = std::min(wanted.value_or(room), room);
  p.max_tokens = static_cast<int32_t>(max_tokens);
  const int64_t min_tokens = o.min_tokens.value_or(0);
  if (min_tokens < 0 || min_tokens > max_tokens) {
    return invalid("min_tokens",
                   "must be between 0 and the output limit of {} tokens, found {}",
                   max_tokens,
                   min_tokens);
  }
  p.min_tokens = static_cast<int32_t>(min_tokens);
  p.ignore_eos = o.ignore_eos.value_or(false);
  return {};
}

Checked<void> set_repetition(const GenerationOptions& o,
                             const RequestLimits& limits,
                             engine::SamplingParams& p) {
  if (!o.repetition || o.repetition->max_pattern_size == 0) return {};
  const auto& [low, high, count] = *o.repetition;
  if (high < 0 || high > limits.max_pattern_size || low < 0 || low > high) {
    return invalid("repetition_detection",
                   "needs 0 <= min_pattern_size <= max_pattern_size <= {}, found {} and {}",
                   limits.max_pattern_size,
                   low,
                   high);
  }
  if (count < 2 || count > INT32_MAX)
    return invalid("repetition_detection", "needs a min_count of at least 2, found {}", count);
  p.repetition = {.min_size = static_cast<int32_t>(std::max<int64_t>(low, 1)),
                  .max_size = static_cast<int32_t>(high),
                  .min_count = static_cast<int32_t>(count)};
  return {};
}

Checked<void> set_ids(const GenerationOptions& o,
                      const RequestLimits& limits,
                      engine::SamplingParams& p) {
  TANDEM_TRY(check_count(o.stop_token_ids.size(), limits.max_stop_token_ids, "stop_token_ids"));
  TANDEM_TRY(check_ids(o.stop_token_ids, "stop_token_ids", limits));
  p.stop_token_ids.assign(o.stop_token_ids.begin(), o.stop_token_ids.end());
  TANDEM_TRY(check_count(o.logit_bias.size(), limits.max_logit_bias, "logit_bias"));
  for (const auto& [id, bias] : o.logit_bias) {
    TANDEM_TRY(check_ids({id}, "logit_bias", limits));
    if (!std::isfinite(bias)) return invalid("logit_bias", "must hold finite numbers");
    // OpenAI's range; vLLM clamps too.
    p.logit_bias.emplace_back(static_cast<int32_t>(id),
                              static_cast<float>(std::clamp(bias, -100.0, 100.0)));
  }
  if (o.allowed_token_ids) {
    TANDEM_TRY(check_count(o.allowed_token_ids->size(), limits.vocabulary, "allowed_token_ids"));
    if (o.allowed_token_ids->empty()) return invalid("allowed_token_ids", "must not be empty");
    TANDEM_TRY(check_ids(*o.allowed_token_ids, "allowed_token_ids", limits));
    p.allowed_token_ids.assign(o.allowed_token_ids->begin(), o.allowed_token_ids->end());
  }
  return {};
}

Checked<int32_t> logprob_count(const std::optional<int64_t>& value,
                               const std::string& name,
                               const RequestLimits& limits) {
  if (!value) return -1;
  if (*value < 0 || *value > limits.max_logprobs) {
    return invalid(name, "must be between 0 and {}, found {}", limits.max_logprobs, *value);
  }
  return static_cast<int32_t>(std::min(*value, limits.vocabulary));
}

Checked<void> check_stop_strings(const GenerationOptions& o, const RequestLimits& limits) {
  TANDEM_TRY(check_count(o.stop.size(), limits.max_stop_strings, "stop"));
  for (const std::string& stop : o.stop) {
    if (stop.empty()) return invalid("stop", "must not hold an empty string");
    if (static_cast<int64_t>(stop.size()) > limits.max_stop_bytes) {
      return invalid("stop",
                     "holds a string of {} bytes, at most {} are accepted",
                     stop.size(),
                     limits.max_stop_bytes);
    }
  }
  return {};
}

// What a prompt's lists take in memory, in ids of 4 bytes.
int64_t list_ids(const engine::SamplingParams& p) {
  constexpr size_t kWordOverhead = 14;  // a vector and its allocation
  size_t ids = p.allowed_token_ids.size() + p.stop_token_ids.size() + 2 * p.logit_bias.size();
  for (const std::vector<int32_t>& word : p.bad_words) ids += word.size() + kWordOverhead;
  return static_cast<int64_t>(ids);
}

}  // namespace

Checked<ValidatedOptions> validate_options(const GenerationOptions& options,
                                           const model::GenerationDefaults& defaults,
                                           const RequestLimits& limits,
                                           int64_t prompt_tokens,
                                           std::optional<int64_t> default_max_tokens) {
  ValidatedOptions out;
  engine::SamplingParams& p = out.sampling;
  TANDEM_TRY(set_numbers(options, defaults, p));
  TANDEM_TRY(
      set_lengths(options, defaults, limits.max_model_len - prompt_tokens, default_max_tokens, p));
  TANDEM_TRY(set_ids(options, limits, p));
  TANDEM_TRY(set_repetition(options, limits, p));
  TANDEM_ASSIGN(p.top_logprobs, logprob_count(options.logprobs, options.logprobs_name, limits));
  TANDEM_ASSIGN(p.prompt_top_logprobs,
                logprob_count(options.prompt_logprobs, "prompt_logprobs", limits));
  TANDEM_TRY(check_stop_strings(options, limits));
  TANDEM_TRY(check_count(options.bad_words.size(), limits.max_bad_words, "bad_words"));
  const int64_t n = options.n.value_or(1);
  if (n < 1 || n > limits.max_choices)
    return invalid("n", "must be between 1 and {}, found {}", limits.max_choices, n);
  if (options.priority < INT32_MIN || options.priority > INT32_MAX) {
    return invalid("priority", "must fit 32 bits, found {}", options.priority);
  }
  out.choices = static_cast<int32_t>(n);
  if (options.seed && *options.seed != -1) {  // -1 is vLLM's "none"
    p.seed = static_cast<uint64_t>(*options.seed);
    out.seeded = true;
  }
  out.stop = options.stop;
  out.include_stop_str_in_output = options.include_stop_str_in_output;
  out.skip_special_tokens = options.skip_special_tokens;
  return out;
}

Checked<void> CallSize::add(int64_t prompt_tokens, const ValidatedOptions& options) {
  const engine::SamplingParams& p = options.sampling;
  sequences_ += options.choices;
  if (sequences_ > limits_.max_sequences) {
    return std::unexpected(RequestError{
        ErrorKind::kTooLarge,
        fmt::format("'n' times the number of prompts must be at most {}", limits_.max_sequences),
        "n"});
  }
  list_ids_ += list_ids(p);
  if (list_ids_ > limits_.max_list_ids) {
    return std::unexpected(
        RequestError{ErrorKind::kTooLarge,
                     "'prompt' has too many entries for so long bad_words, allowed_token_ids, "
                     "logit_bias and stop_token_ids, which each of them keeps",
                     "prompt"});
  }
  // The drawn token's and the most likely ones'. Each factor is within its own limit: no overflow.
  if (p.prompt_top_logprobs >= 0) kept_logprobs_ += prompt_tokens * (1 + p.prompt_top_logprobs);
  if (p.top_logprobs >= 0 && !streamed_)
    kept_logprobs_ += int64_t{options.choices} * p.max_tokens * (1 + p.top_logprobs);
  if (kept_logprobs_ <= limits_.max_kept_logprobs) return {};
  return std::unexpected(
      RequestError{ErrorKind::kTooLarge,
                   fmt::format("'logprobs' and 'prompt_logprobs' ask for more than {} "
                               "log-probabilities in one answer; lower them, n or max_tokens",
                               limits_.max_kept_logprobs),
                   "logprobs"});
}

Checked<std::vector<int32_t>> check_prompt(std::vector<int32_t> ids,
                                           const GenerationOptions& options,
                                           const RequestLimits& limits) {
  if (options.truncate_prompt_tokens) {
    const int64_t asked = *options.truncate_prompt_tokens;
    if (asked < -1 || asked == 0 || asked > limits.max_model_len) {
      return invalid("truncate_prompt_tokens",
                     "must be -1 or between 1 and {}, found {}",
                     limits.max_model_len,
                     asked);
    }
    const auto keep = static_cast<size_t>(asked == -1 ? limits.max_model_len - 1 : asked);
    if (ids.size() > keep && options.truncate_end) ids.resize(keep);
    if (ids.size() > keep) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(keep));
  }
  if (ids.empty()) return invalid("prompt", "is empty: at least one token is needed");
  for (const int32_t id : ids) {
    if (id < 0 || id >= limits.vocabulary) {
      return invalid(
          "prompt", "must hold token ids from 0 to {}, found {}", limits.vocabulary - 1, id);
    }
  }
  if (static_cast<int64_t>(ids.size()) >= limits.max_model_len) {
    return invalid(
        "prompt",
        "has {} tokens, but the context holds {} tokens with at least one of output; shorten the "
        "messages or the prompt",
        ids.size(),
        limits.max_model_len);
  }
  return ids;
}

}  // namespace tandem::frontend
