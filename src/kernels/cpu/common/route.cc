#include <algorithm>
#include <limits>

#include "kernels/cpu/common/cpu_device.h"

namespace tandem::kernels::cpu {
namespace {

// The `k` largest of values[0, n), descending, ties to the lowest index; k <= n. NaN is smaller
// than all.
void pick_largest(const float* values, int32_t n, int32_t k, int32_t* picked) {
  int32_t count = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (count == k && !(values[i] > values[picked[k - 1]])) continue;
    int32_t at = count < k ? count++ : k - 1;
    for (; at > 0 && values[i] > values[picked[at - 1]]; --at) picked[at] = picked[at - 1];
    picked[at] = i;
  }
}

float score_group(const float* biased, int32_t size, GroupScore how) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
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

struct RouteScratch {
  float* scores;        // [experts]
  float* biased;        // [experts]
  float* group_scores;  // [groups]
  int32_t* groups;      // [groups]
};

void score_experts(const MicroKernels& kernels, const RouteSpec& spec, float* scores) {
  if (spec.scoring == RouterScoring::kSigmoid) return kernels.sigmoid(scores, spec.experts);
  const float maximum = *std::max_element(scores, scores + spec.experts);
  const auto sum = static_cast<float>(kernels.exp_row(scores, spec.experts, maximum, scores));
  for (int32_t e = 0; e < spec.experts; ++e) scores[e] /= sum;
}

// Experts outside the best groups count as masked_score.
void mask_groups(const RouteSpec& spec, const RouteScratch& scratch) {
  const int32_t size = spec.experts / spec.groups;
  for (int32_t g = 0; g < spec.groups; ++g) {
    scratch.group_scores[g] = score_group(scratch.biased + g * size, size, spec.group_score);
  }
  int32_t* end = scratch.groups + spec.top_groups;
  pick_largest(scratch.group_scores, spec.groups, spec.top_groups, scratch.groups);
  for (int32_t g = 0; g < spec.groups; ++g) {
    if (std::find(scratch.groups, end, g) != end) continue;
    std::fill_n(scratch.biased + g * size, size, spec.masked_score);
  }
}

void route_row(const MicroKernels& kernels,
               const RouteArgs& args,
               int64_t t,
               const RouteScratch& scratch) {
  const RouteSpec& spec = args.spec;
  int32_t* ids = args.expert_ids + t * spec.top_k;
  float* weights = args.weights + t * spec.top_k;
  if (spec.uniform) {
    for (int32_t s = 0; s < spec.top_k; ++s) {
      ids[s] = static_cast<int32_t>((t * spec.top_k + s) % spec.experts);
      weights[s] = spec.factor / static_cast<float>(spec.top_k);
    }
    return;
  }
  std::copy_n(args.logits.row<float>(t), spec.experts, scratch.scores);
  score_experts(kernels, spec, scratch.scores);
  for (int32_t e = 0; e < spec.experts; ++e) {
    scratch.biased[e] = args.bias ? scratch.scores[e] + args.bias[e] : scratch.scores[e];
  }
  if (spec.group_score != GroupScore::kNone) mask_groups(spec, scratch);
  pick_largest(scratch.biased, spec.experts, spec.top_k, ids);
  float sum = 0;
  for (int32_t s = 0; s < spec.top_k; ++s) sum += scratch.scores[ids[s]];
  for (int32_t s = 0; s < spec.top_k; ++s) {
    const float weight = scratch.scores[ids[s]];
    weights[s] = (spec.renormalize ? weight / (sum + 1e-20f) : weight) * spec.factor;
  }
}

}  // namespace

void CpuOperators::route(RunContext& context, const RouteArgs& args) {
  const RouteSpec& spec = args.spec;
  const int64_t width = round_up(spec.experts, 16);
  const int64_t group_width = round_up(spec.groups, 16);
  const auto members = static_cast<size_t>(team_size(context));
  auto* floats = context.scratch<float>(members * static_cast<size_t>(2 * width + group_width));
  auto* groups = context.scratch<int32_t>(members * static_cast<size_t>(group_width));
  // A score costs about as much as ten multiply-adds.
  share_out(context,
            args.tokens,
            4,
            args.tokens * spec.experts * 10,
            [&](int64_t begin, int64_t end, int member) {
              float* mine = floats + member * (2 * width + group_width);
              const RouteScratch scratch{
                  mine, mine + width, mine + 2 * width, groups + member * group_width};
              for (int64_t t = begin; t < end; ++t) {
                route_row(kernels_of(context), args, t, scratch);
              }
            });
}

}  // namespace tandem::kernels::cpu
