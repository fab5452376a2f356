#include "kernels/reference/process_logits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace tandem::kernels {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Keeps p >= min_p * max(p); the logits' maximum is 0.
void apply_min_p(std::span<float> logits, float min_p) {
  if (min_p <= 0) return;
  min_p = std::min(min_p, 1.0f);  // the best one always stays
  for (float& x : logits) {
    if (std::exp(x) < min_p) x = kMasked;
  }
}

// Keeps what is not below the k-th largest.
void apply_top_k(std::span<float> logits, int32_t top_k) {
  if (top_k <= 0 || static_cast<size_t>(top_k) >= logits.size()) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  std::nth_element(sorted.begin(), sorted.begin() + (top_k - 1), sorted.end(), std::greater<>());
  const float threshold = sorted[static_cast<size_t>(top_k) - 1];
  for (float& x : logits) {
    if (x < threshold) x = kMasked;
  }
}

// In descending order (ties: the lowest id first), keeps a token while the probability of those
// before it is < top_p; the first always. Sums are double: 128 k float additions would lose digits
// that decide.
void apply_top_p(std::span<float> logits, float top_p) {
  if (top_p >= 1) return;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);  // last
    return x != y ? x > y : a < b;
  });
  double total = 0;
  for (const int32_t id : order) total += std::exp(logits[static_cast<size_t>(id)]);
  double before = 0;
  bool first = true;
  for (const int32_t id : order) {
    float& x = logits[static_cast<size_t>(id)];
    const double mass = std::exp(x);
    if (!first && before >= static_cast<double>(top_p) * total) x = kMasked;
    before += mass;
    first = false;
  }
}

}  // namespace

SampleRowData row_data(const SampleArgs& args, const SampleRow& row) {
  SampleRowData data;
  if (row.mask_row >= 0) data.mask = args.masks + int64_t{row.mask_row} * args.mask_words;
  if (row.bias_count > 0) {
    const auto count = static_cast<size_t>(row.bias_count);
    data.bias_ids = {args.bias_ids + row.bias_begin, count};
    data.bias_values = {args.bias_values + row.bias_begin, count};
  }
  if (row.history_count > 0) {
    data.history = {args.history + row.history_begin, static_cast<size_t>(row.history_count)};
  }
  return data;
}

void adjust_logits(std::span<float> logits, const SampleRow& row, const SampleRowData& data) {
  const auto is_id = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < logits.size(); };
  for (size_t id = 0; data.mask && id < logits.size(); ++id) {
    if (!(data.mask[id / 32] >> (id % 32) & 1u)) logits[id] = kMasked;
  }
  for (size_t i = 0; i < data.bias_ids.size(); ++i) {
    if (is_id(data.bias_ids[i]))
      logits[static_cast<size_t>(data.bias_ids[i])] += data.bias_values[i];
  }
  for (const HistoryEntry& entry : data.history) {
    if (!is_id(entry.id)) continue;
    float& x = logits[static_cast<size_t>(entry.id)];
    x = x > 0 ? x / row.repetition_penalty : x * row.repetition_penalty;
    if (entry.output_count <= 0) continue;
    x -= row.frequency_penalty * static_cast<float>(entry.output_count);
    x -= row.presence_penalty;
  }
}

bool are_usable(std::span<const float> logits) {
  return !logits.empty() && std::none_of(logits.begin(), logits.end(), [](float x) {
    return std::isnan(x) || x == std::numeric_limits<float>::infinity();
  });
}

int32_t argmax(std::span<const float> values) {
  return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

bool process_logits(std::span<float> logits, const SampleRow& row, const SampleRowData& data) {
  if (!are_usable(logits)) return false;
  adjust_logits(logits, row, data);
  if (!are_usable(logits)) return false;
  const int32_t best = argmax(logits);
  const float maximum = logits[static_cast<size_t>(best)];
  if (maximum == kMasked || !std::isfinite(row.temperature) || row.temperature < 0) return false;
  if (row.temperature == 0) {
    std::fill(logits.begin(), logits.end(), kMasked);
    logits[static_cast<size_t>(best)] = 0;
    return true;
  }
  // The maximum becomes 0 first: no temperature, however small, overflows.
  for (float& x : logits) x = (x - maximum) / row.temperature;
  apply_min_p(logits, row.min_p);
  apply_top_k(logits, row.top_k);
  apply_top_p(logits, row.top_p);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x);
  const auto log_sum = static_cast<float>(std::log(sum));
  for (float& x : logits) x -= log_sum;
  return true;
}

}  // namespace tandem::kernels
