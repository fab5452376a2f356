#pragma once
// A draft source for tests: it knows what FakeExecutor will say and guesses right as often as
// asked. It also guesses past the end of an answer, gives fewer drafts than asked for, or none, or
// too many or ids that do not exist.
//
// Thread: add() any; propose() the engine's. Errors: none.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/config.h"
#include "engine/draft_source.h"
#include "engine/request.h"

namespace tandem::engine {

// What the source knows of the requests; shared with the test while the engine owns the source.
class FakeTruths {
 public:
  explicit FakeTruths(EngineConfig config) : config_(std::move(config)) {}

  void add(const Request& request);
  void remove(const std::string& id);
  // The token at `position` of a choice; -1 when the answer has ended or nobody knows.
  int32_t token_at(std::string_view id, int32_t choice, int32_t position);

 private:
  const EngineConfig config_;
  std::mutex mutex_;
  std::map<std::string, Request, std::less<>> requests_;
  std::map<std::string, std::map<int32_t, std::vector<int32_t>>, std::less<>> outputs_;
};

class FakeDrafts final : public DraftSource {
 public:
  FakeDrafts(const EngineConfig& config, std::shared_ptr<FakeTruths> truths, int32_t right_percent)
      : vocabulary_(config.vocabulary), truths_(std::move(truths)), right_percent_(right_percent) {}

  void propose(const DraftQuery& query, std::vector<int32_t>& drafts) noexcept override;

 private:
  const int32_t vocabulary_;
  const std::shared_ptr<FakeTruths> truths_;
  const int32_t right_percent_;  // of all drafts; 100: always as many as asked for
};

}  // namespace tandem::engine
