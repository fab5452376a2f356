// The CPU device against what the machine gives: linear with few tokens in GB/s beside a plain
// multi-threaded read, linear with many tokens in GFLOP/s beside chains of fused multiply-adds;
// then attention, experts, sampling and small operators in microseconds.
// Usage: kernels_bench [threads [instruction set [part]]]
// part: linear, experts, attend, mla, sample or small; default all.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "cpu_bench.h"
#include "system/cgroup.h"
#include "system/cpu_features.h"

namespace {

using namespace tandem;
using namespace tandem::bench;

void bench_linear(Bench& bench, const Ceiling& ceiling) {
  struct Shape {
    int64_t n;
    int64_t k;
  };
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kF8Block128}) {
    for (const Shape shape : {Shape{8192, 8192}, Shape{8192, 2048}, Shape{2048, 8192}}) {
      const PackedWeight weight = bench.pack(format, shape.n, shape.k);
      const double bytes =
          static_cast<double>(shape.n * shape.k) * (format == WeightFormat::kBF16 ? 2 : 1);
      LinearArgs args;
      args.weight = &weight;
      constexpr int64_t kMost = 512;
      args.x = {bench.bf16(static_cast<size_t>(kMost * shape.k)), DType::kBF16, shape.k, shape.k};
      args.out = {bench.bf16(static_cast<size_t>(kMost * shape.n)), DType::kBF16, shape.n, shape.n};
      for (const int32_t tokens : {1, 2, 4, 8, 16, 32, 128, 512}) {
        if (tokens > 8 && shape.k == shape.n) break;
        args.tokens = tokens;
        const double s = bench.seconds(&DeviceApi::linear, args);
        const double gb_s = bytes / s / 1e9;
        const double gflop_s = 2.0 * tokens * static_cast<double>(shape.n * shape.k) / s / 1e9;
        fmt::print(
            "linear {:8} {:5} x {:5} {:4} tokens {:9.0f} us {:6.1f} GB/s ({:3.0f} %) "
            "{:7.1f} GFLOP/s ({:3.0f} %)\n",
            format == WeightFormat::kBF16 ? "bfloat16" : "fp8",
            shape.n,
            shape.k,
            tokens,
            s * 1e6,
            gb_s,
            100 * gb_s / ceiling.read_gb_s,
            gflop_s,
            100 * gflop_s / ceiling.gflop_s);
      }
    }
  }
}

// Sequences of equal context, each with its last `rows` positions.
struct BenchBatch {
  std::vector<Segment> segments;
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  std::vector<int32_t> table;
  RaggedBatch view;
  int64_t blocks = 0;

  BenchBatch(int32_t sequences, int32_t context, int32_t rows, MlaForm form) {
    const int32_t stride = (context + kBlockTokens - 1) / kBlockTokens;
    for (int32_t s = 0; s < sequences; ++s) {
      segments.push_back({s, s * rows, rows, context - rows, form});
      for (int32_t r = 0; r < rows; ++r) positions.push_back(context - rows + r);
    }
    slots.assign(positions.size(), -1);
    table.resize(static_cast<size_t>(sequences * stride));
    std::iota(table.begin(), table.end(), 0);
    blocks = static_cast<int64_t>(table.size());
    view = {sequences * rows,
            sequences,
            segments.data(),
            segments.data(),
            positions.data(),
            slots.data(),
            table.data(),
            stride};
  }
};

void bench_attend(Bench& bench, const Ceiling& ceiling) {
  struct Case {
    int32_t heads;
    int32_t kv_heads;
    int32_t sequences;
    int32_t context;
    int32_t rows;
  };
  constexpr int32_t kDim = 128;
  for (const Case c : {Case{32, 8, 1, 4096, 1},
                       Case{32, 32, 1, 4096, 1},
                       Case{32, 8, 8, 2048, 1},
                       Case{32, 8, 1, 512, 512},
                       Case{32, 8, 1, 4096, 256}}) {
    BenchBatch batch(c.sequences, c.context, c.rows, MlaForm::kAbsorbed);
    AttendArgs args;
    args.batch = batch.view;
    args.heads = c.heads;
    args.scale = 0.1f;
    args.cache.row_bytes = kDim * 2;
    args.cache.block_stride_bytes = 2 * c.kv_heads * kBlockTokens * args.cache.row_bytes;
    args.cache.kv_heads = c.kv_heads;
    args.cache.head_dim = kDim;
    const auto cache_values = static_cast<size_t>(batch.blocks * args.cache.block_stride_bytes / 2);
    args.cache.base = bench.bf16(cache_values);
    const int64_t columns = int64_t{c.heads} * kDim;
    args.q = {bench.bf16(static_cast<size_t>(batch.view.tokens * columns)),
              DType::kBF16,
              columns,
              columns};
    args.out = {bench.bf16(static_cast<size_t>(batch.view.tokens * columns)),
                DType::kBF16,
                columns,
                columns};
    const double s = bench.seconds(&DeviceApi::attend, args);
    const double pairs =
        static_cast<double>(batch.view.tokens) * (c.context - (c.rows - 1) / 2.0) * c.heads;
    const double gb_s = static_cast<double>(cache_values) * 2 / s / 1e9;
    const double gflop_s = pairs * 4 * kDim / s / 1e9;
    fmt::print(
        "attend {:3} / {:2} heads, {} x {} rows at {:5} {:9.0f} us {:6.1f} GB/s ({:3.0f} %) "
        "{:7.1f} GFLOP/s ({:3.0f} %)\n",
        c.heads,
        c.kv_heads,
        c.sequences,
        c.rows,
        c.context,
        s * 1e6,
        gb_s,
        100 * gb_s / ceiling.read_gb_s,
        gflop_s,
        100 * gflop_s / ceiling.gflop_s);
  }
}

MlaWeights pack_mla(Bench& bench, const MlaShape& shape) {
  const int64_t rows = int64_t{shape.heads} * (shape.nope + shape.value);
  const uint16_t* kv_b = bench.bf16(static_cast<size_t>(rows * shape.latent));
  const WeightSource source{WeightFormat::kBF16, rows, shape.latent, kv_b, nullptr, 0};
  size_t bytes = 0;
  require(bench.api().packed_mla_bytes(bench.handle(), &shape, DType::kBF16, &bytes));
  MlaWeights weights;
  require(bench.api().pack_mla(
      bench.handle(), &source, &shape, DType::kBF16, bench.allocate<char>(bytes), &weights));
  return weights;
}

void bench_mla(Bench& bench, const Ceiling& ceiling) {
  const MlaShape shape{.heads = 16, .nope = 128, .rope = 64, .value = 128, .latent = 512};
  const MlaWeights weights = pack_mla(bench, shape);
  struct Case {
    int32_t sequences;
    int32_t context;
    int32_t rows;
    MlaForm form;
  };
  for (const Case c : {Case{1, 64, 1, MlaForm::kAbsorbed},
                       Case{1, 1024, 1, MlaForm::kAbsorbed},
                       Case{1, 4096, 1, MlaForm::kAbsorbed},
                       Case{16, 1024, 1, MlaForm::kAbsorbed},
                       Case{1, 512, 512, MlaForm::kAbsorbed},
                       Case{1, 512, 512, MlaForm::kExpanded},
                       Case{1, 2048, 512, MlaForm::kExpanded}}) {
    BenchBatch batch(c.sequences, c.context, c.rows, c.form);
    MlaAttendArgs args;
    args.batch = batch.view;
    args.weights = &weights;
    args.scale = 0.1f;
    const int64_t width = shape.latent + shape.rope;
    args.cache.row_bytes = width * 2;
    args.cache.block_stride_bytes = kBlockTokens * args.cache.row_bytes;
    args.cache.base = bench.bf16(static_cast<size_t>(batch.blocks * kBlockTokens * width));
    const int64_t q = int64_t{shape.heads} * (shape.nope + shape.rope);
    const int64_t out = int64_t{shape.heads} * shape.value;
    args.q = {bench.bf16(static_cast<size_t>(batch.view.tokens * q)), DType::kBF16, q, q};
    args.out = {bench.bf16(static_cast<size_t>(batch.view.tokens * out)), DType::kBF16, out, out};
    const double s = bench.seconds(&DeviceApi::mla_attend, args);
    const double context = c.context - (c.rows - 1) / 2.0;
    const double tokens = batch.view.tokens;
    const bool absorbed = c.form == MlaForm::kAbsorbed;
    const double pair =
        absorbed ? 2 * shape.latent + shape.rope : shape.nope + shape.rope + shape.value;
    const double made = absorbed ? tokens : static_cast<double>(c.sequences) * c.context;
    const double flops =
        2.0 * shape.heads *
        (tokens * context * pair + made * shape.latent * (shape.nope + shape.value));
    fmt::print(
        "mla {:8} 16 heads, {:2} x {:3} rows at {:5} {:9.0f} us {:7.1f} GFLOP/s ({:3.0f} %)\n",
        absorbed ? "absorbed" : "expanded",
        c.sequences,
        c.rows,
        c.context,
        s * 1e6,
        flops / s / 1e9,
        100 * flops / s / 1e9 / ceiling.gflop_s);
  }
}

void bench_sample(Bench& bench) {
  constexpr int64_t kVocabulary = 129280;
  auto* logits = bench.allocate<float>(kVocabulary);
  const float* source = bench.floats(kVocabulary, 8.0f);
  SampleResult result;
  int32_t id = 0;
  std::vector<int32_t> top_ids(20);
  std::vector<float> top(20);
  const auto run = [&](const char* what, const SampleRow& row) {
    SampleArgs args;
    args.rows = 1;
    args.logits = {logits, DType::kF32, kVocabulary, kVocabulary};
    args.row = &row;
    args.host_row = &row;
    args.result = &result;
    args.ids = &id;
    args.max_top_logprobs = 20;
    args.top_ids = top_ids.data();
    args.top_logprobs = top.data();
    double best = 1e9;
    for (int i = 0; i < 50; ++i) {
      std::copy_n(source, kVocabulary, logits);
      const auto start = Steady::now();
      require(bench.api().sample(bench.handle(), bench.stream(), &args));
      require(bench.memory().synchronize(bench.handle(), bench.stream()));
      best = std::min(best, seconds_since(start));
    }
    fmt::print("sample {:36} {:9.0f} us\n", what, best * 1e6);
  };
  SampleRow row;
  row.temperature = 0;
  run("greedy", row);
  row.top_logprobs = 20;
  run("greedy, 20 log-probabilities", row);
  row.top_logprobs = -1;
  row.temperature = 1;
  run("temperature", row);
  row.top_k = 50;
  run("top_k", row);
  row.top_k = 0;
  row.top_p = 0.95f;
  run("top_p", row);
  row.top_k = 50;
  row.min_p = 0.01f;
  run("top_k, top_p, min_p", row);
}

// Operators of a tiny model (hidden 256): what stands between its layers.
void bench_small(Bench& bench) {
  const PackedWeight weight = bench.pack(WeightFormat::kBF16, 768, 256);
  auto* x = bench.floats(256, 1.0f);
  LinearArgs linear;
  linear.tokens = 1;
  linear.weight = &weight;
  linear.x = {bench.bf16(256), DType::kBF16, 256, 256};
  linear.out = {bench.floats(768, 1.0f), DType::kF32, 768, 768};
  fmt::print("small linear 768 x 256, 1 token {:26.2f} us\n",
             bench.seconds_in_a_row(&DeviceApi::linear, linear, 500) * 1e6);
  RmsNormArgs norm;
  norm.tokens = 1;
  norm.x = {x, DType::kF32, 256, 256};
  norm.weight = bench.floats(256, 1.0f);
  norm.out = {bench.bf16(256), DType::kBF16, 256, 256};
  fmt::print("small rms_norm 256, 1 token {:30.2f} us\n",
             bench.seconds_in_a_row(&DeviceApi::rms_norm, norm, 500) * 1e6);
}

void bench_experts(Bench& bench, const Ceiling& ceiling) {
  constexpr int64_t kHidden = 2048;
  constexpr int64_t kInner = 1408;
  constexpr int32_t kExperts = 16;
  constexpr int32_t kTopK = 6;
  std::vector<PackedWeight> gate_up;
  std::vector<PackedWeight> down;
  for (int e = 0; e < kExperts; ++e) {
    PackedWeight pair = bench.pack(WeightFormat::kBF16, kInner, kHidden);
    const PackedWeight up = bench.pack(WeightFormat::kBF16, kInner, kHidden);
    pair.parts[1] = up.parts[0];
    pair.parts[1].first_column = kInner;
    pair.part_count = 2;
    pair.n = 2 * kInner;
    pair.pairing = Pairing::kGateUp;
    gate_up.push_back(pair);
    down.push_back(bench.pack(WeightFormat::kBF16, kHidden, kInner));
  }
  const PackedExperts experts{kExperts, gate_up.data(), down.data()};
  constexpr int32_t kMost = 256;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < kMost * kTopK; ++i) ids.push_back(i % kExperts);
  const std::vector<float> weights(ids.size(), 0.2f);
  ExpertsArgs args;
  args.top_k = kTopK;
  args.x = {bench.bf16(kMost * kHidden), DType::kBF16, kHidden, kHidden};
  args.expert_ids = ids.data();
  args.weights = weights.data();
  args.experts = &experts;
  args.out = {bench.floats(kMost * kHidden, 1.0f), DType::kF32, kHidden, kHidden};
  for (const int32_t tokens : {1, 4, 32, 256}) {
    args.tokens = tokens;
    const double s = bench.seconds(&DeviceApi::experts, args);
    const double read = std::min(kExperts, tokens * kTopK) * 3.0 * kHidden * kInner * 2;
    const double flops = 2.0 * tokens * kTopK * 3 * kHidden * kInner;
    fmt::print(
        "experts 2048 / 1408, top 6 {:4} tokens {:9.0f} us {:6.1f} GB/s ({:3.0f} %) "
        "{:7.1f} GFLOP/s ({:3.0f} %)\n",
        tokens,
        s * 1e6,
        read / s / 1e9,
        100 * read / s / 1e9 / ceiling.read_gb_s,
        flops / s / 1e9,
        100 * flops / s / 1e9 / ceiling.gflop_s);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : system::usable_threads();
  auto set = system::best_instruction_set(system::detect_cpu_features());
  if (argc > 2) {
    const auto parsed = system::parse_instruction_set(argv[2]);
    if (!parsed) {
      fmt::print(stderr, "kernels_bench: {}\n", parsed.error().to_line());
      return 1;
    }
    set = *parsed;
  }
  const Ceiling ceiling = measure_ceiling(threads, set);
  fmt::print("{} threads, {}: reads {:.1f} GB/s, multiply-adds {:.0f} GFLOP/s\n",
             threads,
             system::to_string(set),
             ceiling.read_gb_s,
             ceiling.gflop_s);
  Bench bench(threads, set);
  const std::string part = argc > 3 ? argv[3] : "";
  const auto wanted = [&](const char* name) { return part.empty() || part == name; };
  if (wanted("linear")) bench_linear(bench, ceiling);
  if (wanted("experts")) bench_experts(bench, ceiling);
  if (wanted("attend")) bench_attend(bench, ceiling);
  if (wanted("mla")) bench_mla(bench, ceiling);
  if (wanted("sample")) bench_sample(bench);
  if (wanted("small")) bench_small(bench);
  return 0;
}
