// Steps of a whole model with random weights on the CPU device, beside what the machine gives in
// the same run: a prefill of one prompt as a share of the multiply-add rate, then decode at several
// batch sizes as a share of the read bandwidth. Ceiling and steps are measured in turn, and medians
// of many rounds are printed, because the machine may be shared.
// Usage: decode_bench CONFIG_JSON [threads [rounds [instruction set]]]
// Prints lines "name value unit".

#include <fmt/core.h>

#include <cmath>
#include <numeric>
#include <string>

#include "base/json.h"
#include "cpu_bench.h"
#include "model/config.h"
#include "model/planner.h"
#include "model/step_runner.h"
#include "system/cgroup.h"
#include "system/files.h"

namespace {

using namespace tandem;
using namespace tandem::bench;

constexpr int32_t kPromptTokens = 512;
constexpr int32_t kMostSequences = 16;
constexpr int32_t kStepsARound = 4;
constexpr int32_t kBlocksASequence = kPromptTokens / kBlockTokens + 1;
static_assert(kStepsARound <= kBlockTokens);
// What the probe reads: more than the last-level cache of any machine known to us.
constexpr size_t kProbeBytes = size_t{2} << 30;

struct Options {
  std::string config;
  int threads = 1;
  int rounds = 9;
  system::InstructionSet set = system::InstructionSet::kGeneric;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What one step must read and multiply at least, found from the model's sizes.
struct StepWork {
  double weight_bytes = 0;
  double kv_bytes = 0;
  double multiply_adds = 0;

  // `uses`: rows that go through it; `share`: the part of it that a step reads.
  void add(const PackedWeight& weight, double uses, double share = 1) {
    for (int i = 0; i < weight.part_count; ++i) {
      const PackedPart& part = weight.parts[i];
      const auto values = static_cast<double>(part.columns * weight.k);
      const bool f8 = part.format == WeightFormat::kF8Block128;
      const double bytes = part.format == WeightFormat::kF32 ? 4 : f8 ? 1 + 4.0 / 128 : 2;
      weight_bytes += share * values * bytes;
      multiply_adds += uses * values;
    }
  }
};

// `sequences` with `rows` rows each that end at `context`; logits for the last row of each.
StepWork work_of(const model::LoadedModel& loaded, double sequences, double rows, double context) {
  const model::ModelSpec& spec = loaded.spec();
  const double tokens = sequences * rows;
  StepWork work;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const model::LayerWeights& layer = loaded.layer(i);
    const model::AttentionSpec& attention = spec.layers[i].attention;
    for (const PackedWeight* weight :
         {&layer.input, &layer.q_b, &layer.o, &layer.gate_up, &layer.down, &layer.router}) {
      work.add(*weight, tokens);
    }
    double width = 2.0 * attention.head_dim;
    if (attention.kind == model::AttentionKind::kMla) {
      const MlaShape& mla = attention.mla;
      const double values = 1.0 * mla.heads * mla.latent * (mla.nope + mla.value);
      work.weight_bytes += values * static_cast<double>(tensor::size_of(layer.mla.dtype));
      work.multiply_adds += tokens * values;
      width = 2.0 * mla.latent + mla.rope;
    }
    work.multiply_adds += tokens * attention.heads * width * (context - (rows - 1) / 2);
    if (!spec.layers[i].moe) continue;
    const RouteSpec& route = spec.layers[i].moe->route;
    const double chance = 1.0 * route.top_k / route.experts;  // dummy routers are uniform
    for (size_t e = 0; e < layer.expert_down.size(); ++e) {
      for (const auto* experts : {&layer.expert_gate_up, &layer.expert_down}) {
        work.add((*experts)[e], tokens * chance, 1 - std::pow(1 - chance, tokens));
      }
    }
  }
  work.add(loaded.head(), sequences);
  work.kv_bytes =
      sequences * context * static_cast<double>(spec.kv_bytes_per_token(loaded.activation()));
  return work;
}

// A batch of `sequences`, each with rows [first, first + rows); sequence s has its own blocks.
model::Batch make_batch(int32_t sequences, int32_t first, int32_t rows) {
  model::Batch batch;
  batch.groups.resize(1);
  model::BatchKvGroup& group = batch.groups[0];
  group.block_table.resize(static_cast<size_t>(sequences * kBlocksASequence));
  std::iota(group.block_table.begin(), group.block_table.end(), 0);
  group.block_table_stride = kBlocksASequence;
  for (int32_t s = 0; s < sequences; ++s) {
    batch.segments.push_back({s, s * rows, rows, first, MlaForm::kAbsorbed, 0});
    for (int32_t p = first; p < first + rows; ++p) {
      batch.token_ids.push_back(5 + p % 50);
      batch.positions.push_back(p);
      group.slots.push_back(int64_t{s} * kBlocksASequence * kBlockTokens + p);
    }
    batch.logits_rows.push_back(s * rows + rows - 1);
    SampleRow row;
    row.temperature = 0;
    row.position = static_cast<uint32_t>(first + rows);
    batch.sample_rows.push_back(row);
  }
  return batch;
}

// Rounds of something between two measurements of its ceiling.
struct Rounds {
  std::vector<double> reached;
  std::vector<double> ceilings;
  std::vector<double> shares;
  std::vector<double> cpu_shares;

  void add(const Rate& rate, const Rate& before, const Rate& after) {
    reached.push_back(rate.a_second);
    ceilings.push_back((before.a_second + after.a_second) / 2);
    shares.push_back(100 * rate.a_second / ceilings.back());
    cpu_shares.push_back(200 * rate.a_cpu_second / (before.a_cpu_second + after.a_cpu_second));
  }
  void print(const std::string& name, const char* ceiling, const char* unit) const {
    fmt::print("{}_{} {:.2f} {}\n", name, ceiling, median(ceilings) / 1e9, unit);
    fmt::print("{}_share {:.1f} %_of_{}\n", name, median(shares), ceiling);
    fmt::print("{}_share_by_cpu_time {:.1f} %_of_{}\n", name, median(cpu_shares), ceiling);
    std::fflush(stdout);
  }
};

class DecodeBench {
 public:
  static Expected<void> run(const Options& options) {
    DecodeBench bench(options);
    TANDEM_TRY(bench.load());
    TANDEM_TRY(bench.prefill());
    for (const int32_t sequences : {1, 4, 8, kMostSequences}) TANDEM_TRY(bench.decode(sequences));
    return {};
  }

 private:
  explicit DecodeBench(const Options& options)
      : options_(options), probe_(options.threads, options.set, kProbeBytes) {}

  // The order of app/loaded_runtime.cc.
  Expected<void> load() {
    CpuDeviceConfig config;
    config.threads = options_.threads;
    config.instruction_set = options_.set;
    TANDEM_ASSIGN(device_, open_cpu_device(config));
    TANDEM_ASSIGN(const std::string text, system::read_text_file(options_.config, 16 << 20));
    TANDEM_ASSIGN(const Json json, parse_json(text));
    TANDEM_ASSIGN(model::ModelSpec spec, model::parse_model_config(json, options_.config));
    const DeviceRef refs[] = {device_.ref()};
    model::Plan plan =
        model::make_plan(spec, model::make_placement(spec, {}), tensor::DType::kBF16);
    model::use_uniform_routing(spec);
    const auto source = model::make_dummy_source(spec, plan, 0);
    TANDEM_TRY(model::resolve_plan(plan, spec, refs, source));
    const weights::LoadOptions load{.threads = options_.threads, .progress = {}};
    TANDEM_ASSIGN(model_, model::LoadedModel::load(spec, plan, refs, source, load));
    model::StepRunnerOptions runner;
    runner.max_tokens = kPromptTokens;
    runner.max_logits_rows = kMostSequences;
    runner.kv_blocks = kMostSequences * kBlocksASequence;
    runner.max_positions = kBlocksASequence * kBlockTokens;
    TANDEM_ASSIGN(runner_, model::StepRunner::create(*model_, runner));
    fmt::print("weights {:.3f} GB\n", static_cast<double>(plan.weight_bytes[0]) / 1e9);
    return {};
  }

  Expected<void> step(const model::Batch& batch) {
    TANDEM_TRY(runner_->launch(batch));
    return runner_->collect(result_);
  }

  Expected<void> prefill() {
    const model::Batch batch = make_batch(1, 0, kPromptTokens);
    const double flops = 2 * work_of(*model_, 1, kPromptTokens, kPromptTokens).multiply_adds;
    Rounds rounds;
    Rate before = probe_.multiply_add();
    for (int i = 0; i < std::max(1, options_.rounds / 2); ++i) {
      const Timer timer;
      TANDEM_TRY(step(batch));
      const Rate reached = timer.rate(flops);
      const Rate after = probe_.multiply_add();
      rounds.add(reached, before, after);
      before = after;
    }
    const std::string name = fmt::format("prefill_{}", kPromptTokens);
    fmt::print("{}_speed {:.1f} tokens/s\n", name, kPromptTokens * median(rounds.reached) / flops);
    rounds.print(name, "multiply_add_peak", "GFLOP/s");
    return {};
  }

  // Only the first sequence has been prefilled; the others attend to zeros, which is the same work.
  Expected<void> decode(int32_t sequences) {
    std::vector<model::Batch> batches;
    for (int32_t i = 0; i < kStepsARound; ++i) {
      batches.push_back(make_batch(sequences, kPromptTokens + i, 1));
    }
    const StepWork work = work_of(*model_, sequences, 1, kPromptTokens + (kStepsARound + 1) / 2.0);
    const double bytes = work.weight_bytes + work.kv_bytes;
    Rounds rounds;
    TANDEM_TRY(step(batches[0]));
    Rate before = probe_.read();
    for (int r = 0; r < options_.rounds; ++r) {
      const Timer timer;
      for (const model::Batch& batch : batches) TANDEM_TRY(step(batch));
      const Rate reached = timer.rate(bytes * kStepsARound);
      const Rate after = probe_.read();
      rounds.add(reached, before, after);
      before = after;
    }
    const std::string name = fmt::format("decode_batch_{}", sequences);
    fmt::print("{}_speed {:.2f} tokens/s\n", name, sequences * median(rounds.reached) / bytes);
    fmt::print("{}_weights_a_step {:.3f} GB\n", name, work.weight_bytes / 1e9);
    fmt::print("{}_kv_a_step {:.4f} GB\n", name, work.kv_bytes / 1e9);
    rounds.print(name, "read_bandwidth", "GB/s");
    return {};
  }

  const Options& options_;
  Probe probe_;
  OwnedDevice device_;
  std::unique_ptr<model::LoadedModel> model_;
  std::unique_ptr<model::StepRunner> runner_;
  model::StepResult result_;
};

Expected<Options> parse_options(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    return fail(ErrorCode::kInvalidArgument,
                "usage: decode_bench CONFIG_JSON [threads [rounds [instruction set]]]");
  }
  Options options;
  options.config = argv[1];
  options.threads = argc > 2 ? std::atoi(argv[2]) : system::usable_threads();
  if (argc > 3) options.rounds = std::atoi(argv[3]);
  options.set = system::best_instruction_set(system::detect_cpu_features());
  if (argc > 4) {
    TANDEM_ASSIGN(options.set, system::parse_instruction_set(argv[4]));
  }
  if (options.threads < 1 || options.threads > system::ThreadTeam::kMaxThreads ||
      options.rounds < 1) {
    return fail(ErrorCode::kInvalidArgument, "threads and rounds are at least 1");
  }
  fmt::print("threads {} \nrounds {} \ninstruction_set {} \n",
             options.threads,
             options.rounds,
             system::to_string(options.set));
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  const auto done =
      options ? DecodeBench::run(*options) : Expected<void>(std::unexpected(options.error()));
  if (done) return 0;
  fmt::print(stderr, "decode_bench: {}\n", done.error().to_line());
  return 1;
}
