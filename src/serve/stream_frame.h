#pragma once
// The chunk that nearly every token of a stream makes, as text: what it costs is what a streamed
// token costs, so no JSON value is built for it. The same bytes as the long way gives
// (choice_format.h, dump_json). Immutable; any thread.

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/answer_json.h"

namespace tandem::serve {

enum class ChunkText { kCompletion, kChatContent, kChatReasoning };

class StreamFrame {
 public:
  // `usage_null`: chunks carry "usage": null (stream_options.include_usage).
  StreamFrame(const AnswerHead& head, bool usage_null);

  // One SSE event: a choice with text and nothing else (no log-probabilities, ids, end).
  std::string event(ChunkText kind, int32_t index, std::string_view text) const;

 private:
  std::string begin_;  // up to the choice's index
  std::string end_;    // from the choice's end
};

}  // namespace tandem::serve
