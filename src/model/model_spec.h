#pragma once
// A model as data: what the Decoder runs. Made from config.json (or GGUF metadata) by one function
// an architecture.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/operators.h"
#include "tensor/dtype.h"

namespace tandem::model {

enum class AttentionKind { kGqa, kMla };

struct AttentionSpec {
  AttentionKind kind = AttentionKind::kGqa;
  int32_t heads = 0;
  float scale = 0;  // on the scores; YaRN's softmax factor included

  // kGqa
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  bool bias = false;     // on q, k, v
  bool qk_norm = false;  // RMS norm per head before the rotation (Qwen3)

  // kMla
  int32_t q_rank = 0;  // q_lora_rank; 0 = one plain q_proj
  kernels::MlaShape mla;
  float latent_norm_eps = 1e-6f;  // q_a_layernorm and kv_a_layernorm: always 1e-6
};

struct MoeSpec {
  kernels::RouteSpec route;
  int32_t intermediate = 0;         // of one routed expert
  int32_t shared_intermediate = 0;  // of the shared expert(s) together; 0 = none
  bool choice_bias = false;         // e_score_correction_bias
};

struct LayerSpec {
  AttentionSpec attention;
  int32_t intermediate = 0;  // dense MLP; 0 if `moe`
  std::optional<MoeSpec> moe;
};

// Rotary frequencies with the scaling already applied: angle = position * inverse_frequency[i].
struct RopeSpec {
  std::vector<float> inverse_frequency;  // [rotary / 2]
  float factor = 1.0f;                   // on cos and sin
  bool interleaved = false;
  int32_t rotary() const { return static_cast<int32_t>(inverse_frequency.size()) * 2; }
};

// Places of weights in a model; a table of patterns gives their published names ({layer},
// {expert}; without ".weight", except kRouterBias, which is a whole name).
enum class Role {
  kEmbed,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kMlpNorm,
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,  // GQA; kQ also MLA without q_rank; kO both
  kQA,
  kQANorm,
  kQB,
  kKvA,
  kKvANorm,
  kKvB,  // MLA
  kGate,
  kUp,
  kDown,  // dense MLP
  kRouter,
  kRouterBias,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
};

// How the linears of the file are stored.
enum class Quantization { kNone, kFp8Block128 };

struct ModelSpec {
  std::string architecture;  // "DeepseekV3ForCausalLM"
  std::string model_type;
  int64_t hidden = 0;
  int64_t vocabulary = 0;     // logits width
  int64_t max_positions = 0;  // context by config
  float norm_eps = 0;
  bool tied = false;  // head = embedding
  RopeSpec rope;
  std::vector<LayerSpec> layers;
  int32_t draft_layers =
      0;  // MTP layers that the file holds after the main ones; recognised, loaded when asked for
  Quantization quantization = Quantization::kNone;
  tensor::DType file_dtype = tensor::DType::kBF16;  // torch_dtype: what dummy weights are made in
  std::map<Role, std::string> names;
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id;

  // Bytes of one token's cache rows in all layers.
  int64_t kv_bytes_per_token(tensor::DType cache) const;

  // Published name of a tensor: the role's pattern with the numbers put in, and ".weight" unless
  // the pattern is a whole name itself (kRouterBias). TANDEM_CHECK: the role has a name.
  std::string tensor_name(Role role, int32_t layer = -1, int32_t expert = -1) const;
};

// Bytes of one token's cache row(s) in one layer: K and V of all kv heads, or latent and rotary.
int64_t kv_layer_bytes_per_token(const AttentionSpec& attention, tensor::DType cache);

}  // namespace tandem::model
