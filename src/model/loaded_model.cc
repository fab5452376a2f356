#include "model/loaded_model.h"

#include <utility>

#include "base/check.h"

namespace tandem::model {

Expected<tensor::DType> common_activation(std::span<const kernels::DeviceRef> devices) {
  TANDEM_CHECK(!devices.empty());
  kernels::DeviceInfo first;
  for (const kernels::DeviceRef& device : devices) {
    kernels::DeviceInfo info;
    TANDEM_TRY(tensor::to_expected(device.api->describe(device.device, &info)));
    if (&device == &devices[0]) {
      first = info;
    } else if (info.activation != first.activation) {
      return fail(ErrorCode::kInvalidArgument,
                  "devices '{}' and '{}' compute in {} and {}: they must agree",
                  first.name,
                  info.name,
                  tensor::to_string(first.activation),
                  tensor::to_string(info.activation));
    }
  }
  return first.activation;
}

Expected<std::unique_ptr<LoadedModel>> LoadedModel::load(
    ModelSpec spec,
    const Plan& plan,
    std::span<const kernels::DeviceRef> devices,
    const weights::TensorSource& source,
    const weights::LoadOptions& options) {
  std::unique_ptr<LoadedModel> model(new LoadedModel());
  TANDEM_ASSIGN(model->activation_, common_activation(devices));
  TANDEM_ASSIGN(weights::LoadedWeights loaded, weights::load(plan.items, devices, source, options));
  model->spec_ = std::move(spec);
  model->placement_ = plan.placement;
  model->devices_.assign(devices.begin(), devices.end());
  model->buffers_ = std::move(loaded.buffers);
  model->layers_.resize(model->spec_.layers.size());
  for (size_t i = 0; i < model->layers_.size(); ++i) {
    if (!model->spec_.layers[i].moe) continue;
    const auto experts = static_cast<size_t>(model->spec_.layers[i].moe->route.experts);
    LayerWeights& layer = model->layers_[i];
    layer.expert_gate_up.resize(experts);
    layer.expert_down.resize(experts);
    layer.experts = {
        static_cast<int32_t>(experts), layer.expert_gate_up.data(), layer.expert_down.data()};
  }
  for (size_t i = 0; i < plan.items.size(); ++i) model->place(plan.targets[i], loaded.items[i]);
  return model;
}

void LoadedModel::place(const Target& target, const weights::LoadedItem& item) {
  switch (target.slot) {
    case Slot::kEmbed:
      embed_ = item.table;
      return;
    case Slot::kFinalNorm:
      final_norm_ = item.vector;
      return;
    case Slot::kHead:
      head_ = item.linear;
      return;
    default:
      break;
  }
  LayerWeights& layer = layers_[static_cast<size_t>(target.layer)];
  const auto expert = static_cast<size_t>(std::max(target.expert, 0));
  switch (target.slot) {
    case Slot::kAttentionNorm:
      layer.attention_norm = item.vector;
      break;
    case Slot::kMlpNorm:
      layer.mlp_norm = item.vector;
      break;
    case Slot::kInput:
      layer.input = item.linear;
      break;
    case Slot::kInputBias:
      layer.input_bias = item.vector;
      break;
    case Slot::kQNorm:
      layer.q_norm = item.vector;
      break;
    case Slot::kKNorm:
      layer.k_norm = item.vector;
      break;
    case Slot::kQANorm:
      layer.q_a_norm = item.vector;
      break;
    case Slot::kQB:
      layer.q_b = item.linear;
      break;
    case Slot::kLatentNorm:
      layer.latent_norm = item.vector;
      break;
    case Slot::kMla:
      layer.mla = item.mla;
      break;
    case Slot::kO:
      layer.o = item.linear;
      break;
    case Slot::kGateUp:
      layer.gate_up = item.linear;
      break;
    case Slot::kDown:
      layer.down = item.linear;
      break;
    case Slot::kRouter:
      layer.router = item.linear;
      break;
    case Slot::kRouterBias:
      layer.router_bias = item.vector;
      break;
    case Slot::kExpertGateUp:
      layer.expert_gate_up[expert] = item.linear;
      break;
    case Slot::kExpertDown:
      layer.expert_down[expert] = item.linear;
      break;
    default:
      TANDEM_CHECK(false, "an item without a place");
  }
}

}  // namespace tandem::model
