#include "model/decoder.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "model/rope.h"

namespace tandem::model {
namespace {

using kernels::Epilogue;
using tensor::DType;
using tensor::RowsView;
using tensor::to_expected;

// The same rows, `columns` wide: the arrays are as wide as the widest layer needs.
RowsView narrow(const RowsView& rows, int64_t columns) {
  TANDEM_CHECK(columns <= rows.columns);
  return {rows.data, rows.dtype, columns, columns};
}

int64_t q_width(const AttentionSpec& a) {
  return int64_t{a.heads} * (a.kind == AttentionKind::kMla ? a.mla.nope + a.mla.rope : a.head_dim);
}

int64_t input_width(const AttentionSpec& a) {
  if (a.kind == AttentionKind::kGqa) return q_width(a) + 2 * int64_t{a.kv_heads} * a.head_dim;
  return (a.q_rank > 0 ? a.q_rank : q_width(a)) + a.mla.latent + a.mla.rope;
}

int64_t mixed_width(const AttentionSpec& a) {
  return int64_t{a.heads} * (a.kind == AttentionKind::kMla ? a.mla.value : a.head_dim);
}

// Widths of the widest layer.
struct Widths {
  int64_t input = 0;
  int64_t q_rank = 0;
  int64_t q_wide = 0;
  int64_t q = 0;
  int64_t mixed = 0;
  int64_t mlp = 0;
  int64_t experts = 0;
  int64_t top_k = 0;

  explicit Widths(const ModelSpec& spec) {
    for (const LayerSpec& layer : spec.layers) {
      const AttentionSpec& a = layer.attention;
      input = std::max(input, input_width(a));
      q_rank = std::max<int64_t>(q_rank, a.q_rank);
      if (a.q_rank > 0) q_wide = std::max(q_wide, q_width(a));
      q = std::max(q, q_width(a));
      mixed = std::max(mixed, mixed_width(a));
      mlp = std::max<int64_t>(
          {mlp, layer.intermediate, layer.moe ? layer.moe->shared_intermediate : 0});
      if (!layer.moe) continue;
      experts = std::max<int64_t>(experts, layer.moe->route.experts);
      top_k = std::max<int64_t>(top_k, layer.moe->route.top_k);
    }
  }
};

}  // namespace

Decoder::Decoder(const LoadedModel& model, const DecoderOptions& options)
    : model_(model),
      spec_(model.spec()),
      options_(options),
      device_(model.device(model.placement().embed)) {}

Decoder::~Decoder() { recover(); }

Expected<std::unique_ptr<Decoder>> Decoder::create(const LoadedModel& model,
                                                   const DecoderOptions& options) {
  TANDEM_CHECK(options.max_tokens > 0 && options.max_logits_rows > 0 && options.max_positions > 0);
  const weights::Placement& placement = model.placement();
  for (const weights::LayerPlacement& layer : placement.layers) {
    if (layer.attention != placement.embed || layer.mlp != placement.embed ||
        placement.head != placement.embed) {
      return fail(ErrorCode::kUnsupported,
                  "this placement is not supported: only routed experts may be on another device");
    }
  }
  std::unique_ptr<Decoder> decoder(new Decoder(model, options));
  TANDEM_ASSIGN(decoder->stream_, weights::OwnedStream::create(decoder->device_));
  TANDEM_TRY(decoder->prepare_links());
  TANDEM_TRY(decoder->prepare_rope());
  decoder->reserve_arrays();
  TANDEM_TRY(decoder->workspace_.allocate(decoder->device_));
  decoder->take_arrays();
  return decoder;
}

Expected<void> Decoder::prepare_links() {
  const Widths widths(spec_);
  std::map<weights::DeviceIndex, ExpertLink*> by_device;
  for (const weights::LayerPlacement& layer : model_.placement().layers) {
    ExpertLink*& link = by_device[layer.experts];
    if (layer.experts != layer.mlp && !link) {
      const ExpertLinkShape shape{.max_tokens = options_.max_tokens,
                                  .hidden = spec_.hidden,
                                  .max_top_k = static_cast<int32_t>(widths.top_k),
                                  .activation = model_.activation()};
      TANDEM_ASSIGN(std::unique_ptr<ExpertLink> created,
                    ExpertLink::create(device_, model_.device(layer.experts), shape));
      link = created.get();
      links_.push_back(std::move(created));
    }
    link_of_layer_.push_back(link);
  }
  return {};
}

Expected<void> Decoder::prepare_rope() {
  const auto half = static_cast<int64_t>(spec_.rope.inverse_frequency.size());
  const auto count = static_cast<size_t>(options_.max_positions * half);
  rope_memory_.reserve(options_.max_positions, half, DType::kF32);
  rope_memory_.reserve(options_.max_positions, half, DType::kF32);
  TANDEM_TRY(rope_memory_.allocate(device_));
  std::vector<float> cos(count);
  std::vector<float> sin(count);
  fill_rope_table(spec_.rope, cos, sin);
  const tensor::MemoryApi& memory = device_.api->memory;
  void* device_cos = rope_memory_.take();
  void* device_sin = rope_memory_.take();
  const size_t bytes = count * sizeof(float);
  TANDEM_TRY(to_expected(memory.copy(device_.device, stream(), device_cos, cos.data(), bytes)));
  TANDEM_TRY(to_expected(memory.copy(device_.device, stream(), device_sin, sin.data(), bytes)));
  TANDEM_TRY(to_expected(memory.synchronize(device_.device, stream())));
  rope_ = {static_cast<const float*>(device_cos),
           static_cast<const float*>(device_sin),
           spec_.rope.rotary(),
           spec_.rope.interleaved};
  return {};
}

void Decoder::reserve_arrays() {
  const Widths widths(spec_);
  const DType a = model_.activation();
  const int64_t rows = options_.max_tokens;
  workspace_.reserve(rows, spec_.hidden, DType::kF32);
  workspace_.reserve(rows, spec_.hidden, DType::kF32);
  workspace_.reserve(rows, spec_.hidden, a);
  if (a != DType::kF32) workspace_.reserve(rows, spec_.hidden, DType::kF32);
  workspace_.reserve(rows, widths.input, DType::kF32);
  workspace_.reserve(rows, widths.q_rank, a);
  workspace_.reserve(rows, widths.q_wide, DType::kF32);
  workspace_.reserve(rows, widths.q, a);
  workspace_.reserve(rows, widths.mixed, a);
  workspace_.reserve(rows, widths.mlp, a);
  workspace_.reserve(rows, widths.experts, DType::kF32);
  workspace_.reserve(rows, widths.top_k, DType::kI32);
  workspace_.reserve(rows, widths.top_k, DType::kF32);
  workspace_.reserve(options_.max_logits_rows, spec_.hidden, DType::kF32);
  workspace_.reserve(options_.max_logits_rows, spec_.hidden, a);
  workspace_.reserve(options_.max_logits_rows, spec_.vocabulary, DType::kF32);
}

void Decoder::take_arrays() {
  const Widths widths(spec_);
  const DType a = model_.activation();
  x_ = workspace_.take_rows(spec_.hidden, DType::kF32);
  delta_ = workspace_.take_rows(spec_.hidden, DType::kF32);
  normed_ = workspace_.take_rows(spec_.hidden, a);
  normed_f32_ = a == DType::kF32 ? normed_ : workspace_.take_rows(spec_.hidden, DType::kF32);
  input_ = workspace_.take_rows(widths.input, DType::kF32);
  q_rank_ = workspace_.take_rows(widths.q_rank, a);
  q_wide_ = workspace_.take_rows(widths.q_wide, DType::kF32);
  q_ = workspace_.take_rows(widths.q, a);
  mixed_ = workspace_.take_rows(widths.mixed, a);
  mlp_ = workspace_.take_rows(widths.mlp, a);
  router_ = workspace_.take_rows(widths.experts, DType::kF32);
  expert_ids_ = static_cast<int32_t*>(workspace_.take());
  expert_weights_ = static_cast<float*>(workspace_.take());
  last_ = workspace_.take_rows(spec_.hidden, DType::kF32);
  last_normed_ = workspace_.take_rows(spec_.hidden, a);
  logits_ = workspace_.take_rows(spec_.vocabulary, DType::kF32);
}

Expected<void> Decoder::run(const DeviceBatch& batch, std::span<const kernels::KvLayer> caches) {
  TANDEM_CHECK(batch.tokens > 0 && batch.tokens <= options_.max_tokens);
  TANDEM_CHECK(caches.size() == spec_.layers.size() && !batch.groups.empty());
  tokens_ = batch.tokens;
  delta_pending_ = false;
  kernels::EmbedArgs embed;
  embed.tokens = tokens_;
  embed.ids = batch.ids;
  embed.previous_ids = batch.previous_ids;
  embed.table = model_.embed();
  embed.out = x_;
  TANDEM_TRY(to_expected(device_.api->embed(device_.device, stream(), &embed)));
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    TANDEM_TRY(attention(i, batch.groups[0], caches[i]));
    TANDEM_TRY(spec_.layers[i].moe ? moe(i) : dense_mlp(i));
  }
  if (!delta_pending_) return {};
  return norm(x_, nullptr, {});  // the addition alone
}

Expected<tensor::RowsView> Decoder::logits(const int32_t* rows, int32_t count) {
  TANDEM_CHECK(count > 0 && count <= options_.max_logits_rows && !delta_pending_);
  kernels::GatherRowsArgs gather;
  gather.count = count;
  gather.rows = rows;
  gather.source = x_;
  gather.out = last_;
  TANDEM_TRY(to_expected(device_.api->gather_rows(device_.device, stream(), &gather)));
  tokens_ = count;
  TANDEM_TRY(norm(last_, model_.final_norm(), last_normed_));
  TANDEM_TRY(linear(last_normed_, model_.head(), logits_));
  return logits_;
}

void Decoder::recover() {
  // Failures belong to the step that has failed already.
  if (stream()) (void)device_.api->memory.synchronize(device_.device, stream());
  for (const auto& link : links_) link->recover();
  delta_pending_ = false;
}

// The residual stream's norms add what is pending first.
Expected<void> Decoder::norm(const RowsView& x, const float* weight, const RowsView& out) {
  kernels::RmsNormArgs args;
  args.tokens = tokens_;
  args.x = x;
  if (delta_pending_ && x.data == x_.data) {
    args.delta = delta_;
    delta_pending_ = false;
  }
  args.weight = weight;
  args.eps = spec_.norm_eps;
  args.out = out;
  return to_expected(device_.api->rms_norm(device_.device, stream(), &args));
}

Expected<void> Decoder::linear(const RowsView& x,
                               const kernels::PackedWeight& weight,
                               const RowsView& out,
                               Epilogue epilogue,
                               const float* bias) {
  kernels::LinearArgs args;
  args.tokens = tokens_;
  args.x = x;
  args.weight = &weight;
  args.bias = bias;
  args.out = out;
  args.epilogue = epilogue;
  return to_expected(device_.api->linear(device_.device, stream(), &args));
}

Expected<void> Decoder::attention(size_t index,
                                  const kernels::RaggedBatch& batch,
                                  const kernels::KvLayer& cache) {
  const LayerWeights& weights = model_.layer(index);
  const AttentionSpec& spec = spec_.layers[index].attention;
  TANDEM_TRY(norm(x_, weights.attention_norm, normed_));
  TANDEM_TRY(linear(normed_,
                    weights.input,
                    narrow(input_, input_width(spec)),
                    Epilogue::kNone,
                    weights.input_bias));
  TANDEM_TRY(spec.kind == AttentionKind::kMla ? mla(index, batch, cache)
                                              : gqa(index, batch, cache));
  return linear(narrow(mixed_, mixed_width(spec)), weights.o, x_, Epilogue::kAdd);
}

Expected<void> Decoder::mla(size_t index,
                            const kernels::RaggedBatch& batch,
                            const kernels::KvLayer& cache) {
  const LayerWeights& weights = model_.layer(index);
  const AttentionSpec& spec = spec_.layers[index].attention;
  const RowsView input = narrow(input_, input_width(spec));
  const int64_t first = spec.q_rank > 0 ? spec.q_rank : q_width(spec);
  RowsView q = input.slice(0, first);
  if (spec.q_rank > 0) {
    const RowsView q_rank = narrow(q_rank_, spec.q_rank);
    kernels::RmsNormArgs norm_args;
    norm_args.tokens = tokens_;
    norm_args.x = q;
    norm_args.weight = weights.q_a_norm;
    norm_args.eps = spec.latent_norm_eps;
    norm_args.out = q_rank;
    TANDEM_TRY(to_expected(device_.api->rms_norm(device_.device, stream(), &norm_args)));
    q = narrow(q_wide_, q_width(spec));
    TANDEM_TRY(linear(q_rank, weights.q_b, q));
  }
  kernels::MlaRopeAppendArgs append;
  append.batch = batch;
  append.shape = spec.mla;
  append.q = q;
  append.kv = input.slice(first, spec.mla.latent + spec.mla.rope);
  append.latent_norm = weights.latent_norm;
  append.eps = spec.latent_norm_eps;
  append.rope = rope_;
  append.q_out = narrow(q_, q_width(spec));
  append.cache = cache;
  TANDEM_TRY(to_expected(device_.api->mla_rope_append(device_.device, stream(), &append)));

  kernels::MlaAttendArgs attend;
  attend.batch = batch;
  attend.weights = &weights.mla;
  attend.q = append.q_out;
  attend.scale = spec.scale;
  attend.cache = cache;
  attend.out = narrow(mixed_, mixed_width(spec));
  return to_expected(device_.api->mla_attend(device_.device, stream(), &attend));
}

Expected<void> Decoder::gqa(size_t index,
                            const kernels::RaggedBatch& batch,
                            const kernels::KvLayer& cache) {
  const LayerWeights& weights = model_.layer(index);
  const AttentionSpec& spec = spec_.layers[index].attention;
  kernels::RopeAppendArgs append;
  append.batch = batch;
  append.qkv = narrow(input_, input_width(spec));
  append.heads = spec.heads;
  append.q_norm = weights.q_norm;
  append.k_norm = weights.k_norm;
  append.eps = spec_.norm_eps;
  append.rope = rope_;
  append.q = narrow(q_, q_width(spec));
  append.cache = cache;
  TANDEM_TRY(to_expected(device_.api->rope_append(device_.device, stream(), &append)));

  kernels::AttendArgs attend;
  attend.batch = batch;
  attend.q = append.q;
  attend.heads = spec.heads;
  attend.scale = spec.scale;
  attend.cache = cache;
  attend.out = narrow(mixed_, mixed_width(spec));
  return to_expected(device_.api->attend(device_.device, stream(), &attend));
}

Expected<void> Decoder::dense_mlp(size_t index) {
  const LayerWeights& weights = model_.layer(index);
  const RowsView inner = narrow(mlp_, spec_.layers[index].intermediate);
  TANDEM_TRY(norm(x_, weights.mlp_norm, normed_));
  TANDEM_TRY(linear(normed_, weights.gate_up, inner, Epilogue::kSiluMul));
  return linear(inner, weights.down, x_, Epilogue::kAdd);
}

Expected<void> Decoder::moe(size_t index) {
  const LayerWeights& weights = model_.layer(index);
  const MoeSpec& spec = *spec_.layers[index].moe;
  TANDEM_TRY(norm(x_, weights.mlp_norm, normed_));
  // The router decides in fp32 whatever the activations are: from unrounded inputs.
  if (normed_f32_.data != normed_.data) TANDEM_TRY(norm(x_, weights.mlp_norm, normed_f32_));
  const RowsView scores = narrow(router_, spec.route.experts);
  TANDEM_TRY(linear(normed_f32_, weights.router, scores));
  kernels::RouteArgs route;
  route.tokens = tokens_;
  route.logits = scores;
  route.bias = weights.router_bias;
  route.spec = spec.route;
  route.expert_ids = expert_ids_;
  route.weights = expert_weights_;
  TANDEM_TRY(to_expected(device_.api->route(device_.device, stream(), &route)));

  // The shared expert's first half does not need the routed ones and may run beside them; its
  // second half is added last, wherever they are ("same answer" 3).
  ExpertLink* link = link_of_layer_[index];
  TANDEM_TRY(routed_experts(index, spec, link));
  const RowsView inner = narrow(mlp_, spec.shared_intermediate);
  if (spec.shared_intermediate > 0) {
    TANDEM_TRY(linear(normed_, weights.gate_up, inner, Epilogue::kSiluMul));
  }
  if (link) TANDEM_TRY(link->receive(stream(), tokens_, delta_));
  if (spec.shared_intermediate > 0) {
    TANDEM_TRY(linear(inner, weights.down, delta_, Epilogue::kAdd));
  }
  delta_pending_ = true;
  return {};
}

Expected<void> Decoder::routed_experts(size_t index, const MoeSpec& spec, ExpertLink* link) {
  const kernels::PackedExperts& experts = model_.layer(index).experts;
  if (link) {
    return link->send(stream(),
                      {.tokens = tokens_,
                       .top_k = spec.route.top_k,
                       .x = normed_,
                       .expert_ids = expert_ids_,
                       .weights = expert_weights_,
                       .experts = &experts});
  }
  kernels::ExpertsArgs args;
  args.tokens = tokens_;
  args.top_k = spec.route.top_k;
  args.x = normed_;
  args.expert_ids = expert_ids_;
  args.weights = expert_weights_;
  args.experts = &experts;
  args.out = delta_;
  return to_expected(device_.api->experts(device_.device, stream(), &args));
}

}  // namespace tandem::model
