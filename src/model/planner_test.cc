#include "model/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernels/device.h"
#include "model/config.h"
#include "model/loaded_model.h"
#include "model/step_runner.h"

namespace tandem::model {
namespace {

using tensor::DType;
using ::testing::HasSubstr;

ModelSpec bundled_spec() {
  return read_model_config(TANDEM_SOURCE_DIR "/models/tandem-tiny-v3").value();
}

TEST(Planner, PutsExpertsWhereTheyAreWanted) {
  const ModelSpec spec = bundled_spec();
  const Plan plan =
      make_plan(spec, make_placement(spec, {.device = 0, .expert_device = 1}), DType::kF32);
  ASSERT_EQ(plan.items.size(), plan.targets.size());
  size_t experts = 0;
  std::set<std::string> names;
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const bool expert =
        plan.targets[i].slot == Slot::kExpertGateUp || plan.targets[i].slot == Slot::kExpertDown;
    EXPECT_EQ(plan.items[i].device, expert ? 1 : 0);
    EXPECT_EQ(plan.targets[i].expert >= 0, expert);
    experts += expert;
    for (const weights::LoadPart& part : plan.items[i].parts) {
      EXPECT_TRUE(names.insert(part.tensor).second) << part.tensor << " is loaded twice";
    }
  }
  EXPECT_EQ(experts, 5u * 16u * 2u);
  EXPECT_EQ(plan.placement.layers[0].experts, 0);  // a dense layer
}

// What a run of random weights gives, and that it is finite.
std::vector<float> run_dummy(ModelSpec spec, uint64_t seed) {
  auto device = kernels::open_reference_device(DType::kBF16).value();
  const kernels::DeviceRef refs[] = {device.ref()};
  use_uniform_routing(spec);
  Plan plan = make_plan(spec, make_placement(spec, {}), DType::kBF16);
  const auto source = make_dummy_source(spec, plan, seed);
  const auto resolved = resolve_plan(plan, spec, refs, source);
  EXPECT_TRUE(resolved) << resolved.error().to_line();
  EXPECT_GT(plan.weight_bytes.at(0), 0u);
  size_t calls = 0;
  weights::LoadProgress last;
  weights::LoadOptions load{.threads = 2, .progress = [&](const weights::LoadProgress& progress) {
                              ++calls;
                              last = progress;
                            }};
  const auto model = LoadedModel::load(spec, plan, refs, source, load);
  EXPECT_TRUE(model) << model.error().to_line();
  EXPECT_EQ(calls, plan.items.size());
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  EXPECT_EQ(last.total_bytes, plan.source_bytes);

  const auto runner = StepRunner::create(**model,
                                         {.max_tokens = 4,
                                          .max_logits_rows = 1,
                                          .kv_blocks = 2,
                                          .max_positions = 100,
                                          .keep_logits = true});
  EXPECT_TRUE(runner) << runner.error().to_line();
  Batch batch;
  batch.token_ids = {1, 2, 3};
  batch.positions = {0, 1, 2};
  batch.segments = {{.sequence = 0, .rows = 3}};
  batch.groups.resize(1);
  batch.groups[0] = {.slots = {64, 65, 66}, .block_table = {1}, .block_table_stride = 1};
  batch.logits_rows = {0, 1, 2};
  batch.sample_rows.resize(3);
  StepResult result;
  EXPECT_TRUE((*runner)->launch(batch));
  EXPECT_TRUE((*runner)->collect(result));
  for (const auto& row : result.rows) EXPECT_EQ(row.invalid, 0);
  const auto logits = (*runner)->logits();
  return {logits.begin(), logits.end()};
}

TEST(Planner, DummyWeightsRunAndStayFinite) {
  const auto logits = run_dummy(bundled_spec(), 1);
  ASSERT_EQ(logits.size(), 3u * 4096u);
  double sum = 0;
  for (const float value : logits) {
    ASSERT_TRUE(std::isfinite(value));
    sum += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / static_cast<double>(logits.size()), 1.0, 0.5);
  EXPECT_EQ(logits, run_dummy(bundled_spec(), 1));
  EXPECT_NE(logits, run_dummy(bundled_spec(), 2));
}

TEST(Planner, ErrorsNameTheTensor) {
  const ModelSpec spec = bundled_spec();
  auto device = kernels::open_reference_device(DType::kF32).value();
  const kernels::DeviceRef refs[] = {device.ref()};
  const Plan good = make_plan(spec, make_placement(spec, {}), DType::kF32);
  const auto resolve_against = [&](const ModelSpec& other) {
    const Plan published = make_plan(other, make_placement(other, {}), DType::kF32);
    const auto source = make_dummy_source(other, published, 0);
    Plan plan = good;
    const auto result = resolve_plan(plan, spec, refs, source);
    return result ? std::string() : result.error().to_line();
  };
  EXPECT_EQ(resolve_against(spec), "");

  ModelSpec other = spec;
  other.vocabulary = 4095;
  EXPECT_THAT(resolve_against(other),
              HasSubstr("'model.embed_tokens.weight' has shape [4095, 256]"));
  other = spec;
  other.layers.pop_back();
  EXPECT_THAT(resolve_against(other), HasSubstr("'model.layers.5.input_layernorm.weight'"));
  other = spec;
  other.layers.push_back(other.layers.back());  // where the draft layer's tensors would stand
  EXPECT_EQ(resolve_against(other), "");
  other.layers.push_back(other.layers.back());
  EXPECT_THAT(resolve_against(other), HasSubstr("does not use: 'model.layers.7."));
  other = spec;
  other.names[Role::kFinalNorm] = "norm";
  EXPECT_THAT(resolve_against(other),
              HasSubstr("tensor 'model.norm.weight' of shape [256] is missing"));
}

TEST(LoadedModel, DevicesMustAgreeOnTheirArithmetic) {
  auto a = kernels::open_reference_device(DType::kF32).value();
  auto b = kernels::open_reference_device(DType::kBF16).value();
  const kernels::DeviceRef refs[] = {a.ref(), b.ref()};
  const auto activation = common_activation(refs);
  ASSERT_FALSE(activation);
  EXPECT_THAT(activation.error().message, HasSubstr("float32 and bfloat16"));
}

}  // namespace
}  // namespace tandem::model
