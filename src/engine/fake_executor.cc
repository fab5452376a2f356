#include "engine/fake_executor.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

namespace tandem::engine {
namespace {

// splitmix64's finalizer (Steele, Lea, Flood, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a) ^ b); }
uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }

uint64_t extend(uint64_t history, int32_t token, int32_t form) {
  return mix(history, (static_cast<uint64_t>(form) << 32) | static_cast<uint32_t>(token));
}

// All that a drawn token depends on, in a form that both the executor and the truth can fill.
struct Draw {
  uint64_t history = 0;
  kernels::SampleRow row;
  uint64_t bias = 0;  // sums over entries: their order does not matter
  uint64_t counts = 0;
  std::vector<bool> allowed;  // empty = all
};

uint64_t bias_hash(int32_t id, float value) { return mix(static_cast<uint64_t>(id), bits(value)); }
uint64_t count_hash(int32_t id, int32_t in_prompt, int32_t count) {
  return mix(static_cast<uint64_t>(id), (static_cast<uint64_t>(in_prompt) << 32) + count);
}
bool counts_prompt(const kernels::SampleRow& row) { return row.repetition_penalty != 1.0f; }
bool has_penalties(const kernels::SampleRow& row) {
  return counts_prompt(row) || row.presence_penalty != 0 || row.frequency_penalty != 0;
}

// -1: nothing is allowed.
int32_t draw(const Draw& d, int32_t vocabulary) {
  if (d.row.forced_id >= 0) return d.row.forced_id;
  uint64_t h = mix(d.history, bits(d.row.temperature));
  if (d.row.temperature > 0) {
    h = mix(h, d.row.seed);
    h = mix(h, (static_cast<uint64_t>(d.row.choice) << 32) | d.row.position);
    h = mix(h, bits(d.row.top_p) ^ (bits(d.row.min_p) << 32));
    h = mix(h, static_cast<uint64_t>(d.row.top_k));
  }
  h = mix(h, d.bias);
  if (has_penalties(d.row)) {
    h = mix(h, d.counts);
    h = mix(h, bits(d.row.repetition_penalty));
    h = mix(h, bits(d.row.presence_penalty) ^ (bits(d.row.frequency_penalty) << 32));
  }
  const auto first = static_cast<int32_t>(h % static_cast<uint64_t>(vocabulary));
  for (int32_t i = 0; i < vocabulary; ++i) {
    const int32_t id = (first + i) % vocabulary;
    if (d.allowed.empty() || d.allowed[static_cast<size_t>(id)]) return id;
  }
  return -1;
}

float logprob_of(uint64_t history, int32_t id) {
  return -static_cast<float>(mix(history, static_cast<uint64_t>(id) + 77) % 10000) / 1000.0f;
}
int32_t rank_of(uint64_t history, int32_t id, int32_t vocabulary) {
  return 1 + static_cast<int32_t>(mix(history, static_cast<uint64_t>(id) + 99) %
                                  static_cast<uint64_t>(vocabulary));
}
int32_t top_id(uint64_t history, int32_t column, int32_t vocabulary) {
  return static_cast<int32_t>(mix(history, static_cast<uint64_t>(column) + 1234) %
                              static_cast<uint64_t>(vocabulary));
}
float top_logprob(uint64_t history, int32_t column) {
  return -static_cast<float>(column) - static_cast<float>(history % 64) / 64.0f;
}

}  // namespace

void FakeControls::complain(std::string text) {
  const std::lock_guard lock(mutex_);
  if (complaint_.empty()) complaint_ = std::move(text);
}

std::string FakeControls::complaint() const {
  const std::lock_guard lock(mutex_);
  return complaint_;
}

FakeExecutor::FakeExecutor(const EngineConfig& config,
                           FakeExecutorOptions options,
                           std::shared_ptr<FakeControls> controls)
    : config_(config),
      options_(options),
      controls_(std::move(controls)),
      cells_(static_cast<size_t>(config.blocks) * static_cast<size_t>(config.block_tokens)),
      host_cells_(static_cast<size_t>(options.host_blocks) *
                  static_cast<size_t>(config.block_tokens)) {
  controls_->step_time_us = static_cast<int32_t>(options.step_time.count());
}

Expected<void> FakeExecutor::check_shapes(const model::Batch& batch) const {
  const auto tokens = static_cast<size_t>(batch.tokens());
  if (tokens == 0) return fail(ErrorCode::kInternal, "empty batch");
  if (batch.tokens() > config_.max_num_batched_tokens)
    return fail(ErrorCode::kInternal, "{} tokens are over the budget", tokens);
  if (batch.positions.size() != tokens || batch.sample_rows.size() != batch.logits_rows.size() ||
      batch.groups.size() != static_cast<size_t>(config_.kv_groups))
    return fail(ErrorCode::kInternal, "lengths differ");
  int32_t row = 0;
  for (const kernels::Segment& segment : batch.segments) {
    if (segment.first_row != row || segment.rows <= 0)
      return fail(ErrorCode::kInternal, "segments do not cover the rows");
    row += segment.rows;
  }
  if (row != batch.tokens()) return fail(ErrorCode::kInternal, "segments do not cover the rows");
  for (const model::BatchKvGroup& group : batch.groups)
    if (group.slots.size() != tokens || group.slots != batch.groups[0].slots ||
        group.block_table != batch.groups[0].block_table)
      return fail(ErrorCode::kInternal, "KV groups differ");
  return {};
}

Expected<void> FakeExecutor::append(const model::Batch& batch) {
  tokens_.resize(static_cast<size_t>(batch.tokens()));
  const model::BatchKvGroup& group = batch.groups[0];
  std::set<int64_t> written;
  for (const kernels::Segment& segment : batch.segments) {
    const auto table = static_cast<size_t>(segment.sequence * group.block_table_stride);
    for (int32_t r = segment.first_row; r < segment.first_row + segment.rows; ++r) {
      const auto i = static_cast<size_t>(r);
      const int32_t id = batch.token_ids[i];
      if (id < 0 && static_cast<size_t>(~id) >= previous_ids_.size())
        return fail(ErrorCode::kInternal, "placeholder {} names no row of the step before", id);
      tokens_[i] = id >= 0 ? id : previous_ids_[static_cast<size_t>(~id)];
      const int32_t position = segment.first_position + (r - segment.first_row);
      if (batch.positions[i] != position) return fail(ErrorCode::kInternal, "wrong position");
      const int32_t block = position / config_.block_tokens;
      if (block >= group.block_table_stride)
        return fail(ErrorCode::kInternal, "no block for position {}", position);
      const int64_t number = group.block_table[table + static_cast<size_t>(block)];
      if (number < 0 || number >= config_.blocks)
        return fail(ErrorCode::kInternal, "no block for position {}", position);
      const int64_t slot = number * config_.block_tokens + position % config_.block_tokens;
      Cell& cell = cells_[static_cast<size_t>(slot)];
      const auto form = static_cast<int32_t>(segment.form);
      if (group.slots[i] < 0) {
        if (cell.token != tokens_[i] || cell.form != form)
          return fail(ErrorCode::kInternal, "a row that is not written is not in the cache");
        continue;
      }
      if (group.slots[i] != slot) return fail(ErrorCode::kInternal, "wrong slot");
      if (!written.insert(slot).second) return fail(ErrorCode::kInternal, "slot written twice");
      cell = {tokens_[i], form};
    }
  }
  return {};
}

// The history of row `row`, as its block table shows it.
Expected<void> FakeExecutor::read(const model::Batch& batch,
                                  const kernels::Segment& segment,
                                  int32_t row) {
  const model::BatchKvGroup& group = batch.groups[0];
  const auto table = static_cast<size_t>(segment.sequence * group.block_table_stride);
  uint64_t history = 0;
  bool poisoned = false;
  for (int32_t p = 0; p <= batch.positions[static_cast<size_t>(row)]; ++p) {
    const int64_t block = group.block_table[table + static_cast<size_t>(p / config_.block_tokens)];
    const Cell& cell =
        cells_[static_cast<size_t>(block * config_.block_tokens + p % config_.block_tokens)];
    if (cell.token < 0) return fail(ErrorCode::kInternal, "position {} was never written", p);
    history = extend(history, cell.token, cell.form);
    poisoned |= cell.token == controls_->poison_token;
  }
  histories_[static_cast<size_t>(row)] = history;
  poisoned_[static_cast<size_t>(row)] = poisoned ? 1 : 0;
  return {};
}

void FakeExecutor::sample_row(const model::Batch& batch, int32_t r, model::StepResult& result) {
  const auto i = static_cast<size_t>(r);
  const kernels::SampleRow& row = batch.sample_rows[i];
  const auto token_row = static_cast<size_t>(batch.logits_rows[i]);
  Draw d{.history = histories_[token_row], .row = row};
  for (int32_t b = row.bias_begin; b < row.bias_begin + row.bias_count; ++b)
    d.bias += bias_hash(batch.bias_ids[static_cast<size_t>(b)],
                        batch.bias_values[static_cast<size_t>(b)]);
  for (int32_t h = row.history_begin; h < row.history_begin + row.history_count; ++h) {
    const kernels::HistoryEntry& entry = batch.history[static_cast<size_t>(h)];
    d.counts += count_hash(entry.id, entry.in_prompt, entry.output_count);
  }
  if (row.mask_row >= 0)
    for (int32_t id = 0; id < config_.vocabulary; ++id)
      d.allowed.push_back(
          (batch.masks[static_cast<size_t>(row.mask_row * batch.mask_words + id / 32)] >>
               (id % 32) &
           1) != 0);
  kernels::SampleResult& out = result.rows[i];
  out.id = draw(d, config_.vocabulary);
  out.invalid = poisoned_[token_row] != 0 || out.id < 0 ? 1 : 0;
  if (out.id < 0) out.id = 0;
  if (row.top_logprobs < 0) return;
  out.logprob = logprob_of(d.history, out.id);
  out.rank = rank_of(d.history, out.id, config_.vocabulary);
  for (int32_t c = 0; c < row.top_logprobs; ++c) {
    const size_t at = i * static_cast<size_t>(batch.max_top_logprobs) + static_cast<size_t>(c);
    result.top_ids[at] = top_id(d.history, c, config_.vocabulary);
    result.top_logprobs[at] = top_logprob(d.history, c);
  }
}

Expected<void> FakeExecutor::sample(const model::Batch& batch, model::StepResult& result) {
  histories_.assign(static_cast<size_t>(batch.tokens()), 0);
  poisoned_.assign(static_cast<size_t>(batch.tokens()), 0);
  std::set<int32_t> wanted(batch.logits_rows.begin(), batch.logits_rows.end());
  for (const kernels::Segment& segment : batch.segments)
    for (int32_t r = segment.first_row; r < segment.first_row + segment.rows; ++r)
      if (wanted.contains(r) || r + 1 == segment.first_row + segment.rows)
        TANDEM_TRY(read(batch, segment, r));
  const auto rows = static_cast<size_t>(batch.rows());
  const auto columns = static_cast<size_t>(batch.max_top_logprobs);
  result.rows.assign(rows, {});
  result.max_top_logprobs = batch.max_top_logprobs;
  result.top_ids.assign(rows * columns, -1);
  result.top_logprobs.assign(rows * columns, 0.0f);
  previous_ids_.resize(rows);
  for (int32_t r = 0; r < batch.rows(); ++r) {
    const kernels::SampleRow& row = batch.sample_rows[static_cast<size_t>(r)];
    const int32_t at = batch.logits_rows[static_cast<size_t>(r)];
    if (row.forced_id < 0 &&
        row.position != static_cast<uint32_t>(batch.positions[static_cast<size_t>(at)] + 1))
      return fail(ErrorCode::kInternal, "a sampling row has the wrong position");
    sample_row(batch, r, result);
    previous_ids_[static_cast<size_t>(r)] = result.rows[static_cast<size_t>(r)].id;
  }
  return {};
}

Expected<void> FakeExecutor::launch(const model::Batch& batch) {
  const int64_t number = controls_->launches++;
  if (controls_->fail_launch == number || controls_->fail_launch == -2)
    return fail(ErrorCode::kInternal, "launch {} fails as asked", number);
  if (used_ >= static_cast<size_t>(options_.depth)) {
    controls_->complain("more launches than the depth allows");
    return fail(ErrorCode::kInternal, "too deep");
  }
  Pending& pending = pending_[(first_ + used_) % 2];
  pending.number = number;
  Expected<void> done = check_shapes(batch);
  if (done) done = append(batch);
  if (done) done = sample(batch, pending.result);
  if (!done) {
    controls_->complain(done.error().message);
    return done;
  }
  ++used_;
  return {};
}

Expected<void> FakeExecutor::collect(model::StepResult& result) {
  ++controls_->collects;
  if (used_ == 0) {
    controls_->complain("collect without launch");
    return fail(ErrorCode::kInternal, "nothing to collect");
  }
  if (controls_->step_time_us > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(controls_->step_time_us));
  if (controls_->throws) throw std::runtime_error("as asked");
  while (controls_->stalled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Pending& pending = pending_[first_];
  first_ = (first_ + 1) % 2;
  --used_;
  if (controls_->fail_collect == pending.number || controls_->fail_collect == -2)
    return fail(ErrorCode::kInternal, "collect {} fails as asked", pending.number);
  result = pending.result;
  return {};
}

Expected<void> FakeExecutor::copy_blocks(std::span<const BlockCopy> copies) {
  const auto block_tokens = static_cast<int64_t>(config_.block_tokens);
  for (const BlockCopy& copy : copies) {
    ++controls_->copies;
    std::copy_n(cells_.begin() + copy.source * block_tokens,
                block_tokens,
                cells_.begin() + copy.target * block_tokens);
  }
  return {};
}

Expected<void> FakeExecutor::start_transfer(const TransferOrder& order) {
  for (const BlockCopy& copy : order.copies) {
    const int32_t device = order.to_host ? copy.source : copy.target;
    const int32_t host = order.to_host ? copy.target : copy.source;
    if (device < 0 || device >= config_.blocks || host < 0 || host >= options_.host_blocks) {
      controls_->complain("a transfer names a block outside its pool");
      return fail(ErrorCode::kInternal, "block outside its pool");
    }
  }
  moving_.push_back({order, options_.transfer_polls});
  return {};
}

// Copies as late as it can, so that blocks which were let go too early show.
void FakeExecutor::move_blocks(const TransferOrder& order, bool ok) {
  const auto block_tokens = static_cast<int64_t>(config_.block_tokens);
  auto& from = order.to_host ? cells_ : host_cells_;
  auto& to = order.to_host ? host_cells_ : cells_;
  for (const BlockCopy& copy : order.copies) {
    const auto target = to.begin() + copy.target * block_tokens;
    if (ok)
      std::copy_n(from.begin() + copy.source * block_tokens, block_tokens, target);
    else
      std::fill_n(target, block_tokens, Cell{.token = 1'000'000});
  }
}

void FakeExecutor::finished_transfers(bool wait, std::vector<TransferReport>& reports) {
  const size_t before = reports.size();
  for (size_t i = 0; i < moving_.size();) {
    const bool must = wait && reports.size() == before;
    if (!must && --moving_[i].polls > 0) {
      ++i;
      continue;
    }
    ++transfers_;
    const int32_t one_in = options_.transfer_failures_one_in;
    const bool ok = one_in == 0 || transfers_ % one_in != 0;
    move_blocks(moving_[i].order, ok);
    reports.push_back({moving_[i].order.id, ok});
    moving_.erase(moving_.begin() + static_cast<int64_t>(i));
  }
}

namespace {

struct Truth {
  const EngineConfig& config;
  const Request& request;
  int32_t choice;
  std::vector<int32_t> tokens;

  int32_t prompt() const { return static_cast<int32_t>(request.prompt.size()); }
  int32_t form(int32_t position) const {
    const int32_t from = config.form.expand_from;
    if (from == 0 || prompt() < from) return 0;
    return position < prompt() / config.form.segment * config.form.segment ? 1 : 0;
  }
  uint64_t history(int32_t count) const {
    uint64_t h = 0;
    for (int32_t p = 0; p < count; ++p) h = extend(h, tokens[static_cast<size_t>(p)], form(p));
    return h;
  }

  Draw next() const {
    const SamplingParams& s = request.sampling;
    const auto outputs = static_cast<int32_t>(tokens.size()) - prompt();
    Draw d{.history = history(static_cast<int32_t>(tokens.size()))};
    d.row = {.temperature = s.temperature,
             .top_p = s.top_p,
             .min_p = s.min_p,
             .top_k = s.top_k,
             .repetition_penalty = s.repetition_penalty,
             .presence_penalty = s.presence_penalty,
             .frequency_penalty = s.frequency_penalty,
             .seed = s.seed,
             .choice = static_cast<uint32_t>(choice),
             .position = static_cast<uint32_t>(tokens.size())};
    for (const auto& [id, value] : s.logit_bias) d.bias += bias_hash(id, value);
    std::map<int32_t, std::pair<int32_t, int32_t>> counts;
    for (int32_t p = 0; p < static_cast<int32_t>(tokens.size()); ++p) {
      if (p < prompt() && counts_prompt(d.row)) counts[tokens[static_cast<size_t>(p)]].first = 1;
      if (p >= prompt()) ++counts[tokens[static_cast<size_t>(p)]].second;
    }
    for (const auto& [id, count] : counts) d.counts += count_hash(id, count.first, count.second);
    d.allowed.assign(static_cast<size_t>(config.vocabulary), s.allowed_token_ids.empty());
    for (const int32_t id : s.allowed_token_ids) d.allowed[static_cast<size_t>(id)] = true;
    if (outputs < s.min_tokens)
      for (const auto* ids : {&request.eos_ids, &s.stop_token_ids})
        for (const int32_t id : *ids)
          if (id >= 0 && id < config.vocabulary) d.allowed[static_cast<size_t>(id)] = false;
    for (const std::vector<int32_t>& word : s.bad_words) {
      const auto prefix = static_cast<int32_t>(word.size()) - 1;
      if (prefix <= outputs && std::equal(word.begin(), word.end() - 1, tokens.end() - prefix))
        d.allowed[static_cast<size_t>(word.back())] = false;
    }
    return d;
  }

  TokenLogprobs logprobs(uint64_t h, int32_t id, int32_t top) const {
    TokenLogprobs out{logprob_of(h, id), rank_of(h, id, config.vocabulary), {}};
    for (int32_t c = 0; c < top; ++c)
      out.top.emplace_back(top_id(h, c, config.vocabulary), top_logprob(h, c));
    return out;
  }

  void finish(TokenEvent& event) const {
    const SamplingParams& s = request.sampling;
    const auto outputs = static_cast<int32_t>(tokens.size()) - prompt();
    const auto is = [&](const std::vector<int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), event.token) != ids.end();
    };
    if (outputs >= s.min_tokens && !s.ignore_eos && is(request.eos_ids)) {
      event.finish = FinishReason::kStop;
    } else if (outputs >= s.min_tokens && is(s.stop_token_ids)) {
      event.finish = FinishReason::kStop;
      event.stop_token = event.token;
    } else if (outputs >= s.max_tokens ||
               static_cast<int32_t>(tokens.size()) >= config.length_limit()) {
      event.finish = FinishReason::kLength;
    }
  }
};

}  // namespace

std::vector<TokenEvent> fake_answer(const EngineConfig& config,
                                    const Request& request,
                                    int32_t choice) {
  Truth truth{config, request, choice, request.prompt};
  const SamplingParams& s = request.sampling;
  truth.tokens.insert(
      truth.tokens.end(), request.resume_output.begin(), request.resume_output.end());
  std::vector<TokenEvent> events;
  do {
    const Draw d = truth.next();
    TokenEvent event;
    event.choice = choice;
    event.token = draw(d, config.vocabulary);
    if (event.token < 0) {
      event.finish = FinishReason::kError;
      events.push_back(event);
      break;
    }
    if (s.top_logprobs >= 0)
      event.logprobs = truth.logprobs(d.history, event.token, s.top_logprobs);
    if (choice == 0 && events.empty() && s.prompt_top_logprobs >= 0) {
      event.prompt_logprob_ids = request.prompt;
      event.prompt_logprobs.emplace_back();
      for (int32_t p = 1; p < truth.prompt(); ++p)
        event.prompt_logprobs.push_back(truth.logprobs(
            truth.history(p), request.prompt[static_cast<size_t>(p)], s.prompt_top_logprobs));
    }
    truth.tokens.push_back(event.token);
    truth.finish(event);
    events.push_back(std::move(event));
  } while (events.back().finish == FinishReason::kNone);
  return events;
}

}  // namespace tandem::engine
