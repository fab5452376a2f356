#include "engine/sampling_state.h"

#include <algorithm>

namespace tandem::engine {
namespace {

constexpr size_t kFirstSlots = 64;

void deny(std::span<uint32_t> mask, int32_t id, int32_t vocabulary) {
  if (id >= 0 && id < vocabulary) mask[static_cast<size_t>(id) / 32] &= ~(1u << (id % 32));
}

bool ends_with(std::span<const int32_t> list, std::span<const int32_t> tail) {
  return list.size() >= tail.size() && std::ranges::equal(list.last(tail.size()), tail);
}

// True when output and drafts end with all of `word` but its last token.
bool would_complete(std::span<const int32_t> word, const DrawPoint& point) {
  const auto prefix = word.first(word.size() - 1);
  const size_t in_drafts = std::min(prefix.size(), point.drafts.size());
  return ends_with(point.drafts, prefix.last(in_drafts)) &&
         ends_with(point.output, prefix.first(prefix.size() - in_drafts));
}

}  // namespace

size_t TokenHistory::find_slot(int32_t id) const {
  // Fibonacci hashing (Knuth, TAOCP 3, 6.4): the multiplier is 2^32 / golden ratio.
  size_t slot = (static_cast<uint32_t>(id) * 2654435769u) & (slots_.size() - 1);
  while (slots_[slot] >= 0 && entries_[static_cast<size_t>(slots_[slot])].id != id)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void TokenHistory::grow() {
  slots_.assign(std::max(kFirstSlots, slots_.size() * 2), -1);
  for (size_t i = 0; i < entries_.size(); ++i)
    slots_[find_slot(entries_[i].id)] = static_cast<int32_t>(i);
}

void TokenHistory::add(int32_t id, bool in_prompt) {
  if ((entries_.size() + 1) * 2 > slots_.size()) grow();
  const size_t slot = find_slot(id);
  if (slots_[slot] < 0) {
    slots_[slot] = static_cast<int32_t>(entries_.size());
    entries_.push_back({.id = id});
  }
  kernels::HistoryEntry& entry = entries_[static_cast<size_t>(slots_[slot])];
  if (in_prompt)
    entry.in_prompt = 1;
  else
    ++entry.output_count;
}

void TokenHistory::append_with(std::span<const int32_t> drafts,
                               std::vector<kernels::HistoryEntry>& out) const {
  const auto begin = static_cast<int64_t>(out.size());
  out.insert(out.end(), entries_.begin(), entries_.end());
  const int64_t fresh = begin + std::ssize(entries_);
  for (const int32_t id : drafts) {
    const int32_t known = slots_.empty() ? -1 : slots_[find_slot(id)];
    auto entry = known >= 0 ? out.begin() + begin + known
                            : std::find_if(out.begin() + fresh, out.end(), [id](const auto& other) {
                                return other.id == id;
                              });
    if (entry == out.end()) entry = out.insert(entry, {.id = id});
    ++entry->output_count;
  }
}

void SamplingState::init(const SamplingParams& params,
                         std::span<const int32_t> eos_ids,
                         std::span<const int32_t> prompt,
                         std::span<const int32_t> output,
                         int32_t vocabulary) {
  params_ = &params;
  eos_ids_ = eos_ids;
  vocabulary_ = vocabulary;
  prompt_counts_ = params.repetition_penalty != 1.0f;
  penalties_ =
      prompt_counts_ || params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f;
  if (prompt_counts_)
    for (const int32_t id : prompt) history_.add(id, true);
  for (const int32_t id : output) add_output(id);
  if (!params.allowed_token_ids.empty()) {
    allowed_.assign((static_cast<size_t>(vocabulary) + 31) / 32, 0);
    for (const int32_t id : params.allowed_token_ids)
      if (id >= 0 && id < vocabulary) allowed_[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }
}

void SamplingState::add_output(int32_t token) {
  if (penalties_) history_.add(token, false);
}

int32_t SamplingState::append_mask(const DrawPoint& point, model::Batch& batch) const {
  const bool below_minimum = point.output_count < params_->min_tokens;
  const auto completes = [&](const std::vector<int32_t>& word) {
    return would_complete(word, point);
  };
  const bool bad_word =
      std::any_of(params_->bad_words.begin(), params_->bad_words.end(), completes);
  if (allowed_.empty() && !below_minimum && !bad_word) return -1;

  const size_t words = (static_cast<size_t>(vocabulary_) + 31) / 32;
  const size_t begin = batch.masks.size();
  batch.mask_words = static_cast<int32_t>(words);
  if (allowed_.empty())
    batch.masks.resize(begin + words, ~0u);
  else
    batch.masks.insert(batch.masks.end(), allowed_.begin(), allowed_.end());
  const std::span<uint32_t> mask(batch.masks.data() + begin, words);
  if (below_minimum) {
    for (const int32_t id : eos_ids_) deny(mask, id, vocabulary_);
    for (const int32_t id : params_->stop_token_ids) deny(mask, id, vocabulary_);
  }
  if (bad_word)
    for (const std::vector<int32_t>& word : params_->bad_words)
      if (completes(word)) deny(mask, word.back(), vocabulary_);
  return static_cast<int32_t>(begin / words);
}

bool SamplingState::forbids_everything(std::span<const int32_t> output) const {
  model::Batch batch;
  const DrawPoint point{.output = output, .output_count = static_cast<int32_t>(output.size())};
  if (append_mask(point, batch) < 0) return false;
  for (int32_t id = 0; id < vocabulary_; ++id)
    if (batch.masks[static_cast<size_t>(id) / 32] >> (id % 32) & 1) return false;
  return true;
}

void SamplingState::append_row(const DrawPoint& point, model::Batch& batch) const {
  kernels::SampleRow row;
  row.temperature = params_->temperature;
  row.top_p = params_->top_p;
  row.min_p = params_->min_p;
  row.top_k = params_->top_k;
  row.repetition_penalty = params_->repetition_penalty;
  row.presence_penalty = params_->presence_penalty;
  row.frequency_penalty = params_->frequency_penalty;
  row.bias_begin = static_cast<int32_t>(batch.bias_ids.size());
  row.bias_count = static_cast<int32_t>(params_->logit_bias.size());
  for (const auto& [id, bias] : params_->logit_bias) {
    batch.bias_ids.push_back(id);
    batch.bias_values.push_back(bias);
  }
  row.history_begin = static_cast<int32_t>(batch.history.size());
  if (penalties_) history_.append_with(point.drafts, batch.history);
  row.history_count = static_cast<int32_t>(batch.history.size()) - row.history_begin;
  row.mask_row = append_mask(point, batch);
  row.seed = params_->seed;
  row.choice = static_cast<uint32_t>(point.choice);
  row.position = static_cast<uint32_t>(point.position);
  row.top_logprobs = params_->top_logprobs;
  batch.max_top_logprobs = std::max(batch.max_top_logprobs, row.top_logprobs);
  batch.sample_rows.push_back(row);
}

void append_forced_row(int32_t token, int32_t top_logprobs, model::Batch& batch) {
  kernels::SampleRow row;
  row.temperature = 0.0f;
  row.forced_id = token;
  row.top_logprobs = top_logprobs;
  batch.max_top_logprobs = std::max(batch.max_top_logprobs, top_logprobs);
  batch.sample_rows.push_back(row);
}

}  // namespace tandem::engine
