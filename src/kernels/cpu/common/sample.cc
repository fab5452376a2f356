// Sampling. The distribution is that of reference/process_logits.h, made without sorting the
// vocabulary: values are counted into narrow bins, and only the bin in which top_k or top_p ends is
// looked at value by value.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "base/random.h"
#include "kernels/cpu/common/cpu_device.h"
#include "kernels/reference/process_logits.h"

namespace tandem::kernels::cpu {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Bins of scaled logits (0 down to -inf): the exponent and 7 bits of the mantissa of |x| from 2^-20
// to 2^12; smaller ones fall in the first bin, larger ones in the last.
constexpr int32_t kLowestKey = (127 - 20) << 7;
constexpr int32_t kBins = 32 << 7;

int32_t bin_of(float x) {
  const auto key = static_cast<int32_t>((std::bit_cast<uint32_t>(x) & 0x7fffffffu) >> 16);
  return std::clamp(key - kLowestKey, 0, kBins - 1);
}

// Scratch of one member.
struct SampleScratch {
  float* raw;       // [vocabulary]
  float* exps;      // [vocabulary]
  int32_t* ids;     // [vocabulary]
  double* mass;     // [kBins]
  int32_t* counts;  // [kBins]
};

class SampleRowRun {
 public:
  SampleRowRun(const MicroKernels& kernels, const SampleArgs& args, const SampleScratch& scratch)
      : kernels_(kernels), args_(args), scratch_(scratch) {}

  void run(int64_t r) {
    const SampleRow& row = args_.row[r];
    logits_ = {args_.logits.row<float>(r), static_cast<size_t>(args_.logits.columns)};
    std::fill_n(args_.top_ids + r * args_.max_top_logprobs, args_.max_top_logprobs, -1);
    std::fill_n(args_.top_logprobs + r * args_.max_top_logprobs, args_.max_top_logprobs, 0.0f);
    SampleResult result;
    const bool wants_logprobs = row.top_logprobs >= 0;
    int64_t best = 0;
    float maximum = 0;
    const bool usable = find_best(&best, &maximum);
    if (usable && wants_logprobs) std::copy(logits_.begin(), logits_.end(), scratch_.raw);
    const float raw_maximum = maximum;
    if (row.forced_id >= 0) {
      result.id = row.forced_id;
      result.invalid = !usable;
    } else if (!usable || !choose(row, &best, maximum)) {
      result.invalid = 1;
    } else {
      result.id = static_cast<int32_t>(best);
    }
    if (!result.invalid && wants_logprobs) report(r, raw_maximum, result);
    args_.result[r] = result;
    args_.ids[r] = result.id;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(logits_.size()); }

  // False if a logit is NaN or +inf.
  bool find_best(int64_t* best, float* maximum) const {
    return kernels_.argmax(logits_.data(), size(), maximum, best) &&
           *maximum != std::numeric_limits<float>::infinity();
  }

  // In: the raw best. Out: the id. False: nothing to draw from.
  bool choose(const SampleRow& row, int64_t* best, float maximum) {
    const SampleRowData data = row_data(args_, row);
    if (data.mask || !data.bias_ids.empty() || !data.history.empty()) {
      adjust_logits(logits_, row, data);
      if (!find_best(best, &maximum)) return false;
    }
    if (maximum == kMasked || !std::isfinite(row.temperature) || row.temperature < 0) return false;
    if (row.temperature == 0) return true;
    kernels_.scale_logits(logits_.data(), size(), maximum, row.temperature);
    apply_min_p(row.min_p);
    apply_top_k(row.top_k);
    apply_top_p(row.top_p);
    *best = draw(row, *best);
    return true;
  }

  void apply_min_p(float min_p) {
    if (!(min_p > 0)) return;
    min_p = std::min(min_p, 1.0f);  // the best one always stays
    kernels_.exp_row(logits_.data(), size(), 0.0f, scratch_.exps);
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (scratch_.exps[i] < min_p) logits_[i] = kMasked;
    }
  }

  void apply_top_k(int32_t top_k) {
    if (top_k <= 0 || top_k >= size()) return;
    std::fill_n(scratch_.counts, kBins, 0);
    for (const float x : logits_) ++scratch_.counts[bin_of(x)];
    int32_t bin = 0;
    int32_t before = 0;
    while (before + scratch_.counts[bin] < top_k) before += scratch_.counts[bin++];
    float* values = scratch_.exps;
    int32_t count = 0;
    for (const float x : logits_) {
      if (bin_of(x) == bin) values[count++] = x;
    }
    float* threshold = values + (top_k - before - 1);
    std::nth_element(values, threshold, values + count, std::greater<>());
    for (float& x : logits_) {
      if (x < *threshold) x = kMasked;
    }
  }

  void apply_top_p(float top_p) {
    if (!(top_p < 1)) return;
    const double total = kernels_.exp_row(logits_.data(), size(), 0.0f, scratch_.exps);
    const double target = static_cast<double>(top_p) * total;
    std::fill_n(scratch_.mass, kBins, 0.0);
    std::fill_n(scratch_.counts, kBins, 0);
    for (size_t i = 0; i < logits_.size(); ++i) {
      const int32_t bin = bin_of(logits_[i]);
      scratch_.mass[bin] += static_cast<double>(scratch_.exps[i]);
      ++scratch_.counts[bin];
    }
    double before = 0;
    int32_t bin = 0;
    while (bin < kBins && (scratch_.counts[bin] == 0 || before + scratch_.mass[bin] < target)) {
      before += scratch_.mass[bin++];
    }
    int32_t count = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(size()); ++i) {
      float& x = logits_[static_cast<size_t>(i)];
      const int32_t mine = bin_of(x);
      if (mine == bin) scratch_.ids[count++] = i;
      if (mine > bin) x = kMasked;
    }
    cut_bin({scratch_.ids, static_cast<size_t>(count)}, before, target);
  }

  // Keeps a token of the bin while the mass before it is below the target, and always the first.
  void cut_bin(std::span<int32_t> ids, double before, double target) {
    const auto value = [this](int32_t id) { return logits_[static_cast<size_t>(id)]; };
    std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
      return value(a) > value(b) || (value(a) == value(b) && a < b);
    });
    bool first = before == 0;
    for (const int32_t id : ids) {
      if (!first && before >= target) logits_[static_cast<size_t>(id)] = kMasked;
      before += static_cast<double>(scratch_.exps[id]);
      first = false;
    }
  }

  // argmax of log p + Gumbel noise. Noise is only made where it could win: with u = 1 - w, noise
  // -log(-log u) <= -log w, so a token can beat `best` only if p > w exp(best); and w >= 2^-24.
  int64_t draw(const SampleRow& row, int64_t likeliest) {
    const double sum = kernels_.exp_row(logits_.data(), size(), 0.0f, scratch_.exps);
    const auto log_sum = static_cast<float>(std::log(sum));
    constexpr double kSlack = 1e-3;  // far above the rounding of exps and logarithms
    int64_t best = likeliest;
    float best_value = noisy(likeliest, log_sum, words_of(row, likeliest / 4));
    double needed = sum * std::exp(static_cast<double>(best_value) - kSlack);
    for (int64_t block = 0; 4 * block < size(); ++block) {
      const int64_t end = std::min(size(), 4 * block + 4);
      float most = 0;
      for (int64_t i = 4 * block; i < end; ++i) most = std::max(most, scratch_.exps[i]);
      if (static_cast<double>(most) <= needed * 0x1p-24) continue;
      const auto words = words_of(row, block);
      for (int64_t i = 4 * block; i < end; ++i) {
        const double w = 1.0 - static_cast<double>(uniform_open(words[static_cast<size_t>(i % 4)]));
        if (static_cast<double>(scratch_.exps[i]) <= w * needed) continue;
        const float value = noisy(i, log_sum, words);
        if (value < best_value || (value == best_value && i >= best)) continue;
        best = i;
        best_value = value;
        needed = sum * std::exp(static_cast<double>(best_value) - kSlack);
      }
    }
    return best;
  }

  static std::array<uint32_t, 4> words_of(const SampleRow& row, int64_t block) {
    return philox4x32({static_cast<uint32_t>(block), row.position, row.choice, 0},
                      {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)});
  }

  float noisy(int64_t id, float log_sum, const std::array<uint32_t, 4>& words) const {
    const float u = uniform_open(words[static_cast<size_t>(id % 4)]);
    return logits_[static_cast<size_t>(id)] - log_sum + -std::log(-std::log(u));
  }

  // Rank and log-probability of result.id, and the best ids, from the raw logits.
  void report(int64_t r, float maximum, SampleResult& result) {
    const float* raw = scratch_.raw;
    const double sum = kernels_.exp_row(raw, size(), maximum, nullptr);
    const auto log_sum = static_cast<float>(std::log(sum));
    const auto logprob = [&](int32_t id) { return raw[id] - maximum - log_sum; };
    const float chosen = raw[result.id];
    result.logprob = logprob(result.id);
    result.rank = 1 + static_cast<int32_t>(
                          std::count_if(raw, raw + size(), [&](float x) { return x > chosen; }));
    const auto count = std::min<int64_t>(args_.row[r].top_logprobs, size());
    if (count == 0) return;
    int32_t* order = scratch_.ids;
    std::iota(order, order + size(), 0);
    std::partial_sort(order, order + count, order + size(), [&](int32_t a, int32_t b) {
      return raw[a] > raw[b] || (raw[a] == raw[b] && a < b);
    });
    for (int64_t i = 0; i < count; ++i) {
      args_.top_ids[r * args_.max_top_logprobs + i] = order[i];
      args_.top_logprobs[r * args_.max_top_logprobs + i] = logprob(order[i]);
    }
  }

  const MicroKernels& kernels_;
  const SampleArgs& args_;
  const SampleScratch& scratch_;
  std::span<float> logits_;
};

}  // namespace

void CpuOperators::sample(RunContext& context, const SampleArgs& args) {
  const int64_t members = std::min<int64_t>(team_size(context), args.rows);
  const int64_t width = round_up(args.logits.columns, 16);
  const auto many = static_cast<size_t>(members * width);
  const auto bins = static_cast<size_t>(members * kBins);
  auto* raw = context.scratch<float>(many);
  auto* exps = context.scratch<float>(many);
  auto* ids = context.scratch<int32_t>(many);
  auto* mass = context.scratch<double>(bins);
  auto* counts = context.scratch<int32_t>(bins);
  // Fewer rows than members: each row is its own place.
  const bool by_row = args.rows == members;
  share_out(context,
            args.rows,
            1,
            args.rows * width * kWorkOfMove,
            [&](int64_t begin, int64_t end, int member) {
              for (int64_t r = begin; r < end; ++r) {
                const int64_t place = by_row ? r : member;
                const SampleScratch scratch{raw + place * width,
                                            exps + place * width,
                                            ids + place * width,
                                            mass + place * kBins,
                                            counts + place * kBins};
                SampleRowRun(kernels_of(context), args, scratch).run(r);
              }
            });
}

}  // namespace tandem::kernels::cpu
