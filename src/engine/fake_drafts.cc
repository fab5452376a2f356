#include "engine/fake_drafts.h"

#include "engine/fake_executor.h"

namespace tandem::engine {
namespace {

// splitmix64's finalizer (Steele, Lea, Flood, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

void FakeTruths::add(const Request& request) {
  const std::lock_guard lock(mutex_);
  requests_.insert_or_assign(request.id, request);
}

void FakeTruths::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  requests_.erase(id);
  outputs_.erase(id);
}

int32_t FakeTruths::token_at(std::string_view id, int32_t choice, int32_t position) {
  const std::lock_guard lock(mutex_);
  const auto request = requests_.find(id);
  if (request == requests_.end()) return -1;
  std::vector<int32_t>& output = outputs_[request->first][choice];
  if (output.empty()) {
    output = request->second.resume_output;
    for (const TokenEvent& event : fake_answer(config_, request->second, choice))
      output.push_back(event.token);
  }
  const auto at = static_cast<size_t>(position) - request->second.prompt.size();
  return at < output.size() ? output[at] : -1;
}

void FakeDrafts::propose(const DraftQuery& query, std::vector<int32_t>& drafts) noexcept {
  const auto length = static_cast<int32_t>(query.tokens.size());
  uint64_t noise = mix(static_cast<uint64_t>(length) * 64 + static_cast<uint64_t>(query.choice));
  noise = mix(noise ^ static_cast<uint64_t>(query.tokens.back()));
  int32_t count = query.most;
  if (right_percent_ < 100) {
    const auto kind = noise % 8;
    if (kind == 0) return;
    if (kind == 1) count = 1;
    if (kind == 2) count += 2;  // more than asked for
  }
  for (int32_t i = 0; i < count; ++i) {
    noise = mix(noise);
    const int32_t truth = truths_->token_at(query.request, query.choice, length + i);
    const bool right = static_cast<int32_t>(noise % 100) < right_percent_;
    int32_t guess =
        truth >= 0 ? truth : static_cast<int32_t>((noise >> 32) % uint64_t(vocabulary_));
    if (!right) guess = (guess + 1) % vocabulary_;
    if (right_percent_ < 100 && (noise >> 20) % 64 == 0)
      guess = (noise & 1) != 0 ? -1 : vocabulary_;
    drafts.push_back(guess);
  }
}

}  // namespace tandem::engine
