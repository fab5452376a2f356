#include "serve/stream_frame.h"

#include <fmt/format.h>

#include "base/json.h"

namespace tandem::serve {

StreamFrame::StreamFrame(const AnswerHead& head, bool usage_null) {
  begin_ = dump_json(head_json(head));
  begin_.pop_back();  // the closing brace
  begin_ = "data: " + begin_ + R"(,"choices":[{"index":)";
  end_ = R"(,"logprobs":null,"finish_reason":null}])";
  if (usage_null) end_ += R"(,"usage":null)";
  end_ += "}\n\n";
}

std::string StreamFrame::event(ChunkText kind, int32_t index, std::string_view text) const {
  std::string out;
  out.reserve(begin_.size() + end_.size() + 2 * text.size() + 80);
  out += begin_;
  fmt::format_to(std::back_inserter(out), "{}", index);
  switch (kind) {
    case ChunkText::kCompletion:
      out += R"(,"text":)";
      append_json_string(out, text);
      break;
    case ChunkText::kChatContent:
      out += R"(,"delta":{"content":)";
      append_json_string(out, text);
      out += '}';
      break;
    case ChunkText::kChatReasoning:
      out += R"(,"delta":{"reasoning":)";
      append_json_string(out, text);
      out += R"(,"reasoning_content":)";
      append_json_string(out, text);
      out += '}';
      break;
  }
  out += end_;
  return out;
}

}  // namespace tandem::serve
