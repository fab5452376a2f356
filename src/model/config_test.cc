#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "system/files.h"
#include "system/temporary_directory.h"

namespace tandem::model {
namespace {

using ::testing::HasSubstr;

Json bundled() {
  const auto text =
      system::read_text_file(TANDEM_SOURCE_DIR "/models/tandem-tiny-v3/config.json", 1 << 20);
  return parse_json(text.value()).value();
}

Json llama() {
  return parse_json(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama",
    "hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,
    "num_key_value_heads":2,"vocab_size":100,"max_position_embeddings":128,"hidden_act":"silu",
    "rms_norm_eps":1e-5,"tie_word_embeddings":true,"torch_dtype":"float16","rope_scaling":null,
    "eos_token_id":[7,9]})")
      .value();
}

TEST(Config, ReadsDeepSeekV3) {
  const auto spec = parse_model_config(bundled(), "config.json");
  ASSERT_TRUE(spec) << spec.error().to_line();
  EXPECT_EQ(spec->layers.size(), 6u);
  EXPECT_EQ(spec->draft_layers, 1);
  EXPECT_EQ(spec->quantization, Quantization::kFp8Block128);
  EXPECT_TRUE(spec->rope.interleaved);
  EXPECT_EQ(spec->rope.rotary(), 16);
  EXPECT_EQ(spec->layers[0].intermediate, 768);
  EXPECT_FALSE(spec->layers[0].moe);
  ASSERT_TRUE(spec->layers[1].moe);
  const MoeSpec& moe = *spec->layers[1].moe;
  EXPECT_EQ(moe.route.experts, 16);
  EXPECT_EQ(moe.route.groups, 4);
  EXPECT_EQ(moe.route.top_groups, 2);
  EXPECT_EQ(moe.route.group_score, kernels::GroupScore::kTopTwoSum);
  EXPECT_EQ(moe.route.masked_score, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(moe.route.renormalize);
  EXPECT_EQ(moe.shared_intermediate, 128);
  const double m = 0.1 * std::log(4.0) + 1.0;
  EXPECT_NEAR(spec->layers[0].attention.scale, m * m / std::sqrt(48.0), 1e-7);
  EXPECT_EQ(spec->kv_bytes_per_token(tensor::DType::kBF16), 6 * 80 * 2);
  EXPECT_EQ(spec->tensor_name(Role::kExpertUp, 3, 12),
            "model.layers.3.mlp.experts.12.up_proj.weight");
  EXPECT_EQ(spec->tensor_name(Role::kRouterBias, 3),
            "model.layers.3.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(spec->eos_ids, std::vector<int32_t>{1});
}

TEST(Config, ReadsLlamaAndItsRopes) {
  Json config = llama();
  auto spec = parse_model_config(config, "config.json");
  ASSERT_TRUE(spec) << spec.error().to_line();
  EXPECT_EQ(spec->layers[1].attention.head_dim, 16);
  EXPECT_TRUE(spec->tied);
  EXPECT_EQ(spec->file_dtype, tensor::DType::kF16);
  EXPECT_EQ(spec->eos_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_EQ(spec->kv_bytes_per_token(tensor::DType::kF32), 2 * 2 * 2 * 16 * 4);
  // All spellings of one scaling give one table.
  for (const char* rope : {R"({"rope_scaling":{"type":"linear","factor":2.0}})",
                           R"({"rope_scaling":{"rope_type":"linear","factor":2}})",
                           R"({"rope_parameters":{"rope_type":"linear","factor":2,
                              "rope_theta":10000.0}})"}) {
    config = llama();
    config.update(parse_json(rope).value());
    spec = parse_model_config(config, "config.json");
    ASSERT_TRUE(spec) << spec.error().to_line();
    EXPECT_FLOAT_EQ(spec->rope.inverse_frequency[0], 0.5f);
  }
}

void expect_refused(const Json& base, const char* change, const char* text) {
  Json config = base;
  config.merge_patch(parse_json(change).value());
  const auto spec = parse_model_config(config, "x/config.json");
  ASSERT_FALSE(spec) << "accepted: " << change;
  EXPECT_THAT(spec.error().message, HasSubstr(text)) << change;
  EXPECT_THAT(spec.error().message, HasSubstr("x/config.json"));
  EXPECT_EQ(spec.error().message.find('\n'), std::string::npos);
}

TEST(Config, RefusesWhatWouldChangeTheResult) {
  const Json v3 = bundled();
  expect_refused(v3, R"({"architectures":["Bad\nName"]})", "is not supported; accepted: Deepseek");
  expect_refused(v3, R"({"architectures":[]})", "'architectures'");
  expect_refused(v3, R"({"model_type":"deepseek_v32"})", "\"deepseek_v32\"");
  expect_refused(v3, R"({"hidden_act":"gelu"})", "'hidden_act' is \"gelu\"");
  expect_refused(v3, R"({"attention_bias":true})", "'attention_bias' is true");
  expect_refused(v3, R"({"moe_layer_freq":2})", "'moe_layer_freq' is 2");
  expect_refused(v3, R"({"topk_method":"greedy"})", "accepted: \"noaux_tc\"");
  expect_refused(v3, R"({"scoring_func":"softmax"})", "accepted: \"sigmoid\"");
  expect_refused(v3, R"({"rope_interleave":false})", "'rope_interleave'");
  expect_refused(v3, R"({"rope_scaling":{"type":"longrope"}})", "\"longrope\"");
  expect_refused(v3, R"({"rope_scaling":{"type":"dynamic"}})", "\"yarn\"");
  expect_refused(v3, R"({"rope_scaling":{"truncate":false}})", "'truncate'");
  expect_refused(v3, R"({"torch_dtype":"int8"})", "'torch_dtype'");
  expect_refused(v3, R"({"quantization_config":{"quant_method":"awq"}})", "\"awq\"");
  expect_refused(v3, R"({"quantization_config":{"fmt":"e5m2"}})", "'fmt'");
  expect_refused(v3, R"({"quantization_config":{"scale_fmt":"x"}})", "'scale_fmt'");
  expect_refused(v3, R"({"quantization_config":{"activation_scheme":"static"}})", "\"static\"");
  expect_refused(v3, R"({"quantization_config":{"weight_block_size":[32,32]}})", "[32,32]");
  expect_refused(v3, R"({"quantization_config":{"quant_method":null}})", "'quant_method'");
  expect_refused(llama(), R"({"attention_bias":true})", "'attention_bias'");
  expect_refused(llama(), R"({"mlp_bias":true})", "'mlp_bias'");
  expect_refused(llama(), R"({"partial_rotary_factor":0.5})", "'partial_rotary_factor'");
}

TEST(Config, RefusesAbsurdNumbers) {
  const Json v3 = bundled();
  for (const char* key : {"hidden_size",
                          "vocab_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "intermediate_size",
                          "moe_intermediate_size",
                          "kv_lora_rank",
                          "q_lora_rank",
                          "qk_nope_head_dim",
                          "qk_rope_head_dim",
                          "v_head_dim",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "max_position_embeddings"}) {
    for (const char* value : {"0",
                              "-1",
                              "9223372036854775807",
                              "18446744073709551615",
                              "1e300",
                              "\"8\"",
                              "1.5",
                              "[]"}) {
      const std::string change = std::string("{\"") + key + "\":" + value + "}";
      expect_refused(v3, change.c_str(), key);
    }
  }
  expect_refused(v3, R"({"hidden_size":null})", "'hidden_size' is missing");
  expect_refused(v3, R"({"qk_rope_head_dim":15})", "even numbers");
  expect_refused(v3, R"({"n_group":3})", "does not divide");
  expect_refused(v3, R"({"n_group":16,"topk_group":4})", "groups of two");
  expect_refused(v3, R"({"n_group":8,"topk_group":1})", "'num_experts_per_tok' 4 is more");
  expect_refused(v3, R"({"rms_norm_eps":-1})", "'rms_norm_eps'");
  expect_refused(v3, R"({"rope_theta":0})", "'rope_theta'");
  expect_refused(v3, R"({"rope_scaling":{"factor":0}})", "'factor'");
  expect_refused(v3, R"({"rope_scaling":7})", "must be an object");
  expect_refused(v3, R"({"eos_token_id":-1})", "'eos_token_id'");
  expect_refused(v3, R"({"eos_token_id":"x"})", "'eos_token_id'");
  expect_refused(llama(), R"({"num_key_value_heads":3})", "does not divide");
  expect_refused(llama(), R"({"num_attention_heads":5,"num_key_value_heads":5})", "not divide");
  expect_refused(llama(), R"({"head_dim":15})", "even numbers");
  EXPECT_FALSE(parse_model_config(Json::array(), "x/config.json"));
}

TEST(GenerationConfig, ReadsWhatIsThere) {
  const auto given = read_generation_config(TANDEM_SOURCE_DIR "/models/tandem-tiny-v3");
  ASSERT_TRUE(given) << given.error().to_line();
  EXPECT_EQ(given->eos_ids, std::vector<int32_t>{1});
  EXPECT_EQ(given->temperature, 0.6);
  EXPECT_EQ(given->top_p, 0.95);
  EXPECT_FALSE(given->top_k);

  const system::TemporaryDirectory directory;
  EXPECT_TRUE(read_generation_config(directory.path())->eos_ids.empty());
  directory.write("generation_config.json", R"({"eos_token_id":[1,2,3],"top_k":50})");
  EXPECT_EQ(read_generation_config(directory.path())->eos_ids.size(), 3u);
  EXPECT_EQ(read_generation_config(directory.path())->top_k, 50);
  for (const char* bad : {"{",
                          "[]",
                          R"({"temperature":"hot"})",
                          R"({"top_p":2})",
                          R"({"eos_token_id":[1,null]})",
                          R"({"top_k":-2})"}) {
    directory.write("generation_config.json", bad);
    EXPECT_FALSE(read_generation_config(directory.path())) << bad;
  }
}

TEST(Config, NamesGgufFolders) {
  const system::TemporaryDirectory directory;
  EXPECT_FALSE(read_model_config(directory.path()));
  directory.write("model.gguf", "GGUF");
  const auto spec = read_model_config(directory.path());
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(spec.error().message, HasSubstr("model.gguf"));
}

}  // namespace
}  // namespace tandem::model
