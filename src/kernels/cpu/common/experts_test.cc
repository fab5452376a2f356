#include "kernels/cpu/common/cpu_test_util.h"

namespace tandem::kernels::testing {
namespace {

ExpertsCase make_case(Random& random, DType activation, WeightFormat format, int64_t tokens) {
  constexpr int64_t kHidden = 140;
  constexpr int64_t kIntermediate = 72;
  constexpr int kExperts = 9;
  ExpertsCase c;
  c.top_k = 3;
  c.x = random_rows(random, activation, tokens, kHidden);
  for (int e = 0; e < kExperts; ++e) {
    c.gate.push_back(random_weight(random, format, kIntermediate, kHidden));
    c.up.push_back(random_weight(random, format, kIntermediate, kHidden));
    c.down.push_back(random_weight(random, format, kHidden, kIntermediate));
  }
  std::vector<int32_t> experts(kExperts - 1);  // the last one gets no token
  std::iota(experts.begin(), experts.end(), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    std::shuffle(experts.begin(), experts.end(), random);
    if (t % 2 == 0) std::iter_swap(experts.begin(), std::find(experts.begin(), experts.end(), 4));
    for (int s = 0; s < c.top_k; ++s) c.ids.push_back(experts[static_cast<size_t>(s)]);
  }
  c.weights = random_values(random, tokens * c.top_k, 0.3f, 0.1f);
  return c;
}

TEST(CpuExperts, EqualsTheReference) {
  Random random(5);
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    TestDevice reference(open_reference_device(activation));
    for (const auto format : {WeightFormat::kBF16, WeightFormat::kF8Block128}) {
      const ExpertsCase c = make_case(random, activation, format, 17);
      const HostRows expected = run_experts(reference, c);
      HostRows first;
      for (const auto set : instruction_sets()) {
        const HostRows got = run_experts(*cpu_device(activation, set, 2), c);
        // A rounding of the inner values that falls the other way.
        const float slack = activation == DType::kBF16 ? 3e-3f : 1e-5f;
        expect_close(got, expected, slack, slack, to_string(set));
        if (first.rows == 0) first = got;
        expect_equal_bits(got, first, to_string(set));
      }
    }
  }
}

TEST(CpuExperts, ATokensBitsDoNotDependOnTheOthers) {
  Random random(6);
  for (const auto format : {WeightFormat::kBF16, WeightFormat::kF8Block128, WeightFormat::kF32}) {
    // Expert 4 has more rows than a task.
    const ExpertsCase all = make_case(random, DType::kBF16, format, 260);
    const HostRows expected = run_experts(*best_device(DType::kBF16), all);
    expect_equal_bits(run_experts(*best_device(DType::kBF16, 4), all), expected, "threads");
    for (const int64_t t : {0, 1, 100, 259}) {
      ExpertsCase one = all;
      one.x = rows_of(all.x, t, 1);
      one.ids.assign(all.ids.begin() + t * all.top_k, all.ids.begin() + (t + 1) * all.top_k);
      one.weights.assign(all.weights.begin() + t * all.top_k,
                         all.weights.begin() + (t + 1) * all.top_k);
      expect_equal_bits(run_experts(*best_device(DType::kBF16), one), rows_of(expected, t, 1));
    }
  }
}

TEST(CpuExperts, AnImpossibleExpertFailsTheOperator) {
  Random random(7);
  ExpertsCase c = make_case(random, DType::kF32, WeightFormat::kF32, 2);
  const auto device = best_device(DType::kF32);
  const PackedWeight* gate_up =
      device->pack({c.gate[0].source(), c.up[0].source()}, Pairing::kGateUp);
  const PackedExperts experts{1, gate_up, device->pack({c.down[0].source()})};
  ExpertsArgs args;
  args.tokens = 2;
  args.top_k = 1;
  args.x = device->upload(c.x);
  args.expert_ids = device->upload(std::vector<int32_t>{0, 1});
  args.weights = device->upload(std::vector<float>{1, 1});
  args.experts = &experts;
  args.out = device->output(DType::kF32, 2, c.x.columns);
  EXPECT_FALSE(tensor::ok(device->run(&DeviceApi::experts, args)));
}

RouteCase route_case(Random& random, RouterScoring scoring, GroupScore groups) {
  RouteCase c;
  c.spec.experts = 40;
  c.spec.top_k = 6;
  c.spec.scoring = scoring;
  c.spec.group_score = groups;
  c.spec.groups = 8;
  c.spec.top_groups = 3;
  c.spec.renormalize = scoring == RouterScoring::kSigmoid;
  c.spec.factor = 2.5f;
  c.spec.masked_score =
      groups == GroupScore::kTopTwoSum ? -std::numeric_limits<float>::infinity() : 0.0f;
  c.logits = random_rows(random, DType::kF32, 33, 40);
  for (int64_t e = 0; e < 40; ++e) c.logits.set(3, e, 1.0f);  // ties
  if (groups == GroupScore::kTopTwoSum) c.bias = random_values(random, 40, 0, 0.1f);
  return c;
}

TEST(CpuRoute, EqualsTheReference) {
  Random random(8);
  TestDevice reference(open_reference_device(DType::kF32));
  for (const auto scoring : {RouterScoring::kSigmoid, RouterScoring::kSoftmax}) {
    for (const auto groups : {GroupScore::kNone, GroupScore::kMax, GroupScore::kTopTwoSum}) {
      const RouteCase c = route_case(random, scoring, groups);
      const RouteResult expected = run_route(reference, c);
      for (const auto set : instruction_sets()) {
        const RouteResult got = run_route(*cpu_device(DType::kF32, set, 2), c);
        EXPECT_EQ(got.ids, expected.ids);
        for (size_t i = 0; i < got.weights.size(); ++i) {
          EXPECT_NEAR(got.weights[i], expected.weights[i], 1e-5f);
        }
      }
      RouteCase uniform = c;
      uniform.spec.uniform = true;
      EXPECT_EQ(run_route(*best_device(DType::kF32), uniform).ids,
                run_route(reference, uniform).ids);
    }
  }
}

TEST(CpuRoute, NanGivesExpertsThatExist) {
  Random random(9);
  RouteCase c = route_case(random, RouterScoring::kSigmoid, GroupScore::kTopTwoSum);
  for (int64_t e = 0; e < 40; ++e) c.logits.set(0, e, std::nanf(""));
  const RouteResult got = run_route(*best_device(DType::kF32), c);
  for (const int32_t id : got.ids) EXPECT_TRUE(id >= 0 && id < 40);
}

}  // namespace
}  // namespace tandem::kernels::testing
