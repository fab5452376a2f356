#pragma once
// Finds stop strings in text that arrives in pieces. Text that may be the beginning of one is held
// back; nothing of a stop string is ever released unless asked for.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::frontend {

// One per choice; one thread. The stop string that ends first wins; of two that end together, the
// first in the list.
class StopMatcher {
 public:
  // No string may be empty (validate.h).
  StopMatcher(std::vector<std::string> stops, bool include_in_output)
      : stops_(std::move(stops)), include_(include_in_output) {}

  struct Result {
    std::string released;  // text that may be shown
    int matched = -1;  // index of the stop string that was found; nothing may be pushed afterwards
  };
  // `armed` = false: matches that end in this piece do not count (min_tokens).
  Result push(std::string_view piece, bool armed = true);

  // The end came otherwise: what was held back.
  std::string flush();

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  bool include_;
  std::string pending_;  // not yet released
};

}  // namespace tandem::frontend
