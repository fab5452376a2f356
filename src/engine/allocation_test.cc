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

// Right as long as the draws below count up.
class CountingUp final : public DraftSource {
 public:
  void propose(const DraftQuery& query, std::vector<int32_t>& drafts) noexcept override {
    for (int32_t i = 1; i <= query.most; ++i) drafts.push_back(next_token(query.tokens.back(), i));
  }
  static int32_t next_token(int32_t token, int32_t further) {
    return token < 8 ? 7 + further : 8 + (token - 8 + further) % 100;
  }
};

void decode(int32_t max_drafts) {
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
  config.max_drafts = max_drafts;
  CountingUp drafts;
  EngineState state(config, hasher.clone().value(), false, 0, &drafts);
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
  for (int step = 0; step < 400 && !state.idle(); ++step) {
    const long before = allocations;
    state.plan({});
    ASSERT_TRUE(state.apply({}));
    result.rows.resize(static_cast<size_t>(state.batch().rows()));
    // The token of the row, plus one; now and then another.
    for (size_t r = 0; r < result.rows.size(); ++r) {
      const auto token_row = static_cast<size_t>(state.batch().logits_rows[r]);
      result.rows[r].id = CountingUp::next_token(state.batch().token_ids[token_row],
                                                 1 + (step * 5 + int(r)) % 7 / 6);
    }
    state.collected(result, {});
    if (step > 2 && state.counters().finished_length == 0) counted += allocations - before;
  }
  if (max_drafts > 0) {
    EXPECT_GT(state.counters().accepted_tokens, 100u);
    EXPECT_LT(state.counters().accepted_tokens, state.counters().draft_tokens);
  }
  EXPECT_EQ(counted, 0);
  EXPECT_EQ(sink->tokens_, 8 * 400);
  EXPECT_TRUE(state.idle());
}

TEST(Allocation, DecodingTakesNone) { decode(0); }
TEST(Allocation, DecodingWithDraftsTakesNone) { decode(4); }

}  // namespace
}  // namespace tandem::engine
