#include "kernels/host/validate.h"

#include "kernels/host/checker.h"

namespace tandem::kernels {
namespace {

void check_weight(Checker& check, const char* what, const PackedWeight& weight) {
  check.require(weight.n > 0 && weight.k > 0, "{} is empty", what);
  check.require(weight.part_count > 0 && weight.part_count <= kMaxWeightParts,
                "{} has {} parts",
                what,
                weight.part_count);
}

}  // namespace

Status validate(const HostDevice&, const EmbedArgs& args) {
  Checker check("embed");
  const DType type = args.table.dtype;
  check.require(args.tokens >= 0, "{} tokens", args.tokens);
  check.require(args.ids != nullptr, "ids is null");
  check.require(args.table.data != nullptr, "table is null");
  check.require(args.table.shape.rank == 2, "table has rank {}", args.table.shape.rank);
  check.require(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
                "table is {}",
                to_string(type));
  check.rows("out", args.out, args.table.shape[1], DType::kF32, DType::kF32);
  return check.status();
}

Status validate(const HostDevice& device, const RmsNormArgs& args) {
  Checker check("rms_norm");
  check.require(args.tokens >= 0, "{} tokens", args.tokens);
  check.require(args.x.columns > 0, "x has no columns");
  check.rows("x", args.x, args.x.columns, DType::kF32, DType::kF32);
  if (args.delta.data) check.rows("delta", args.delta, args.x.columns, DType::kF32, DType::kF32);
  check.require(args.delta.data || args.out.data, "neither delta nor out");
  if (!args.out.data) return check.status();
  check.rows("out", args.out, args.x.columns, DType::kF32, device.info.activation);
  check.require(args.weight != nullptr, "weight is null");
  check.require(args.eps >= 0, "eps is {}", args.eps);
  return check.status();
}

Status validate(const HostDevice& device, const LinearArgs& args) {
  Checker check("linear");
  const DType activation = device.info.activation;
  check.require(args.tokens >= 0, "{} tokens", args.tokens);
  check.require(args.weight != nullptr, "weight is null");
  if (!check.good()) return check.status();
  check_weight(check, "weight", *args.weight);
  check.rows("x", args.x, args.weight->k, DType::kF32, activation);
  const bool silu_mul = args.epilogue == Epilogue::kSiluMul;
  check.require(args.epilogue == Epilogue::kNone || args.epilogue == Epilogue::kAdd || silu_mul,
                "unknown epilogue {}",
                static_cast<int32_t>(args.epilogue));
  check.require(silu_mul == (args.weight->pairing == Pairing::kGateUp),
                "silu-and-multiply and a gate-up weight belong together");
  const int64_t columns = silu_mul ? args.weight->n / 2 : args.weight->n;
  const bool add = args.epilogue == Epilogue::kAdd;
  check.rows("out", args.out, columns, DType::kF32, add ? DType::kF32 : activation);
  return check.status();
}

Status validate(const HostDevice& device, const ExpertsArgs& args) {
  Checker check("experts");
  check.require(args.tokens >= 0, "{} tokens", args.tokens);
  check.require(args.experts && args.experts->count > 0, "no experts");
  if (!check.good()) return check.status();
  const PackedExperts& experts = *args.experts;
  check.require(args.top_k > 0 && args.top_k <= experts.count,
                "top_k {} of {} experts",
                args.top_k,
                experts.count);
  check.require(experts.gate_up && experts.down, "expert weights are null");
  check.require(args.expert_ids && args.weights, "expert_ids or weights is null");
  if (!check.good()) return check.status();
  const int64_t hidden = experts.gate_up[0].k;
  const int64_t intermediate = experts.down[0].k;
  for (int32_t e = 0; e < experts.count && check.good(); ++e) {
    check_weight(check, "gate_up", experts.gate_up[e]);
    check_weight(check, "down", experts.down[e]);
    check.require(experts.gate_up[e].pairing == Pairing::kGateUp &&
                      experts.gate_up[e].n == 2 * intermediate && experts.gate_up[e].k == hidden,
                  "gate_up of expert {} does not fit",
                  e);
    check.require(experts.down[e].pairing == Pairing::kConcatenate && experts.down[e].n == hidden &&
                      experts.down[e].k == intermediate,
                  "down of expert {} does not fit",
                  e);
  }
  check.rows("x", args.x, hidden, device.info.activation, device.info.activation);
  check.rows("out", args.out, hidden, DType::kF32, DType::kF32);
  return check.status();
}

Status validate(const HostDevice& device, const GatherRowsArgs& args) {
  Checker check("gather_rows");
  check.require(args.count >= 0, "count is {}", args.count);
  check.require(args.rows != nullptr, "rows is null");
  check.rows("source", args.source, args.source.columns, DType::kF32, device.info.activation);
  check.rows("out", args.out, args.source.columns, args.source.dtype, args.source.dtype);
  return check.status();
}

Status validate(const HostDevice&, const RouteArgs& args) {
  Checker check("route");
  const RouteSpec& spec = args.spec;
  check.require(args.tokens >= 0, "{} tokens", args.tokens);
  check.require(spec.experts > 0, "{} experts", spec.experts);
  check.require(spec.groups > 0 && spec.experts % spec.groups == 0,
                "{} experts in {} groups",
                spec.experts,
                spec.groups);
  check.require(spec.top_groups > 0 && spec.top_groups <= spec.groups,
                "top {} of {} groups",
                spec.top_groups,
                spec.groups);
  check.require(
      spec.top_k > 0 && spec.top_k <= spec.experts, "top {} of {}", spec.top_k, spec.experts);
  if (!check.good()) return check.status();
  if (spec.group_score != GroupScore::kNone) {
    check.require(int64_t{spec.top_groups} * (spec.experts / spec.groups) >= spec.top_k,
                  "top {} experts do not fit into {} groups",
                  spec.top_k,
                  spec.top_groups);
  }
  check.require(spec.group_score != GroupScore::kTopTwoSum || spec.experts / spec.groups >= 2,
                "groups of one expert have no best two");
  check.rows("logits", args.logits, spec.experts, DType::kF32, DType::kF32);
  check.require(args.expert_ids && args.weights, "expert_ids or weights is null");
  return check.status();
}

Status validate(const HostDevice&, const SampleArgs& args) {
  Checker check("sample");
  check.require(args.rows >= 0, "{} rows", args.rows);
  const int64_t vocabulary = args.logits.columns;
  check.require(vocabulary > 0, "no vocabulary");
  check.rows("logits", args.logits, vocabulary, DType::kF32, DType::kF32);
  check.require(args.row && args.host_row, "row or host_row is null");
  check.require(args.result && args.ids, "result or ids is null");
  check.require(args.max_top_logprobs >= 0, "max_top_logprobs is {}", args.max_top_logprobs);
  check.require(args.max_top_logprobs == 0 || (args.top_ids && args.top_logprobs),
                "top_ids or top_logprobs is null");
  check.require(args.masks == nullptr || args.mask_words >= (vocabulary + 31) / 32,
                "{} mask words for {} ids",
                args.mask_words,
                vocabulary);
  for (int32_t r = 0; r < args.rows && check.good(); ++r) {
    const SampleRow& row = args.host_row[r];
    check.require(row.mask_row < 0 || args.masks != nullptr, "row {}: masks is null", r);
    check.require(row.bias_count >= 0 && row.bias_begin >= 0, "row {}: bias range", r);
    check.require(
        row.bias_count <= 0 || (args.bias_ids && args.bias_values), "row {}: no biases", r);
    check.require(row.history_count >= 0 && row.history_begin >= 0, "row {}: history range", r);
    check.require(row.history_count <= 0 || args.history, "row {}: history is null", r);
    check.require(row.forced_id < vocabulary, "row {}: forced id {}", r, row.forced_id);
    check.require(row.top_logprobs <= args.max_top_logprobs,
                  "row {}: {} log-probabilities in {} columns",
                  r,
                  row.top_logprobs,
                  args.max_top_logprobs);
  }
  return check.status();
}

Status validate_parts(const WeightSource* parts, int32_t count, Pairing pairing) {
  Checker check("pack");
  constexpr int64_t kMaxExtent = int64_t{1} << 31;  // n * k of 4-byte values stays below 2^63
  check.require(parts != nullptr, "no parts");
  check.require(count > 0 && count <= kMaxWeightParts, "{} parts", count);
  for (int32_t i = 0; i < count && check.good(); ++i) {
    const WeightSource& part = parts[i];
    check.require(part.rows > 0 && part.rows < kMaxExtent && part.k > 0 && part.k < kMaxExtent,
                  "part {} is {} x {}",
                  i,
                  part.rows,
                  part.k);
    check.require(part.k == parts[0].k, "part {} has k {}, not {}", i, part.k, parts[0].k);
    check.require(part.data != nullptr, "part {} has no data", i);
    check.require(part.first_row >= 0, "part {} starts at row {}", i, part.first_row);
    check.require(part.format != WeightFormat::kF8Block128 || part.scales != nullptr,
                  "part {} has no scales",
                  i);
  }
  if (!check.good() || pairing == Pairing::kConcatenate) return check.status();
  check.require(pairing == Pairing::kGateUp, "unknown pairing {}", static_cast<int32_t>(pairing));
  check.require(count == 2 && parts[0].rows == parts[1].rows, "gate and up differ in shape");
  return check.status();
}

Status validate_mla(const MlaShape& shape, DType storage) {
  Checker check("pack_mla");
  constexpr int32_t kMaxExtent = 1 << 16;
  const auto fits = [](int32_t extent) { return extent > 0 && extent <= kMaxExtent; };
  check.require(fits(shape.heads) && fits(shape.nope) && fits(shape.rope) && fits(shape.value) &&
                    fits(shape.latent),
                "shape out of range");
  check.require(
      storage == DType::kF32 || storage == DType::kBF16, "storage is {}", to_string(storage));
  return check.status();
}

Status validate_mla_source(const WeightSource& kv_b, const MlaShape& shape) {
  const Status parts = validate_parts(&kv_b, 1, Pairing::kConcatenate);
  if (!tensor::ok(parts)) return parts;
  Checker check("pack_mla");
  const int64_t rows = int64_t{shape.heads} * (shape.nope + shape.value);
  check.require(kv_b.rows == rows && kv_b.k == shape.latent,
                "kv_b is {} x {}, not {} x {}",
                kv_b.rows,
                kv_b.k,
                rows,
                shape.latent);
  return check.status();
}

}  // namespace tandem::kernels
