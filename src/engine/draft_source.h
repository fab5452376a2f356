#pragma once
// Guesses at a sequence's next tokens ("drafts"). The engine computes a guess's row in the same
// step as the token before it and accepts the guess iff the ordinary sampler draws it there: a
// source decides how many steps an answer takes, never what it says.
//
// Owner: Engine. Called on the engine thread, between steps. Errors: none; a source that fails
// proposes nothing.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::engine {

// Valid during the call.
struct DraftQuery {
  std::string_view request;  // its id
  int32_t choice = 0;
  int32_t prompt_length = 0;
  std::span<const int32_t> tokens;  // prompt and output so far
  int32_t most = 0;                 // at least 1
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // Appends up to `query.most` ids to `drafts`, which is empty and has room for them: the first
  // stands for the token after `query.tokens`. Depends on the query alone, so that the same load
  // gives the same plans. What is too much, or no id of the model, is dropped by the caller.
  virtual void propose(const DraftQuery& query, std::vector<int32_t>& drafts) noexcept = 0;
};

}  // namespace tandem::engine
