#pragma once
// A model in device memory, ready to run.

#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "model/model_spec.h"
#include "model/planner.h"
#include "tensor/buffer.h"
#include "weights/loader.h"

namespace tandem::model {

// What a layer multiplies with; members that its spec does not use stay empty. Vectors are fp32.
struct LayerWeights {
  const float* attention_norm = nullptr;
  kernels::PackedWeight input;  // q|k|v, q_a|kv_a, or q|kv_a
  const float* input_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* q_a_norm = nullptr;
  kernels::PackedWeight q_b;
  const float* latent_norm = nullptr;
  kernels::MlaWeights mla;
  kernels::PackedWeight o;

  const float* mlp_norm = nullptr;
  kernels::PackedWeight gate_up;  // dense MLP, or the shared experts
  kernels::PackedWeight down;
  kernels::PackedWeight router;
  const float* router_bias = nullptr;
  std::vector<kernels::PackedWeight> expert_gate_up;  // on the experts' device
  std::vector<kernels::PackedWeight> expert_down;
  kernels::PackedExperts experts;  // points at the two above
};

// Owns the weights; borrows the devices, which must outlive it. Immutable after load(); any thread.
// Not movable: operators keep pointers into it.
class LoadedModel {
 public:
  // `plan` after resolve_plan(). Every device must have the same activation type
  // (kInvalidArgument).
  static Expected<std::unique_ptr<LoadedModel>> load(ModelSpec spec,
                                                     const Plan& plan,
                                                     std::span<const kernels::DeviceRef> devices,
                                                     const weights::TensorSource& source,
                                                     const weights::LoadOptions& options);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelSpec& spec() const { return spec_; }
  const weights::Placement& placement() const { return placement_; }
  kernels::DeviceRef device(weights::DeviceIndex index) const {
    return devices_[static_cast<size_t>(index)];
  }
  tensor::DType activation() const { return activation_; }

  const tensor::TensorView& embed() const { return embed_; }
  const float* final_norm() const { return final_norm_; }
  const kernels::PackedWeight& head() const { return head_; }
  const LayerWeights& layer(size_t index) const { return layers_[index]; }

 private:
  LoadedModel() = default;
  void place(const Target& target, const weights::LoadedItem& item);

  ModelSpec spec_;
  weights::Placement placement_;
  std::vector<kernels::DeviceRef> devices_;
  tensor::DType activation_ = tensor::DType::kF32;
  tensor::TensorView embed_;
  const float* final_norm_ = nullptr;
  kernels::PackedWeight head_;
  std::vector<LayerWeights> layers_;
  std::vector<tensor::Buffer> buffers_;
};

// The activation type that all devices were opened with.
Expected<tensor::DType> common_activation(std::span<const kernels::DeviceRef> devices);

}  // namespace tandem::model
