#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "kernels/operator_test_cases.h"

namespace tandem::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

HostRows one_row(const std::vector<float>& values) {
  HostRows rows(DType::kF32, 1, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) rows.set(0, static_cast<int64_t>(i), values[i]);
  return rows;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

RouteSpec v3(int32_t experts, int32_t top_k, int32_t groups, int32_t top_groups) {
  RouteSpec spec;
  spec.experts = experts;
  spec.top_k = top_k;
  spec.groups = groups;
  spec.top_groups = top_groups;
  spec.group_score = GroupScore::kTopTwoSum;
  spec.renormalize = true;
  spec.factor = 2.5f;
  spec.masked_score = -kInfinity;
  return spec;
}

TEST(ReferenceRouteTest, BiasChoosesAndDoesNotWeigh) {
  TestDevice device(open_reference_device(DType::kF32));
  RouteCase c;
  c.logits = one_row({0.0f, 1.0f, 2.0f, -1.0f});
  c.bias = {0.0f, 0.0f, -1.0f, 1.0f};
  c.spec = v3(4, 2, 1, 1);
  c.spec.group_score = GroupScore::kNone;
  const RouteResult got = run_route(device, c);
  EXPECT_EQ(got.ids, std::vector<int32_t>({3, 1}));  // biased 1.27 and 0.73
  const double a = sigmoid_of(-1);
  const double b = sigmoid_of(1);
  EXPECT_NEAR(got.weights[0], 2.5 * a / (a + b), 1e-6);
  EXPECT_NEAR(got.weights[1], 2.5 * b / (a + b), 1e-6);
}

TEST(ReferenceRouteTest, TiesGoToTheLowestIndex) {
  TestDevice device(open_reference_device(DType::kF32));
  RouteCase c;
  c.logits = one_row({1, 1, 1, 1, 1, 1, 1, 1});
  c.spec = v3(8, 3, 4, 2);
  EXPECT_EQ(run_route(device, c).ids, std::vector<int32_t>({0, 1, 2}));
}

// Biased scores are negative: with groups masked by 0 (older code) outsiders would win.
TEST(ReferenceRouteTest, V3MasksOtherGroupsWithMinusInfinity) {
  TestDevice device(open_reference_device(DType::kF32));
  RouteCase c;
  c.logits = one_row({2.0f, 1.5f, -3.0f, -4.0f, 3.0f, -5.0f, 0.0f, 0.1f});
  c.bias = std::vector<float>(8, -2.0f);
  c.spec = v3(8, 4, 4, 2);
  // Group sums of the best two sigmoids: 1.698, 0.065, 0.959, 1.025: groups 0 and 3.
  EXPECT_EQ(run_route(device, c).ids, std::vector<int32_t>({0, 1, 7, 6}));
  c.spec.masked_score = 0;
  EXPECT_EQ(run_route(device, c).ids, std::vector<int32_t>({2, 3, 4, 5}));
}

TEST(ReferenceRouteTest, V2SoftmaxBestOfGroupNoRenormalization) {
  TestDevice device(open_reference_device(DType::kF32));
  RouteCase c;
  c.logits = one_row({2.0f, -9.0f, 1.0f, 1.9f, 3.0f, -9.0f, 0.0f, 0.1f});
  c.spec = v3(8, 3, 4, 2);
  c.spec.scoring = RouterScoring::kSoftmax;
  c.spec.group_score = GroupScore::kMax;
  c.spec.renormalize = false;
  c.spec.masked_score = 0;
  c.spec.factor = 16;
  const RouteResult got = run_route(device, c);
  EXPECT_EQ(got.ids, std::vector<int32_t>({4, 0, 1}));  // groups 2 and 0
  double sum = 0;
  for (int64_t i = 0; i < 8; ++i) sum += std::exp(c.logits.at(0, i));
  EXPECT_NEAR(got.weights[0], 16 * std::exp(3.0) / sum, 1e-4);
  EXPECT_NEAR(got.weights[1], 16 * std::exp(2.0) / sum, 1e-4);
  EXPECT_NEAR(got.weights[2], 16 * std::exp(-9.0) / sum, 1e-6);
}

TEST(ReferenceRouteTest, UniformSpreadsExperts) {
  TestDevice device(open_reference_device(DType::kF32));
  RouteCase c;
  c.logits = HostRows(DType::kF32, 3, 8);
  c.spec = v3(8, 3, 4, 2);
  c.spec.uniform = true;
  const RouteResult got = run_route(device, c);
  EXPECT_EQ(got.ids, std::vector<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 0}));
  EXPECT_FLOAT_EQ(got.weights[0], 2.5f / 3);
}

TEST(ReferenceRouteTest, NanLogitsStillNameExperts) {
  TestDevice device(open_reference_device(DType::kF32));
  RouteCase c;
  c.logits = one_row(std::vector<float>(8, std::numeric_limits<float>::quiet_NaN()));
  c.spec = v3(8, 4, 4, 2);
  const RouteResult got = run_route(device, c);
  EXPECT_EQ(std::set<int32_t>(got.ids.begin(), got.ids.end()).size(), 4u);
  for (const int32_t id : got.ids) EXPECT_TRUE(id >= 0 && id < 8);
  for (const float w : got.weights) EXPECT_TRUE(std::isnan(w));
}

TEST(ReferenceRouteTest, RefusesSpecsThatDoNotFit) {
  TestDevice device(open_reference_device(DType::kF32));
  const auto refused = [&](const RouteSpec& spec) {
    RouteArgs args;
    args.tokens = 1;
    args.logits = device.output(DType::kF32, 1, spec.experts);
    args.spec = spec;
    args.expert_ids = device.upload(std::vector<int32_t>(16));
    args.weights = device.upload(std::vector<float>(16));
    return !tensor::ok(device.run(&DeviceApi::route, args));
  };
  EXPECT_FALSE(refused(v3(8, 4, 4, 2)));
  EXPECT_TRUE(refused(v3(8, 5, 4, 2)));
  EXPECT_TRUE(refused(v3(8, 4, 3, 2)));
  EXPECT_TRUE(refused(v3(8, 9, 4, 4)));
  EXPECT_TRUE(refused(v3(8, 0, 4, 2)));
  EXPECT_TRUE(refused(v3(8, 4, 4, 5)));
  EXPECT_TRUE(refused(v3(8, 2, 8, 2)));
}

}  // namespace
}  // namespace tandem::kernels::testing
