// EngineState: blocks that go to the host's pool and come back.

#include <algorithm>

#include "base/check.h"
#include "engine/engine_state.h"

namespace tandem::engine {
namespace {

// Weight of the newest measurement: the last ten or so count.
constexpr double kNewest = 0.1;

}  // namespace

double smoothed(double mean, double sample) {
  return mean <= 0 ? sample : mean + kNewest * (sample - mean);
}

void EngineState::start_move(Sequence& sequence, bool to_host, TimePoint now) {
  sequence.transfer = transfers_.start(to_host, sequence.blocks, sequence.host);
  ++sequence.transfers;
  moves_.push_back({sequence.transfer, &sequence, now});
  TransferOrder order{.id = sequence.transfer, .to_host = to_host, .copies = {}};
  for (size_t i = 0; i < sequence.blocks.size(); ++i)
    order.copies.push_back(to_host ? BlockCopy{sequence.blocks[i], sequence.host[i]}
                                   : BlockCopy{sequence.host[i], sequence.blocks[i]});
  orders_.push_back(std::move(order));
}

// The transfer holds the device's blocks until they are copied; `computed` stays as it is.
void EngineState::swap_out(Sequence& sequence, TimePoint now) {
  for (size_t i = 0; i < sequence.blocks.size(); ++i) {
    sequence.host.push_back(host_.take());
    TANDEM_CHECK(sequence.host.back() != kv::kNoBlock, "a swap was not planned");
  }
  start_move(sequence, /*to_host=*/true, now);
  blocks_.release(sequence.blocks);
  sequence.swap = SwapState::kOut;
  ++counters_.swaps_out;
  requeue(sequence);
}

void EngineState::swap_in(Sequence& sequence, int32_t blocks, TimePoint now) {
  blocks_.allocate(sequence.blocks, blocks);
  start_move(sequence, /*to_host=*/false, now);
  sequence.swap = SwapState::kIn;
  sequence.state = SequenceState::kRunning;
  std::erase(waiting_, &sequence);
  insert_sorted(running_, &sequence);
}

void EngineState::release_host(Sequence& sequence) {
  for (const kv::BlockId block : sequence.host) host_.release(block, /*reuse_first=*/true);
  sequence.host.clear();
}

void EngineState::transfer_ended(int64_t id, bool ok, TimePoint now) {
  const auto found =
      std::find_if(moves_.begin(), moves_.end(), [id](const Move& m) { return m.transfer == id; });
  if (found == moves_.end()) return;
  const Move move = *found;
  moves_.erase(found);
  const int32_t blocks = transfers_.finish(id);
  const Duration time = now - move.started;
  if (ok && time.count() > 0)
    costs_.transfer_ns_per_block =
        smoothed(costs_.transfer_ns_per_block, static_cast<double>(time.count()) / blocks);
  if (!ok) ++counters_.swaps_failed;

  Sequence& sequence = *move.sequence;
  --sequence.transfers;
  if (sequence.state != SequenceState::kFinished && sequence.transfer == id) {
    const bool to_host = sequence.swap == SwapState::kOut;
    sequence.transfer = 0;
    if (ok && to_host) {
      sequence.swap = SwapState::kHost;
    } else if (ok) {
      release_host(sequence);
      sequence.swap = SwapState::kNone;
      sequence.collected = sequence.computed;
      sequence.shared = sequence.computed;
      ++counters_.swaps_in;
    } else {
      release_host(sequence);
      sequence.swap = SwapState::kNone;
      if (to_host)
        sequence.computed = 0;
      else
        preempt(sequence);
    }
  }
  reap();
}

bool EngineState::transfers_consistent() const {
  std::vector<int32_t> references(static_cast<size_t>(host_.size()));
  for (const kv::Transfer& transfer : transfers_.under_way())
    for (const kv::BlockId block : transfer.host) ++references[static_cast<size_t>(block)];
  for (const auto* list : {&running_, &waiting_}) {
    for (const Sequence* s : *list) {
      const bool swapped = s->swap != SwapState::kNone;
      if (swapped != !s->host.empty()) return false;
      if (swapped && static_cast<int32_t>(s->host.size()) < blocks_.blocks_for(s->computed))
        return false;
      if ((s->swap == SwapState::kIn) != (swapped && s->state == SequenceState::kRunning))
        return false;
      for (const kv::BlockId block : s->host) ++references[static_cast<size_t>(block)];
    }
  }
  for (int32_t b = 0; b < host_.size(); ++b)
    if (host_.references(b) != references[static_cast<size_t>(b)]) return false;
  return host_.consistent() && moves_.size() == transfers_.under_way().size();
}

}  // namespace tandem::engine
