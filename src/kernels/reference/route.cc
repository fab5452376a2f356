#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/math.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {
namespace {

// The `k` largest of values[0, n), descending, ties to the lowest index.
void pick_largest(const float* values, int32_t n, int32_t k, int32_t* picked) {
  for (int32_t s = 0; s < k; ++s) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; ++i) {
      if (std::find(picked, picked + s, i) != picked + s) continue;
      if (best < 0 || values[i] > values[best]) best = i;
    }
    picked[s] = best;
  }
}

void score_experts(const RouteSpec& spec, float* scores) {
  if (spec.scoring == RouterScoring::kSigmoid) {
    for (int32_t e = 0; e < spec.experts; ++e) scores[e] = sigmoid(scores[e]);
    return;
  }
  const float maximum = *std::max_element(scores, scores + spec.experts);
  float sum = 0;
  for (int32_t e = 0; e < spec.experts; ++e) {
    scores[e] = std::exp(scores[e] - maximum);
    sum += scores[e];
  }
  for (int32_t e = 0; e < spec.experts; ++e) scores[e] /= sum;
}

float score_group(const float* biased, int32_t size, GroupScore how) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float first = kNone;
  float second = kNone;
  for (int32_t i = 0; i < size; ++i) {
    if (biased[i] > first) {
      second = first;
      first = biased[i];
    } else {
      second = std::max(second, biased[i]);
    }
  }
  return how == GroupScore::kMax ? first : first + second;
}

// Experts outside the best groups count as masked_score.
void mask_groups(const RouteSpec& spec, float* biased, float* group_scores, int32_t* groups) {
  const int32_t size = spec.experts / spec.groups;
  for (int32_t g = 0; g < spec.groups; ++g) {
    group_scores[g] = score_group(biased + g * size, size, spec.group_score);
  }
  pick_largest(group_scores, spec.groups, spec.top_groups, groups);
  for (int32_t g = 0; g < spec.groups; ++g) {
    if (std::find(groups, groups + spec.top_groups, g) != groups + spec.top_groups) continue;
    std::fill_n(biased + g * size, size, spec.masked_score);
  }
}

}  // namespace

void ReferenceOperators::route(RunContext& context, const RouteArgs& args) {
  const RouteSpec& spec = args.spec;
  auto* scores = context.scratch<float>(static_cast<size_t>(spec.experts));
  auto* biased = context.scratch<float>(static_cast<size_t>(spec.experts));
  auto* group_scores = context.scratch<float>(static_cast<size_t>(spec.groups));
  auto* groups = context.scratch<int32_t>(static_cast<size_t>(spec.groups));

  for (int64_t t = 0; t < args.tokens; ++t) {
    int32_t* ids = args.expert_ids + t * spec.top_k;
    float* weights = args.weights + t * spec.top_k;
    if (spec.uniform) {
      for (int32_t s = 0; s < spec.top_k; ++s) {
        ids[s] = static_cast<int32_t>((t * spec.top_k + s) % spec.experts);
        weights[s] = spec.factor / static_cast<float>(spec.top_k);
      }
      continue;
    }
    load_row(args.logits, t, scores);
    score_experts(spec, scores);
    for (int32_t e = 0; e < spec.experts; ++e) {
      biased[e] = args.bias ? scores[e] + args.bias[e] : scores[e];
    }
    if (spec.group_score != GroupScore::kNone) mask_groups(spec, biased, group_scores, groups);
    pick_largest(biased, spec.experts, spec.top_k, ids);

    float sum = 0;
    for (int32_t s = 0; s < spec.top_k; ++s) sum += scores[ids[s]];
    for (int32_t s = 0; s < spec.top_k; ++s) {
      const float weight = scores[ids[s]];
      weights[s] = (spec.renormalize ? weight / (sum + 1e-20f) : weight) * spec.factor;
    }
  }
}

}  // namespace tandem::kernels
