// Decoding takes no memory from the heap. A program of its own: it counts every allocation.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "engine/engine_state.h"
#include "engine/request.h"

namespace {
thread_local long allocations = 0;
}

// GCC pairs the replaced operators with the library's and warns.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#pragma GCC diagnostic pop

namespace tandem::engine {
namespace {

class CountingSink final : public EventSink {
 public:
  void on_event(TokenEvent event) override { tokens_ += event.token >= 0 ? 1 : 0; }
  int64_t tokens_ = 0;
};

TEST(Allocation, DecodingTakesNone) {
  EngineConfig config;
  config.blocks = 256;
  config.block_tokens = 16;
  config.form.segment = 64;
  config.kv_groups = 2;
  config.vocabulary = 1000;
  config.max_model_len = 600;
  config.max_num_seqs = 16;
  config.max_num_batched_tokens = 512;
  auto hasher = kv::PrefixHasher::create({}).value();
  EngineState state(config, hasher.clone().value(), false);
  auto sink = std::make_shared<CountingSink>();
  for (int i = 0; i < 8; ++i) {
    Request request;
    request.id = std::to_string(i);
    request.prompt = {1, 2, 3, i};
    request.sampling.max_tokens = 400;
    request.sampling.min_tokens = i % 2 == 0 ? 400 : 0;  // a mask row in every step
    request.eos_ids = {7};
    request.sampling.logit_bias = {{4, 1.0f}};
    request.sink = sink;
    state.add(make_live_request(config, request, hasher).value());
  }
  model::StepResult result;
  long counted = 0;
  for (int step = 0; step < 400; ++step) {
    const long before = allocations;
    state.plan({});
    ASSERT_TRUE(state.apply({}));
    result.rows.resize(static_cast<size_t>(state.batch().rows()));
    for (auto& row : result.rows) row.id = 8 + step % 100;
    state.collected(result, {});
    if (step > 2 && step < 399) counted += allocations - before;
  }
  EXPECT_EQ(counted, 0);
  EXPECT_EQ(sink->tokens_, 8 * 400);
  EXPECT_TRUE(state.idle());
}

}  // namespace
}  // namespace tandem::engine
