#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "base/random.h"
#include "kernels/reference/process_logits.h"
#include "kernels/reference/reference_device.h"

namespace tandem::kernels {
namespace {

// Gumbel noise of one token: -log(-log u).
float gumbel(const SampleRow& row, uint32_t id) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(row.seed),
                                       static_cast<uint32_t>(row.seed >> 32)};
  const auto words = philox4x32({id / 4, row.position, row.choice, 0}, key);
  return -std::log(-std::log(uniform_open(words[id % 4])));
}

int32_t draw(std::span<const float> log_probabilities, const SampleRow& row) {
  int32_t best = -1;
  float best_value = 0;
  for (size_t id = 0; id < log_probabilities.size(); ++id) {
    if (std::isinf(log_probabilities[id])) continue;
    const float value = log_probabilities[id] + gumbel(row, static_cast<uint32_t>(id));
    if (best < 0 || value > best_value) {
      best = static_cast<int32_t>(id);
      best_value = value;
    }
  }
  return best;
}

struct TopColumns {
  int32_t* ids;
  float* values;
};

// Rank and log-probability of result.id, and the best ids, from untouched logits.
void report_logprobs(std::span<const float> raw,
                     int32_t count,
                     int32_t* order,
                     SampleResult& result,
                     TopColumns top) {
  const float maximum = *std::max_element(raw.begin(), raw.end());
  double sum = 0;
  for (const float x : raw) sum += std::exp(x - maximum);
  const auto log_sum = static_cast<float>(std::log(sum));
  const auto logprob = [&](int32_t id) { return raw[static_cast<size_t>(id)] - maximum - log_sum; };
  result.logprob = logprob(result.id);
  const float chosen = raw[static_cast<size_t>(result.id)];
  result.rank = 1 + static_cast<int32_t>(
                        std::count_if(raw.begin(), raw.end(), [&](float x) { return x > chosen; }));

  count = std::min<int32_t>(count, static_cast<int32_t>(raw.size()));
  std::iota(order, order + raw.size(), 0);
  std::partial_sort(order, order + count, order + raw.size(), [&](int32_t a, int32_t b) {
    const float x = raw[static_cast<size_t>(a)];
    const float y = raw[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (int32_t i = 0; i < count; ++i) {
    top.ids[i] = order[i];
    top.values[i] = logprob(order[i]);
  }
}

}  // namespace

void ReferenceOperators::sample(RunContext& context, const SampleArgs& args) {
  const auto vocabulary = static_cast<size_t>(args.logits.columns);
  auto* raw = context.scratch<float>(vocabulary);
  auto* order = context.scratch<int32_t>(vocabulary);
  for (int64_t r = 0; r < args.rows; ++r) {
    const SampleRow& row = args.row[r];
    const std::span<float> logits(args.logits.row<float>(r), vocabulary);
    const TopColumns top{args.top_ids + r * args.max_top_logprobs,
                         args.top_logprobs + r * args.max_top_logprobs};
    std::fill_n(top.ids, args.max_top_logprobs, -1);
    std::fill_n(top.values, args.max_top_logprobs, 0.0f);
    std::copy(logits.begin(), logits.end(), raw);

    SampleResult result;
    const bool is_forced = row.forced_id >= 0;
    if (is_forced) {
      result.id = row.forced_id;
      result.invalid = !are_usable(logits);
    } else if (process_logits(logits, row, row_data(args, row))) {
      result.id = draw(logits, row);
    } else {
      result.invalid = 1;
    }
    if (!result.invalid && row.top_logprobs >= 0) {
      report_logprobs({raw, vocabulary}, row.top_logprobs, order, result, top);
    }
    args.result[r] = result;
    args.ids[r] = result.id;
  }
}

}  // namespace tandem::kernels
