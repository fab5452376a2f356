#include "serve/generation_fields.h"

#include <array>
#include <charconv>

namespace tandem::serve {
namespace {

// Lists are capped here, before they are copied, at the most that any model could need; validate.h
// has the limits.
constexpr size_t kMaxListEntries = 300'000;
constexpr size_t kMaxStrings = 2048;

Checked<std::vector<std::pair<int64_t, double>>> read_logit_bias(const FieldReader& fields) {
  std::vector<std::pair<int64_t, double>> out;
  const OrderedJson* value = fields.find("logit_bias");
  if (!value) return out;
  if (!value->is_object()) {
    return invalid(
        "logit_bias", "must be an object from token ids to numbers, found {}", describe(*value));
  }
  if (value->size() > kMaxListEntries)
    return invalid("logit_bias", "has too many entries: {}", value->size());
  for (const auto& [key, bias] : value->items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return invalid("logit_bias", "must have token ids as keys, found \"{}\"", key.substr(0, 32));
    }
    if (!bias.is_number())
      return invalid("logit_bias", "must have numbers as values, found {}", describe(bias));
    out.emplace_back(id, bias.get<double>());
  }
  return out;
}

Checked<void> read_lengths(const FieldReader& fields,
                           Endpoint endpoint,
                           frontend::GenerationOptions& o) {
  TANDEM_ASSIGN(o.max_tokens, fields.integer("max_tokens"));
  if (endpoint == Endpoint::kChat) {
    TANDEM_ASSIGN(const auto completion, fields.integer("max_completion_tokens"));
    if (completion) {
      o.max_tokens = completion;
      o.max_tokens_name = "max_completion_tokens";
    }
  }
  TANDEM_ASSIGN(o.min_tokens, fields.integer("min_tokens"));
  TANDEM_ASSIGN(o.ignore_eos, fields.boolean("ignore_eos"));
  TANDEM_ASSIGN(o.truncate_prompt_tokens, fields.integer("truncate_prompt_tokens"));
  TANDEM_ASSIGN(const auto side, fields.string("truncation_side"));
  if (side && *side != "left" && *side != "right")
    return invalid(
        "truncation_side", "must be \"left\" or \"right\", found \"{}\"", side->substr(0, 64));
  o.truncate_end = side == "right";
  return {};
}

Checked<void> read_ids_and_strings(const FieldReader& fields, frontend::GenerationOptions& o) {
  TANDEM_ASSIGN(o.stop, fields.strings("stop", kMaxStrings, true));
  TANDEM_ASSIGN(auto stop_ids, fields.integers("stop_token_ids", kMaxListEntries));
  if (stop_ids) o.stop_token_ids = std::move(*stop_ids);
  TANDEM_ASSIGN(const auto include_stop, fields.boolean("include_stop_str_in_output"));
  o.include_stop_str_in_output = include_stop.value_or(false);
  TANDEM_ASSIGN(const auto skip_special, fields.boolean("skip_special_tokens"));
  o.skip_special_tokens = skip_special.value_or(true);
  TANDEM_ASSIGN(o.logit_bias, read_logit_bias(fields));
  TANDEM_ASSIGN(o.allowed_token_ids, fields.integers("allowed_token_ids", kMaxListEntries));
  TANDEM_ASSIGN(o.bad_words, fields.strings("bad_words", kMaxStrings, false));
  return {};
}

Checked<void> read_repetition(const FieldReader& fields, frontend::GenerationOptions& o) {
  const OrderedJson* rule = fields.find("repetition_detection");
  if (!rule) return {};
  if (!rule->is_object())
    return invalid("repetition_detection", "must be an object, found {}", describe(*rule));
  const FieldReader inner(*rule);
  TANDEM_ASSIGN(const auto low, inner.integer("min_pattern_size"));
  TANDEM_ASSIGN(const auto high, inner.integer("max_pattern_size"));
  TANDEM_ASSIGN(const auto count, inner.integer("min_count"));
  o.repetition = {low.value_or(0), high.value_or(0), count.value_or(0)};
  return {};
}

bool is_set(const OrderedJson* value) {
  if (!value) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_structured()) return !value->empty();
  return true;
}

}  // namespace

Checked<frontend::GenerationOptions> read_generation_options(const FieldReader& fields,
                                                             Endpoint endpoint) {
  frontend::GenerationOptions o;
  TANDEM_ASSIGN(o.temperature, fields.number("temperature"));
  TANDEM_ASSIGN(o.top_p, fields.number("top_p"));
  TANDEM_ASSIGN(o.top_k, fields.integer("top_k"));
  TANDEM_ASSIGN(o.min_p, fields.number("min_p"));
  TANDEM_ASSIGN(o.repetition_penalty, fields.number("repetition_penalty"));
  TANDEM_ASSIGN(o.presence_penalty, fields.number("presence_penalty"));
  TANDEM_ASSIGN(o.frequency_penalty, fields.number("frequency_penalty"));
  TANDEM_ASSIGN(o.seed, fields.integer("seed"));
  TANDEM_ASSIGN(o.n, fields.integer("n"));
  TANDEM_TRY(read_lengths(fields, endpoint, o));
  TANDEM_TRY(read_ids_and_strings(fields, o));
  TANDEM_TRY(read_repetition(fields, o));
  TANDEM_ASSIGN(o.prompt_logprobs, fields.integer("prompt_logprobs"));
  TANDEM_ASSIGN(const auto priority, fields.integer("priority"));
  o.priority = priority.value_or(0);
  TANDEM_ASSIGN(const auto salt, fields.string("cache_salt"));
  if (salt && salt->empty()) return invalid("cache_salt", "must not be empty");
  if (salt && salt->size() > 1024)
    return invalid("cache_salt", "must be at most 1024 bytes, found {}", salt->size());
  o.cache_salt = salt.value_or("");
  return o;
}

Checked<StreamOptions> read_stream_options(const FieldReader& fields) {
  StreamOptions out;
  TANDEM_ASSIGN(const auto stream, fields.boolean("stream"));
  out.stream = stream.value_or(false);
  TANDEM_ASSIGN(const auto interval, fields.integer("stream_interval"));
  out.interval = interval.value_or(1);
  if (out.interval < 1)
    return invalid("stream_interval", "must be at least 1, found {}", out.interval);
  const OrderedJson* options = fields.find("stream_options");
  if (!options) return out;
  if (!options->is_object())
    return invalid("stream_options", "must be an object, found {}", describe(*options));
  if (!out.stream)
    return invalid("stream_options", "is only accepted together with \"stream\": true");
  const FieldReader inner(*options);
  TANDEM_ASSIGN(const auto usage, inner.boolean("include_usage"));
  TANDEM_ASSIGN(const auto continuous, inner.boolean("continuous_usage_stats"));
  out.include_usage = usage.value_or(false);
  out.continuous_usage = out.include_usage && continuous.value_or(false);
  return out;
}

Checked<void> refuse_unbuilt_fields(const FieldReader& fields, Endpoint endpoint) {
  static constexpr std::array kBoth = {"use_beam_search",
                                       "structured_outputs",
                                       "guided_json",
                                       "guided_regex",
                                       "guided_choice",
                                       "guided_grammar",
                                       "guided_decoding_backend",
                                       "guided_json_object",
                                       "logprob_token_ids",
                                       "prompt_embeds",
                                       "kv_transfer_params",
                                       "ec_transfer_params",
                                       "vllm_xargs",
                                       "thinking_token_budget",
                                       "suffix"};
  static constexpr std::array kChatOnly = {"tools",
                                           "functions",
                                           "function_call",
                                           "chat_template",
                                           "audio",
                                           "prediction",
                                           "web_search_options",
                                           "mm_processor_kwargs"};
  const auto refuse = [&](const char* name) -> Checked<void> {
    if (is_set(fields.find(name))) return invalid(name, "is not supported by this server");
    return {};
  };
  for (const char* name : kBoth) TANDEM_TRY(refuse(name));
  if (endpoint == Endpoint::kChat) {
    for (const char* name : kChatOnly) TANDEM_TRY(refuse(name));
  }
  if (const OrderedJson* choice = fields.find("tool_choice")) {
    if (!choice->is_string() || (*choice != "none" && *choice != "auto")) {
      return invalid("tool_choice",
                     "is not supported by this server except as \"none\" or \"auto\"");
    }
  }
  if (const OrderedJson* format = fields.find("response_format")) {
    const bool text =
        format->is_object() && format->contains("type") && (*format)["type"] == "text";
    if (!text)
      return invalid("response_format",
                     "is not supported by this server except as {{\"type\": \"text\"}}");
  }
  return {};
}

}  // namespace tandem::serve
