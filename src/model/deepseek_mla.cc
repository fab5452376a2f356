#include <cmath>

#include "model/architectures.h"

namespace tandem::model {
namespace {

void add_names(ModelSpec& spec, bool with_q_rank) {
  const std::string attention = "model.layers.{layer}.self_attn.";
  const std::string mlp = "model.layers.{layer}.mlp.";
  spec.names.erase(Role::kK);
  spec.names.erase(Role::kV);
  if (with_q_rank) {
    spec.names.erase(Role::kQ);
    spec.names[Role::kQA] = attention + "q_a_proj";
    spec.names[Role::kQANorm] = attention + "q_a_layernorm";
    spec.names[Role::kQB] = attention + "q_b_proj";
  }
  spec.names[Role::kKvA] = attention + "kv_a_proj_with_mqa";
  spec.names[Role::kKvANorm] = attention + "kv_a_layernorm";
  spec.names[Role::kKvB] = attention + "kv_b_proj";
  spec.names[Role::kRouter] = mlp + "gate";
  spec.names[Role::kRouterBias] = mlp + "gate.e_score_correction_bias";
  spec.names[Role::kExpertGate] = mlp + "experts.{expert}.gate_proj";
  spec.names[Role::kExpertUp] = mlp + "experts.{expert}.up_proj";
  spec.names[Role::kExpertDown] = mlp + "experts.{expert}.down_proj";
  spec.names[Role::kSharedGate] = mlp + "shared_experts.gate_proj";
  spec.names[Role::kSharedUp] = mlp + "shared_experts.up_proj";
  spec.names[Role::kSharedDown] = mlp + "shared_experts.down_proj";
}

Expected<AttentionSpec> read_attention(const ConfigReader& reader) {
  TANDEM_TRY(reader.require_false("attention_bias"));
  TANDEM_ASSIGN(const bool interleaved, reader.boolean_or("rope_interleave", true));
  if (!interleaved) return reader.unsupported("rope_interleave", "false", "true");
  AttentionSpec attention;
  attention.kind = AttentionKind::kMla;
  TANDEM_ASSIGN(const int64_t heads, reader.integer("num_attention_heads", 1, kMaxHeads));
  TANDEM_ASSIGN(const int64_t q_rank, reader.integer_or("q_lora_rank", 1, kMaxWidth, 0));
  TANDEM_ASSIGN(const int64_t latent, reader.integer("kv_lora_rank", 1, 1 << 16));
  TANDEM_ASSIGN(const int64_t nope, reader.integer("qk_nope_head_dim", 1, 1 << 14));
  TANDEM_ASSIGN(const int64_t rope, reader.integer("qk_rope_head_dim", 2, 1 << 14));
  TANDEM_ASSIGN(const int64_t value, reader.integer("v_head_dim", 1, 1 << 14));
  if (rope % 2 != 0) {
    return reader.unsupported("qk_rope_head_dim", std::to_string(rope), "even numbers");
  }
  attention.heads = static_cast<int32_t>(heads);
  attention.q_rank = static_cast<int32_t>(q_rank);
  attention.mla = {.heads = attention.heads,
                   .nope = static_cast<int32_t>(nope),
                   .rope = static_cast<int32_t>(rope),
                   .value = static_cast<int32_t>(value),
                   .latent = static_cast<int32_t>(latent)};
  return attention;
}

Expected<void> read_groups(const ConfigReader& reader, kernels::RouteSpec& route) {
  if (route.group_score == kernels::GroupScore::kNone) return {};
  TANDEM_ASSIGN(const int64_t groups, reader.integer_or("n_group", 1, route.experts, 1));
  TANDEM_ASSIGN(const int64_t top, reader.integer_or("topk_group", 1, groups, groups));
  if (route.experts % groups != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: 'n_group' {} does not divide 'n_routed_experts' {}",
                reader.file(),
                groups,
                route.experts);
  }
  const int64_t in_group = route.experts / groups;
  if (in_group * top < route.top_k) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: 'num_experts_per_tok' {} is more than the {} experts of 'topk_group' groups",
                reader.file(),
                route.top_k,
                in_group * top);
  }
  route.groups = static_cast<int32_t>(groups);
  route.top_groups = static_cast<int32_t>(top);
  // One group, or all of them: nothing to choose. A group of one expert has no two to add.
  if (top == groups) {
    route.group_score = kernels::GroupScore::kNone;
    route.groups = route.top_groups = 1;
  } else if (in_group < 2 && route.group_score == kernels::GroupScore::kTopTwoSum) {
    return reader.unsupported("n_group", std::to_string(groups), "groups of two experts or more");
  }
  return {};
}

Expected<MoeSpec> read_moe(const ConfigReader& reader,
                           const kernels::RouteSpec& route,
                           bool choice_bias) {
  TANDEM_TRY(reader.require_integer("moe_layer_freq", 1));
  MoeSpec moe;
  moe.route = route;
  moe.choice_bias = choice_bias;
  TANDEM_ASSIGN(const int64_t experts, reader.integer("n_routed_experts", 1, kMaxExperts));
  TANDEM_ASSIGN(const int64_t top_k, reader.integer("num_experts_per_tok", 1, experts));
  TANDEM_ASSIGN(const int64_t width, reader.integer("moe_intermediate_size", 1, kMaxWidth));
  TANDEM_ASSIGN(const int64_t shared, reader.integer_or("n_shared_experts", 0, 64, 0));
  TANDEM_ASSIGN(const double factor, reader.number_or("routed_scaling_factor", 1e-6, 1e6, 1.0));
  moe.route.experts = static_cast<int32_t>(experts);
  moe.route.top_k = static_cast<int32_t>(top_k);
  moe.route.factor = static_cast<float>(factor);
  moe.intermediate = static_cast<int32_t>(width);
  moe.shared_intermediate = static_cast<int32_t>(width * shared);
  TANDEM_TRY(read_groups(reader, moe.route));
  return moe;
}

}  // namespace

Expected<ModelSpec> read_deepseek_mla(const ConfigReader& reader,
                                      const kernels::RouteSpec& route,
                                      bool choice_bias) {
  TANDEM_ASSIGN(ModelSpec spec, read_common(reader));
  LayerSpec layer;
  TANDEM_ASSIGN(layer.attention, read_attention(reader));
  const kernels::MlaShape& mla = layer.attention.mla;
  TANDEM_ASSIGN(const RopeConfig rope, read_rope(reader, mla.rope, spec.max_positions));
  spec.rope = make_rope(rope);
  spec.rope.interleaved = true;  // pairs (2i, 2i + 1) in the checkpoint
  layer.attention.scale = static_cast<float>(mla_softmax_factor(rope) /
                                             std::sqrt(static_cast<double>(mla.nope + mla.rope)));
  add_names(spec, layer.attention.q_rank > 0);
  if (!choice_bias) spec.names.erase(Role::kRouterBias);

  TANDEM_ASSIGN(const int64_t layers, reader.integer("num_hidden_layers", 1, kMaxLayers));
  TANDEM_ASSIGN(const int64_t intermediate, reader.integer("intermediate_size", 1, kMaxWidth));
  TANDEM_ASSIGN(const int64_t dense, reader.integer_or("first_k_dense_replace", 0, kMaxLayers, 0));
  layer.intermediate = static_cast<int32_t>(intermediate);
  spec.layers.assign(static_cast<size_t>(std::min(dense, layers)), layer);
  if (dense >= layers) return spec;
  layer.intermediate = 0;
  TANDEM_ASSIGN(layer.moe, read_moe(reader, route, choice_bias));
  spec.layers.resize(static_cast<size_t>(layers), layer);
  return spec;
}

}  // namespace tandem::model
