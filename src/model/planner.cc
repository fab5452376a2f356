#include "model/planner.h"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "weights/loader.h"

namespace tandem::model {
namespace {

using weights::DeviceIndex;
using weights::LoadItem;
using weights::LoadKind;
using weights::LoadPart;

// Appends the items of a spec to a plan.
class PlanWriter {
 public:
  PlanWriter(const ModelSpec& spec, tensor::DType activation, Plan& plan)
      : spec_(spec), activation_(activation), plan_(plan) {}

  void add_model() {
    layer_ = -1;
    device_ = plan_.placement.embed;
    LoadItem table;
    table.kind = LoadKind::kTable;
    table.parts = {whole(Role::kEmbed, spec_.vocabulary, spec_.hidden)};
    add(std::move(table), Slot::kEmbed);
    for (size_t i = 0; i < spec_.layers.size(); ++i) add_layer(static_cast<int32_t>(i));
    layer_ = -1;
    device_ = plan_.placement.head;
    add_vector(Slot::kFinalNorm, Role::kFinalNorm, spec_.hidden);
    add_linear(Slot::kHead,
               {whole(spec_.tied ? Role::kEmbed : Role::kHead, spec_.vocabulary, spec_.hidden)});
  }

 private:
  void add_layer(int32_t index) {
    layer_ = index;
    const LayerSpec& layer = spec_.layers[static_cast<size_t>(index)];
    const weights::LayerPlacement& place = plan_.placement.layers[static_cast<size_t>(index)];
    device_ = place.attention;
    add_vector(Slot::kAttentionNorm, Role::kAttentionNorm, spec_.hidden);
    if (layer.attention.kind == AttentionKind::kMla) {
      add_mla(layer.attention);
    } else {
      add_gqa(layer.attention);
    }
    device_ = place.mlp;
    add_vector(Slot::kMlpNorm, Role::kMlpNorm, spec_.hidden);
    if (layer.moe) {
      add_moe(*layer.moe, place);
    } else {
      add_mlp({Role::kGate, Role::kUp, Role::kDown}, layer.intermediate);
    }
  }

  void add_gqa(const AttentionSpec& a) {
    const int64_t q = int64_t{a.heads} * a.head_dim;
    const int64_t kv = int64_t{a.kv_heads} * a.head_dim;
    add_linear(Slot::kInput,
               {whole(Role::kQ, q, spec_.hidden),
                whole(Role::kK, kv, spec_.hidden),
                whole(Role::kV, kv, spec_.hidden)});
    if (a.bias) {
      LoadItem bias;
      bias.kind = LoadKind::kVector;
      bias.parts = {whole(Role::kQ, q, 0), whole(Role::kK, kv, 0), whole(Role::kV, kv, 0)};
      for (LoadPart& part : bias.parts) {
        part.tensor.replace(part.tensor.rfind(".weight"), std::string::npos, ".bias");
      }
      add(std::move(bias), Slot::kInputBias);
    }
    if (a.qk_norm) {
      add_vector(Slot::kQNorm, Role::kQNorm, a.head_dim);
      add_vector(Slot::kKNorm, Role::kKNorm, a.head_dim);
    }
    add_linear(Slot::kO, {whole(Role::kO, spec_.hidden, q)});
  }

  void add_mla(const AttentionSpec& a) {
    const int64_t q = int64_t{a.heads} * (a.mla.nope + a.mla.rope);
    const LoadPart kv_a = whole(Role::kKvA, a.mla.latent + a.mla.rope, spec_.hidden);
    if (a.q_rank > 0) {
      add_linear(Slot::kInput, {whole(Role::kQA, a.q_rank, spec_.hidden), kv_a});
      add_vector(Slot::kQANorm, Role::kQANorm, a.q_rank);
      add_linear(Slot::kQB, {whole(Role::kQB, q, a.q_rank)});
    } else {
      add_linear(Slot::kInput, {whole(Role::kQ, q, spec_.hidden), kv_a});
    }
    add_vector(Slot::kLatentNorm, Role::kKvANorm, a.mla.latent);
    LoadItem kv_b;
    kv_b.kind = LoadKind::kMla;
    kv_b.mla = a.mla;
    kv_b.mla_storage =
        activation_ == tensor::DType::kF32 ? tensor::DType::kF32 : tensor::DType::kBF16;
    kv_b.parts = {whole(Role::kKvB, int64_t{a.heads} * (a.mla.nope + a.mla.value), a.mla.latent)};
    add(std::move(kv_b), Slot::kMla);
    add_linear(Slot::kO, {whole(Role::kO, spec_.hidden, int64_t{a.heads} * a.mla.value)});
  }

  struct MlpRoles {
    Role gate;
    Role up;
    Role down;
  };

  void add_mlp(const MlpRoles& roles, int64_t width) {
    add_linear(Slot::kGateUp,
               {whole(roles.gate, width, spec_.hidden), whole(roles.up, width, spec_.hidden)},
               kernels::Pairing::kGateUp);
    add_linear(Slot::kDown, {whole(roles.down, spec_.hidden, width)});
  }

  void add_moe(const MoeSpec& moe, const weights::LayerPlacement& place) {
    add_linear(Slot::kRouter, {whole(Role::kRouter, moe.route.experts, spec_.hidden)});
    if (moe.choice_bias) add_vector(Slot::kRouterBias, Role::kRouterBias, moe.route.experts);
    if (moe.shared_intermediate > 0) {
      add_mlp({Role::kSharedGate, Role::kSharedUp, Role::kSharedDown}, moe.shared_intermediate);
    }
    device_ = place.experts;
    for (expert_ = 0; expert_ < moe.route.experts; ++expert_) {
      add_linear(Slot::kExpertGateUp,
                 {whole(Role::kExpertGate, moe.intermediate, spec_.hidden),
                  whole(Role::kExpertUp, moe.intermediate, spec_.hidden)},
                 kernels::Pairing::kGateUp);
      add_linear(Slot::kExpertDown, {whole(Role::kExpertDown, spec_.hidden, moe.intermediate)});
    }
    expert_ = -1;
  }

  // A whole published tensor. Embedding, head and router stay unquantized in published fp8 files.
  LoadPart whole(Role role, int64_t rows, int64_t k) const {
    LoadPart part;
    part.tensor = spec_.tensor_name(role, layer_, expert_);
    part.tensor_rows = rows;
    part.rows = rows;
    part.k = k;
    part.quantized = k > 0 && role != Role::kEmbed && role != Role::kHead && role != Role::kRouter;
    return part;
  }

  void add_vector(Slot slot, Role role, int64_t width) {
    LoadItem item;
    item.kind = LoadKind::kVector;
    item.parts = {whole(role, width, 0)};
    add(std::move(item), slot);
  }

  void add_linear(Slot slot,
                  std::vector<LoadPart> parts,
                  kernels::Pairing pairing = kernels::Pairing::kConcatenate) {
    LoadItem item;
    item.kind = LoadKind::kLinear;
    item.pairing = pairing;
    item.parts = std::move(parts);
    add(std::move(item), slot);
  }

  void add(LoadItem item, Slot slot) {
    item.device = device_;
    item.group = layer_ + 1;
    plan_.items.push_back(std::move(item));
    plan_.targets.push_back({slot, layer_, expert_});
  }

  const ModelSpec& spec_;
  tensor::DType activation_;
  Plan& plan_;
  int32_t layer_ = -1;
  int32_t expert_ = -1;
  DeviceIndex device_ = 0;
};

// N of "model.layers.N.…", or -1.
int32_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return -1;
  int32_t layer = -1;
  const auto [end, error] =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return whole ? layer : -1;
}

}  // namespace

weights::Placement make_placement(const ModelSpec& spec, const PlacementOptions& options) {
  weights::Placement placement;
  placement.embed = options.device;
  placement.head = options.device;
  const DeviceIndex experts = options.expert_device.value_or(options.device);
  for (const LayerSpec& layer : spec.layers) {
    placement.layers.push_back(
        {options.device, options.device, layer.moe ? experts : options.device});
  }
  return placement;
}

Plan make_plan(const ModelSpec& spec,
               const weights::Placement& placement,
               tensor::DType activation) {
  TANDEM_CHECK(placement.layers.size() == spec.layers.size());
  Plan plan;
  plan.placement = placement;
  PlanWriter(spec, activation, plan).add_model();
  return plan;
}

Expected<void> resolve_plan(Plan& plan,
                            const ModelSpec& spec,
                            std::span<const kernels::DeviceRef> devices,
                            const weights::TensorSource& source) {
  const auto layers = static_cast<int32_t>(spec.layers.size());
  size_t draft_tensors = 0;
  const auto ignore = [&](std::string_view name) {
    const int32_t layer = layer_of(name);
    if (layer >= layers && layer < layers + spec.draft_layers) {
      ++draft_tensors;
      return true;
    }
    // Written by old versions of transformers; a tied head may be stored all the same.
    return name.ends_with(".rotary_emb.inv_freq") || (spec.tied && name == "lm_head.weight");
  };
  TANDEM_TRY(weights::resolve(plan.items, devices, source, ignore));
  if (draft_tensors > 0) {
    log_info("{} tensors of {} draft layer(s) (MTP) recognised and not loaded",
             draft_tensors,
             spec.draft_layers);
  }
  plan.weight_bytes.assign(devices.size(), 0);
  plan.source_bytes = 0;
  for (const LoadItem& item : plan.items) {
    plan.weight_bytes[static_cast<size_t>(item.device)] += item.device_bytes;
    plan.source_bytes += item.source_bytes;
  }
  return {};
}

weights::DummySource make_dummy_source(const ModelSpec& spec, const Plan& plan, uint64_t seed) {
  weights::DummyConfig config;
  config.dtype = spec.file_dtype;
  config.fp8_blocks = spec.quantization == Quantization::kFp8Block128;
  config.seed = seed;
  return weights::DummySource(plan.items, config);
}

void use_uniform_routing(ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) {
    if (layer.moe) layer.moe->route.uniform = true;
  }
}

}  // namespace tandem::model
