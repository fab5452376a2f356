#pragma once
// The steps of sampling.h between the raw logits and the draw, as a pure function. Any thread.

#include <cstdint>
#include <span>

#include "kernels/sampling.h"

namespace tandem::kernels {

// What a row's parameters point to.
struct SampleRowData {
  const uint32_t* mask = nullptr;  // bits of the vocabulary, or null: everything allowed
  std::span<const int32_t> bias_ids;
  std::span<const float> bias_values;
  std::span<const HistoryEntry> history;
};

SampleRowData row_data(const SampleArgs& args, const SampleRow& row);

// Mask, bias, penalties, in place.
void adjust_logits(std::span<float> logits, const SampleRow& row, const SampleRowData& data);

// No NaN and no +inf.
bool are_usable(std::span<const float> logits);

// The largest, ties to the lowest id.
int32_t argmax(std::span<const float> values);

// Raw logits -> log-probabilities of the distribution that is drawn from, in place; -inf = cannot
// be drawn. Temperature 0: 0 for the argmax alone. False: a raw logit is NaN or +inf, nothing is
// allowed, or the parameters make no distribution; the contents are then undefined.
bool process_logits(std::span<float> logits, const SampleRow& row, const SampleRowData& data);

}  // namespace tandem::kernels
