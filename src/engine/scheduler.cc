#include "engine/scheduler.h"

#include <algorithm>

namespace tandem::engine {
namespace {

class Planner {
 public:
  Planner(const StateView& state, const Budgets& budgets, TimePoint now, Plan& plan)
      : state_(state),
        budgets_(budgets),
        now_(now),
        plan_(plan),
        tokens_left_(budgets.max_num_batched_tokens),
        prompt_rows_left_(budgets.max_prompt_logprob_rows),
        running_end_(static_cast<int32_t>(state.running.size())),
        host_left_(state.host_blocks_free) {}

  void run() {
    plan_.entries.clear();
    plan_.expired_running.clear();
    plan_.expired_waiting.clear();
    plan_.swapped_out.clear();
    plan_.swap_ins.clear();
    plan_.hits.clear();
    plan_.pool.reset(state_.blocks->pool());
    if (now_ >= state_.next_deadline) expire();
    if (!state_.transfers->under_way().empty()) to_come_ = state_.transfers->blocks_to_come();
    plan_running();
    plan_.keep_running = running_end_;
    const bool short_of_blocks =
        stalled_ || running_end_ < static_cast<int32_t>(state_.running.size());
    plan_drafts(short_of_blocks);
    if (!short_of_blocks) plan_waiting();
    plan_.tokens = budgets_.max_num_batched_tokens - tokens_left_;
  }

 private:
  bool expired(const Sequence& sequence) const {
    return now_ >= state_.next_deadline && sequence.request->request.deadline &&
           *sequence.request->request.deadline <= now_;
  }

  void release(const Sequence& sequence) {
    for (const kv::BlockId block : sequence.blocks) plan_.pool.release(block);
  }

  void expire() {
    for (size_t i = 0; i < state_.running.size(); ++i) {
      if (!expired(*state_.running[i])) continue;
      plan_.expired_running.push_back(static_cast<int32_t>(i));
      release(*state_.running[i]);
    }
    for (size_t i = 0; i < state_.waiting.size(); ++i)
      if (expired(*state_.waiting[i])) plan_.expired_waiting.push_back(static_cast<int32_t>(i));
  }

  // Rows that `sequence` may have now, from position `start`, before blocks are asked for.
  int32_t wanted_rows(const Sequence& sequence, int32_t start) const {
    if (sequence.waits_for_token()) return 0;
    // The last token that fits is drawn, but nothing is drawn from its row.
    int32_t rows = std::min(sequence.length(), sequence.max_length - 1) - start;
    rows = std::min(rows, tokens_left_);
    if (budgets_.long_prefill_threshold > 0) rows = std::min(rows, budgets_.long_prefill_threshold);
    const int32_t first = std::max(start, sequence.prompt_scored);
    if (sequence.prompt_rows_end() - first > prompt_rows_left_)
      rows = std::min(rows, first + prompt_rows_left_ - start);
    return std::max(rows, 0);
  }

  int32_t blocks_wanted(int32_t tokens, int32_t held) const {
    return std::max(0, state_.blocks->blocks_for(tokens) - held);
  }

  void add_entry(const Sequence& sequence, PlanEntry entry) {
    const int32_t end = entry.start + entry.count;
    entry.prompt_rows_begin = std::max(entry.start, sequence.prompt_scored);
    entry.prompt_rows_end = std::min(end, sequence.prompt_rows_end());
    if (entry.prompt_rows_end < entry.prompt_rows_begin)
      entry.prompt_rows_end = entry.prompt_rows_begin;
    entry.samples = end == sequence.length();
    prompt_rows_left_ -= entry.prompt_rows_end - entry.prompt_rows_begin;
    tokens_left_ -= entry.count;
    plan_.entries.push_back(entry);
  }

  void plan_running() {
    for (int32_t i = 0; i < running_end_ && tokens_left_ > 0; ++i) {
      const Sequence& sequence = *state_.running[static_cast<size_t>(i)];
      if (expired(sequence) || sequence.swap == SwapState::kIn) continue;
      const int32_t rows = wanted_rows(sequence, sequence.computed);
      if (rows == 0) continue;
      const int32_t held = static_cast<int32_t>(sequence.blocks.size());
      const int32_t need = blocks_wanted(sequence.computed + rows, held);
      if (!make_room(need, i)) continue;
      plan_.pool.take(need);
      add_entry(sequence,
                {.index = i, .start = sequence.computed, .count = rows, .new_blocks = need});
    }
  }

  // Rows for guesses behind the rows that draw a token, from what the others have left.
  void plan_drafts(bool short_of_blocks) {
    for (PlanEntry& entry : plan_.entries) {
      const Sequence& sequence = *state_.running[static_cast<size_t>(entry.index)];
      if (sequence.drafts.empty() || sequence.placeholders > 0 || !entry.samples) continue;
      const int32_t end = entry.start + entry.count;
      // As in wanted_rows(): nothing is drawn from the row of the last token that fits.
      int32_t rows = std::min(static_cast<int32_t>(sequence.drafts.size()),
                              std::min(tokens_left_, sequence.max_length - 1 - end));
      if (budgets_.long_prefill_threshold > 0)
        rows = std::min(rows, budgets_.long_prefill_threshold - entry.count);
      const int64_t held = static_cast<int64_t>(sequence.blocks.size()) + entry.new_blocks;
      const int64_t free = short_of_blocks ? 0 : plan_.pool.free_blocks();
      rows = static_cast<int32_t>(
          std::min<int64_t>(rows, (held + free) * state_.blocks->block_tokens() - end));
      if (rows <= 0) continue;
      const int32_t need = blocks_wanted(end + rows, static_cast<int32_t>(held));
      plan_.pool.take(need);
      entry.new_blocks += need;
      entry.count += rows;
      entry.drafts = rows;
      tokens_left_ -= rows;
    }
  }

  // Preempts from the end of the order until `need` blocks are free. False: sequence `i` gets
  // nothing in this step, because it was its own last victim or a swap has to end first.
  bool make_room(int32_t need, int32_t i) {
    while (plan_.pool.free_blocks() < need && running_end_ > i) {
      if (plan_.pool.free_blocks() + to_come_ >= need) {
        stalled_ = true;
        return false;
      }
      const Sequence& victim = *state_.running[static_cast<size_t>(--running_end_)];
      if (expired(victim)) continue;
      const auto blocks = static_cast<int32_t>(victim.blocks.size());
      // A victim whose copy is on its way back has it still: it just lets its blocks go.
      if (victim.swap == SwapState::kNone && blocks <= host_left_ &&
          state_.costs.swap_is_cheaper(victim.computed, blocks)) {
        plan_.swapped_out.push_back(running_end_);
        host_left_ -= blocks;
        to_come_ += blocks;
      } else {
        release(victim);
      }
    }
    return running_end_ > i;
  }

  // Blocks that running sequences still need for tokens they have: promised, not free. Called
  // before anybody is admitted.
  int32_t outstanding_blocks() const {
    int32_t blocks = 0;
    for (const Sequence* sequence : state_.running)
      if (!expired(*sequence))
        blocks += blocks_wanted(sequence->length(), static_cast<int32_t>(sequence->blocks.size()));
    for (const PlanEntry& entry : plan_.entries) {
      const Sequence& sequence = *state_.running[static_cast<size_t>(entry.index)];
      blocks -= blocks_wanted(entry.start + entry.count - entry.drafts,
                              static_cast<int32_t>(sequence.blocks.size()));
    }
    return blocks;
  }

  // Other choices wait for choice 0 to have computed the prompt that they share.
  static bool ready(const Sequence& sequence) {
    if (sequence.placeholders > 0 || sequence.swap == SwapState::kOut) return false;
    if (sequence.swap == SwapState::kHost) return sequence.in_flight == 0;
    const LiveRequest& request = *sequence.request;
    return sequence.choice == 0 || request.prompt_ready ||
           request.sequences[0].state == SequenceState::kFinished;
  }

  // Fills the entry's start, hits, shared rows and copy from what is cached.
  void find_prefix(const Sequence& sequence, PlanEntry& entry) {
    entry.hits_begin = static_cast<int32_t>(plan_.hits.size());
    const int32_t block_tokens = state_.blocks->block_tokens();
    const int32_t prompt = sequence.prompt_length();
    const Sequence& first = sequence.request->sequences[0];
    const bool forks = sequence.choice > 0 && !sequence.started() &&
                       first.state == SequenceState::kRunning && first.collected >= prompt;
    if (forks) {
      entry.hits = prompt / block_tokens;
      plan_.hits.insert(plan_.hits.end(), first.blocks.begin(), first.blocks.begin() + entry.hits);
      entry.shared = entry.hits * block_tokens;
      if (prompt % block_tokens != 0 && state_.copies_blocks) {
        entry.copy_source = first.blocks[static_cast<size_t>(entry.hits)];
        entry.shared = prompt;
      }
    } else if (state_.prefix_caching && sequence.prompt_scored >= sequence.prompt_rows_end()) {
      entry.hits = state_.blocks->index().match(
          sequence.request->root, sequence.known_hashes(), sequence.known_tokens(), plan_.hits);
      entry.shared = entry.hits * block_tokens;
    }
    // Its last token is run again, without writing, for the logits.
    entry.start = std::min(entry.shared, sequence.known() - 1);
  }

  // True when the entry's blocks may be taken. Beside others a request is admitted only if all its
  // tokens fit, so that it is not preempted half way through its prompt.
  bool fits(const Sequence& sequence, const PlanEntry& entry, int32_t promised) const {
    int32_t free = plan_.pool.free_blocks();
    for (int32_t i = 0; i < entry.hits; ++i)
      if (plan_.pool.references(plan_.hits[static_cast<size_t>(entry.hits_begin + i)]) == 0) --free;
    const bool alone = plan_.entries.empty() && plan_.swap_ins.empty() && state_.running.empty();
    if (alone) return free >= entry.new_blocks;
    // A copy on the host may have blocks of rejected drafts at its end.
    const int32_t all = std::max(entry.new_blocks, blocks_wanted(sequence.known(), entry.hits));
    return free - promised - budgets_.watermark_blocks >= all;
  }

  void plan_waiting() {
    if (state_.waiting.empty()) return;
    int32_t promised = outstanding_blocks();
    int32_t seats = budgets_.max_num_seqs - static_cast<int32_t>(state_.running.size());
    for (size_t i = 0; i < state_.waiting.size(); ++i) {
      if (tokens_left_ <= 0 || seats <= 0) break;
      const Sequence& sequence = *state_.waiting[i];
      if (expired(sequence) || !ready(sequence)) continue;
      if (sequence.swap == SwapState::kHost) {
        const auto blocks = static_cast<int32_t>(sequence.host.size());
        if (!fits(sequence, {.new_blocks = blocks}, promised)) break;
        plan_.pool.take(blocks);
        plan_.swap_ins.push_back({static_cast<int32_t>(i), blocks});
        promised += blocks_wanted(sequence.known(), blocks);
        --seats;
        continue;
      }
      PlanEntry entry{.index = static_cast<int32_t>(i), .admitted = true};
      find_prefix(sequence, entry);
      entry.count = wanted_rows(sequence, entry.start);
      entry.new_blocks = blocks_wanted(entry.start + entry.count, entry.hits);
      if (entry.count == 0 || !fits(sequence, entry, promised)) {
        plan_.hits.resize(static_cast<size_t>(entry.hits_begin));
        break;  // first come, first served: nobody overtakes the head
      }
      for (int32_t h = 0; h < entry.hits; ++h)
        plan_.pool.retain(plan_.hits[static_cast<size_t>(entry.hits_begin + h)]);
      plan_.pool.take(entry.new_blocks);
      promised += blocks_wanted(sequence.known(), entry.hits + entry.new_blocks);
      add_entry(sequence, entry);
      --seats;
    }
  }

  const StateView& state_;
  const Budgets& budgets_;
  const TimePoint now_;
  Plan& plan_;
  int32_t tokens_left_;
  int32_t prompt_rows_left_;
  int32_t running_end_;
  int32_t host_left_;
  int32_t to_come_ = 0;   // device blocks that swaps will free
  bool stalled_ = false;  // somebody waits for them
};

}  // namespace

bool Plan::same_decisions(const Plan& other) const {
  return entries == other.entries && keep_running == other.keep_running &&
         expired_running == other.expired_running && expired_waiting == other.expired_waiting &&
         swapped_out == other.swapped_out && swap_ins == other.swap_ins && hits == other.hits &&
         tokens == other.tokens;
}

void schedule(const StateView& state, const Budgets& budgets, TimePoint now, Plan& plan) {
  Planner(state, budgets, now, plan).run();
}

}  // namespace tandem::engine
