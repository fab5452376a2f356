#include "frontend/reasoning.h"

#include <algorithm>

namespace tandem::frontend {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

std::optional<ReasoningMarks> find_reasoning_marks(const text::Tokenizer& tokenizer) {
  const auto open = tokenizer.token_to_id("<think>");
  const auto close = tokenizer.token_to_id("</think>");
  if (!open || !close) return std::nullopt;
  return ReasoningMarks{*open, *close};
}

ReasoningState reasoning_state(std::span<const int32_t> prompt,
                               const ReasoningMarks& marks,
                               const text::Tokenizer& tokenizer,
                               bool thinks_unasked) {
  const ReasoningState unmarked =
      thinks_unasked ? ReasoningState::kThinking : ReasoningState::kMayOpen;
  bool at_end = true;  // only blanks have been passed
  for (size_t i = prompt.size(); i-- > 0;) {
    if (prompt[i] == marks.open) return ReasoningState::kThinking;
    if (prompt[i] == marks.close) return at_end ? ReasoningState::kContent : unmarked;
    at_end = at_end && is_blank(tokenizer.token_bytes(prompt[i]));
  }
  return unmarked;
}

ReasoningSplitter::ReasoningSplitter(ReasoningMarks marks, ReasoningState begin)
    : marks_(marks),
      state_(begin),
      current_(begin == ReasoningState::kThinking ? Kind::kThought : Kind::kSaid) {}

// The current section ends before the mark's spelling, and another begins behind it.
void ReasoningSplitter::change(std::string_view text, std::string_view spelling, Kind next) {
  const bool shown = !spelling.empty() && text.ends_with(spelling);
  sections_.push_back({made_ + text.size() - (shown ? spelling.size() : 0), current_});
  sections_.push_back({made_ + text.size(), Kind::kMark});
  current_ = next;
}

bool ReasoningSplitter::take(int32_t token, std::string_view text, std::string_view spelling) {
  bool thinks = false;
  if (token == marks_.close && state_ == ReasoningState::kThinking) {
    change(text, spelling, Kind::kSaid);
    state_ = ReasoningState::kContent;
  } else if (token == marks_.open && (state_ == ReasoningState::kMayOpen ||
                                      (state_ == ReasoningState::kThinking && made_ == 0))) {
    change(text, spelling, Kind::kThought);
    state_ = ReasoningState::kThinking;
  } else if (state_ == ReasoningState::kThinking) {
    thinks = true;
  } else if (state_ == ReasoningState::kMayOpen && !is_blank(text)) {
    state_ = ReasoningState::kContent;
  }
  made_ += text.size();
  return thinks;
}

ReasoningSplitter::Parts ReasoningSplitter::split(std::string_view released) {
  Parts out;
  while (!released.empty()) {
    while (!sections_.empty() && sections_.front().end <= released_)
      sections_.erase(sections_.begin());
    const Kind kind = sections_.empty() ? current_ : sections_.front().kind;
    const size_t length = sections_.empty()
                              ? released.size()
                              : std::min(released.size(), sections_.front().end - released_);
    const std::string_view piece = released.substr(0, length);
    if (kind == Kind::kThought) out.thought += piece;
    if (kind == Kind::kSaid) out.said += piece;
    released.remove_prefix(length);
    released_ += length;
  }
  return out;
}

}  // namespace tandem::frontend
