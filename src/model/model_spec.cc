#include "model/model_spec.h"

#include <string_view>

#include "base/check.h"

namespace tandem::model {
namespace {

void replace(std::string& text, std::string_view from, int32_t number) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), std::to_string(number));
}

}  // namespace

int64_t kv_layer_bytes_per_token(const AttentionSpec& attention, tensor::DType cache) {
  const auto element = static_cast<int64_t>(tensor::size_of(cache));
  if (attention.kind == AttentionKind::kMla) {
    return (int64_t{attention.mla.latent} + attention.mla.rope) * element;
  }
  return 2 * int64_t{attention.kv_heads} * attention.head_dim * element;
}

int64_t ModelSpec::kv_bytes_per_token(tensor::DType cache) const {
  int64_t bytes = 0;
  for (const LayerSpec& layer : layers) bytes += kv_layer_bytes_per_token(layer.attention, cache);
  return bytes;
}

std::string ModelSpec::tensor_name(Role role, int32_t layer, int32_t expert) const {
  const auto it = names.find(role);
  TANDEM_CHECK(it != names.end(), "a weight without a published name");
  std::string name = it->second;
  replace(name, "{layer}", layer);
  replace(name, "{expert}", expert);
  return role == Role::kRouterBias ? name : name + ".weight";
}

}  // namespace tandem::model
