// Llama and what is built like it: DeepSeek LLM, DeepSeek Coder, R1-Distill-Llama. Facts: Hugging
// Face transformers' modeling_llama.
#include <cmath>

#include "model/architectures.h"

namespace tandem::model {

Expected<ModelSpec> read_llama(const ConfigReader& reader) {
  TANDEM_ASSIGN(ModelSpec spec, read_common(reader));
  spec.architecture = "LlamaForCausalLM";
  spec.model_type = "llama";
  TANDEM_TRY(reader.require_false("attention_bias"));
  TANDEM_ASSIGN(const int64_t heads, reader.integer("num_attention_heads", 1, kMaxHeads));
  TANDEM_ASSIGN(const int64_t kv_heads, reader.integer_or("num_key_value_heads", 1, heads, heads));
  if (heads % kv_heads != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: 'num_key_value_heads' {} does not divide 'num_attention_heads' {}",
                reader.file(),
                kv_heads,
                heads);
  }
  if (!reader.json().contains("head_dim") && spec.hidden % heads != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: 'num_attention_heads' {} does not divide 'hidden_size' {}",
                reader.file(),
                heads,
                spec.hidden);
  }
  TANDEM_ASSIGN(const int64_t head_dim,
                reader.integer_or("head_dim", 2, 1 << 14, spec.hidden / heads));
  if (head_dim < 2 || head_dim % 2 != 0) {
    return reader.unsupported("head_dim", std::to_string(head_dim), "even numbers");
  }

  LayerSpec layer;
  layer.attention.kind = AttentionKind::kGqa;
  layer.attention.heads = static_cast<int32_t>(heads);
  layer.attention.kv_heads = static_cast<int32_t>(kv_heads);
  layer.attention.head_dim = static_cast<int32_t>(head_dim);
  layer.attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  TANDEM_ASSIGN(const RopeConfig rope,
                read_rope(reader, layer.attention.head_dim, spec.max_positions));
  spec.rope = make_rope(rope);

  TANDEM_ASSIGN(const int64_t layers, reader.integer("num_hidden_layers", 1, kMaxLayers));
  TANDEM_ASSIGN(const int64_t intermediate, reader.integer("intermediate_size", 1, kMaxWidth));
  layer.intermediate = static_cast<int32_t>(intermediate);
  spec.layers.assign(static_cast<size_t>(layers), layer);
  return spec;
}

}  // namespace tandem::model
