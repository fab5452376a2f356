#pragma once
// (spec, placement) -> what to load onto which device, and what it takes there. Pure data; nothing
// is read before load().

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "model/model_spec.h"
#include "weights/dummy_source.h"
#include "weights/load_list.h"
#include "weights/placement.h"
#include "weights/tensor_source.h"

namespace tandem::model {

struct PlacementOptions {
  weights::DeviceIndex device = 0;                    // everything …
  std::optional<weights::DeviceIndex> expert_device;  // … but the routed experts (--moe-device)
};

weights::Placement make_placement(const ModelSpec& spec, const PlacementOptions& options);

// Where a loaded item goes in LoadedModel.
enum class Slot {
  kEmbed,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kMlpNorm,
  kInput,      // what the attention norm feeds: q|k|v, q_a|kv_a, or q|kv_a
  kInputBias,  // GQA
  kQNorm,
  kKNorm,
  kQANorm,
  kQB,
  kLatentNorm,
  kMla,
  kO,
  kGateUp,  // dense MLP or shared experts
  kDown,
  kRouter,
  kRouterBias,
  kExpertGateUp,
  kExpertDown,
};

struct Target {
  Slot slot = Slot::kEmbed;
  int32_t layer = -1;
  int32_t expert = -1;
};

struct Plan {
  weights::Placement placement;
  std::vector<weights::LoadItem> items;
  std::vector<Target> targets;  // by item
  // Found by resolve_plan():
  std::vector<size_t> weight_bytes;  // by device
  size_t source_bytes = 0;           // of published tensors that are read
};

// `activation` of the devices decides how kv_b_proj is stored: float32 keeps float32.
Plan make_plan(const ModelSpec& spec,
               const weights::Placement& placement,
               tensor::DType activation);

// Checks every tensor against the spec and counts bytes. Tensors that belong to draft layers (MTP)
// are recognised and skipped, with a line in the log; other tensors that nothing uses are an error.
Expected<void> resolve_plan(Plan& plan,
                            const ModelSpec& spec,
                            std::span<const kernels::DeviceRef> devices,
                            const weights::TensorSource& source);

// Random weights of the shapes and formats that the published files would have. For honest speed,
// set the spec's routers to uniform first (use_uniform_routing).
weights::DummySource make_dummy_source(const ModelSpec& spec, const Plan& plan, uint64_t seed);
void use_uniform_routing(ModelSpec& spec);

}  // namespace tandem::model
