#pragma once
// Splits an answer into what the model thinks and what it says, by its <think> and </think> tokens.
// The tokens decide, not their spelling: a model that writes "</think>" with other tokens goes on
// thinking.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tandem::frontend {

struct ReasoningMarks {
  int32_t open = -1;   // <think>
  int32_t close = -1;  // </think>
};

// The marks of this vocabulary; none unless both are single tokens.
std::optional<ReasoningMarks> find_reasoning_marks(const text::Tokenizer& tokenizer);

enum class ReasoningState {
  kContent,   // all that follows is said
  kMayOpen,   // said, unless the model opens its thinking before anything else
  kThinking,  // the prompt opened the thinking, or the model begins with it by custom
};

// Where an answer to this prompt begins: in thinking if the prompt's last mark opens it; in content
// if the prompt ends in a closing mark (and blanks). `thinks_unasked`: a model that thinks first
// whether its template opens the thinking or not (DeepSeek-R1).
ReasoningState reasoning_state(std::span<const int32_t> prompt,
                               const ReasoningMarks& marks,
                               const text::Tokenizer& tokenizer,
                               bool thinks_unasked);

// One choice of one request; one thread. Text is released later than its tokens are made
// (unfinished code points, stop strings), so the splitter counts bytes: take() is told of every
// token's text, split() of every piece that is released, in order.
class ReasoningSplitter {
 public:
  ReasoningSplitter(ReasoningMarks marks, ReasoningState begin);

  // `text` is what the detokenizer gave for `token`; for a mark it may end in `spelling`, and it
  // may begin with what earlier tokens left unfinished. True: the token is thinking; marks are not.
  bool take(int32_t token, std::string_view text, std::string_view spelling);

  struct Parts {
    std::string thought;
    std::string said;
  };
  // Marks are left out.
  Parts split(std::string_view released);

 private:
  enum class Kind { kSaid, kThought, kMark };
  struct Section {
    size_t end = 0;  // bytes from the answer's beginning
    Kind kind = Kind::kSaid;
  };
  void change(std::string_view text, std::string_view spelling, Kind next);

  ReasoningMarks marks_;
  ReasoningState state_;
  std::vector<Section> sections_;  // those not yet split; at most five in all
  Kind current_;                   // of what follows the last section
  size_t made_ = 0;                // bytes of all tokens' text
  size_t released_ = 0;            // bytes of it that were split
};

}  // namespace tandem::frontend
