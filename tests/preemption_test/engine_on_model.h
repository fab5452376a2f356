#pragma once
// For tests: the bundled model behind engines of any size, with transfers that fail when asked to.

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/engine_test_util.h"
#include "engine/model_executor.h"
#include "kernels/device.h"
#include "kernels/host/host_memory.h"
#include "kernels/host/host_stream.h"
#include "model/config.h"
#include "model/loaded_model.h"
#include "model/planner.h"
#include "model/step_runner.h"
#include "system/cpu_features.h"
#include "weights/checkpoint.h"

namespace tandem::testing {

// A device's table has no state, so a faulty one takes its orders from here: what happens to the
// next copies of a whole block, and to the next host functions.
struct Faults {
  std::atomic<int64_t> block_bytes{0};
  std::atomic<int> refused_copies{0};
  std::atomic<int> broken_copies{0};   // submitted, and fail on the stream
  std::atomic<int> broken_returns{0};  // the same, from the host tier alone
  std::atomic<int> refused_starts{0};

  // The last host tier of kTierBlocks.
  static constexpr int32_t kTierBlocks = 32;
  std::atomic<std::byte*> tier{nullptr};
};
inline Faults& faults() {
  static Faults instance;
  return instance;
}

inline bool take_fault(std::atomic<int>& count) {
  int left = count.load();
  while (left > 0 && !count.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

inline tensor::Status watched_allocate(tensor::Device* device,
                                       const tensor::AllocationRequest* request,
                                       void** out) {
  const tensor::Status status = kernels::host_memory::allocate(device, request, out);
  if (request->kind == tensor::MemoryKind::kPinned &&
      static_cast<int64_t>(request->bytes) == Faults::kTierBlocks * faults().block_bytes) {
    faults().tier = static_cast<std::byte*>(*out);
  }
  return status;
}

inline bool is_in_tier(const void* block) {
  const std::byte* tier = faults().tier;
  return tier != nullptr && block >= tier &&
         block < tier + Faults::kTierBlocks * faults().block_bytes;
}

inline tensor::Status faulty_copy(tensor::Device* device,
                                  tensor::Stream* stream,
                                  void* destination,
                                  const void* source,
                                  size_t bytes) {
  if (static_cast<int64_t>(bytes) == faults().block_bytes) {
    if (take_fault(faults().refused_copies)) {
      return kernels::make_status(ErrorCode::kInternal, "refused as asked");
    }
    if (take_fault(faults().broken_copies) ||
        (is_in_tier(source) && take_fault(faults().broken_returns))) {
      kernels::host_stream(stream).submit_transfer(
          [](kernels::RunContext& context, const void*) {
            context.fail(ErrorCode::kInternal, "broken as asked");
          },
          nullptr,
          0);
      return {};
    }
  }
  return kernels::host_memory::copy(device, stream, destination, source, bytes);
}

inline tensor::Status faulty_launch_host(tensor::Device* device,
                                         tensor::Stream* stream,
                                         void (*function)(void*),
                                         void* argument) {
  if (take_fault(faults().refused_starts)) {
    return kernels::make_status(ErrorCode::kInternal, "refused as asked");
  }
  return kernels::host_memory::launch_host(device, stream, function, argument);
}

struct TestModel {
  kernels::OwnedDevice device;
  kernels::DeviceApi api;  // the device's, with faults
  std::unique_ptr<model::LoadedModel> model;
};

inline Expected<kernels::OwnedDevice> open_test_device() {
#ifdef TANDEM_TEST_CPU_DEVICE
  kernels::CpuDeviceConfig config;
  config.threads = 2;
  config.instruction_set = system::best_instruction_set(system::detect_cpu_features());
  return kernels::open_cpu_device(config);
#else
  return kernels::open_reference_device(tensor::DType::kBF16);
#endif
}

inline Expected<std::unique_ptr<TestModel>> load_bundled_model() {
  const std::string directory = TANDEM_SOURCE_DIR "/models/tandem-tiny-v3";
  auto out = std::make_unique<TestModel>();
  TANDEM_ASSIGN(out->device, open_test_device());
  out->api = *out->device.ref().api;
  out->api.memory.allocate = &watched_allocate;
  out->api.memory.copy = &faulty_copy;
  out->api.memory.launch_host = &faulty_launch_host;
  const std::vector<kernels::DeviceRef> refs = {{&out->api, out->device.ref().device}};
  TANDEM_ASSIGN(model::ModelSpec spec, model::read_model_config(directory));
  model::Plan plan = model::make_plan(spec, model::make_placement(spec, {}), tensor::DType::kBF16);
  TANDEM_ASSIGN(const weights::Checkpoint checkpoint, weights::Checkpoint::open(directory));
  TANDEM_TRY(model::resolve_plan(plan, spec, refs, checkpoint));
  TANDEM_ASSIGN(out->model,
                model::LoadedModel::load(std::move(spec), plan, refs, checkpoint, {.threads = 2}));
  return out;
}

struct EngineShape {
  int32_t kv_blocks = 64;
  int32_t host_blocks = 0;
  int32_t max_num_seqs = 16;
  int32_t max_num_batched_tokens = 128;
  int depth = 1;
  bool prefix_caching = false;
  engine::PreemptionMode preemption = engine::PreemptionMode::kRecompute;
};

// (request, choice) -> its events.
using Answers = std::map<std::pair<std::string, int32_t>, std::vector<engine::TokenEvent>>;

struct EngineRun {
  Answers answers;
  engine::EngineCounters counters;  // after the end
};

// All requests at once through an engine of their own.
inline EngineRun run_requests(const TestModel& test,
                              const EngineShape& shape,
                              const std::vector<engine::Request>& requests) {
  EngineRun run;
  constexpr int32_t kMaxLength = 512;
  auto runner = model::StepRunner::create(*test.model,
                                          {.max_tokens = shape.max_num_batched_tokens,
                                           .max_logits_rows = 16,
                                           .kv_blocks = shape.kv_blocks,
                                           .host_blocks = shape.host_blocks,
                                           .max_positions = kMaxLength,
                                           .kv_dtype = std::nullopt});
  EXPECT_TRUE(runner) << (runner ? "" : runner.error().to_line());
  if (!runner) return run;
  engine::EngineConfig config;
  config.blocks = shape.kv_blocks;
  config.vocabulary = static_cast<int32_t>(test.model->spec().vocabulary);
  config.max_model_len = kMaxLength;
  config.max_num_seqs = shape.max_num_seqs;
  config.max_num_batched_tokens = shape.max_num_batched_tokens;
  config.prefix_caching = shape.prefix_caching;
  config.preemption = shape.preemption;
  const SteadyClock clock;
  auto engine = engine::Engine::create(
      config, std::make_unique<engine::ModelExecutor>(std::move(*runner), shape.depth), clock);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().to_line());
  if (!engine) return run;
  std::vector<std::shared_ptr<engine::RecordingSink>> sinks;
  for (engine::Request request : requests) {
    sinks.push_back(std::make_shared<engine::RecordingSink>());
    request.sink = sinks.back();
    const auto submitted = (*engine)->submit(std::move(request));
    EXPECT_TRUE(submitted) << (submitted ? "" : submitted.error().to_line());
  }
  (*engine)->drain(clock.now() + std::chrono::minutes(5));
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int32_t choice = 0; choice < requests[i].choices; ++choice) {
      run.answers[{requests[i].id, choice}] = sinks[i]->events(choice);
    }
  }
  run.counters = (*engine)->counters();
  return run;
}

// Nothing is held any more, on either side.
inline void expect_all_free(const engine::EngineCounters& c) {
  EXPECT_EQ(c.running, 0);
  EXPECT_EQ(c.waiting, 0);
  EXPECT_EQ(c.free_blocks, c.total_blocks);
  EXPECT_EQ(c.free_host_blocks, c.total_host_blocks);
  EXPECT_EQ(c.finished_error, 0u);
  EXPECT_EQ(c.device_failures, 0u);
}

inline void expect_same_logprobs(const engine::TokenLogprobs& got,
                                 const engine::TokenLogprobs& wanted,
                                 const std::string& where) {
  EXPECT_EQ(std::bit_cast<uint32_t>(got.logprob), std::bit_cast<uint32_t>(wanted.logprob)) << where;
  EXPECT_EQ(got.rank, wanted.rank) << where;
  ASSERT_EQ(got.top.size(), wanted.top.size()) << where;
  for (size_t i = 0; i < got.top.size(); ++i) {
    EXPECT_EQ(got.top[i].first, wanted.top[i].first) << where;
    EXPECT_EQ(std::bit_cast<uint32_t>(got.top[i].second),
              std::bit_cast<uint32_t>(wanted.top[i].second))
        << where;
  }
}

// Ids, ends and log-probabilities, to the bit.
inline void expect_same_answer(const std::vector<engine::TokenEvent>& got,
                               const std::vector<engine::TokenEvent>& wanted,
                               const std::string& name) {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  ASSERT_FALSE(got.empty()) << name;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string where = name + " token " + std::to_string(i);
    ASSERT_GE(got[i].token, 0) << where;
    ASSERT_EQ(got[i].token, wanted[i].token) << where;
    EXPECT_EQ(got[i].finish, wanted[i].finish) << where;
    ASSERT_TRUE(got[i].logprobs && wanted[i].logprobs) << where;
    expect_same_logprobs(*got[i].logprobs, *wanted[i].logprobs, where);
    ASSERT_EQ(got[i].prompt_logprobs.size(), wanted[i].prompt_logprobs.size()) << where;
    for (size_t p = 0; p < got[i].prompt_logprobs.size(); ++p) {
      expect_same_logprobs(got[i].prompt_logprobs[p], wanted[i].prompt_logprobs[p], where);
    }
  }
}

}  // namespace tandem::testing
