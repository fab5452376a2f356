#include "net/sse.h"

#include <algorithm>
#include <utility>

namespace tandem::net {
namespace {

// Calls use(line) for each line of `text`; always at least once.
template <class Use>
void for_each_line(std::string_view text, const Use& use) {
  for (;;) {
    const size_t end = text.find_first_of("\r\n");
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    const bool crlf = text.substr(end).starts_with("\r\n");
    text.remove_prefix(end + (crlf ? 2 : 1));
  }
}

std::string without_line_ends(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) { return c == '\r' || c == '\n'; });
  return out;
}

void append_data(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 8);
  for_each_line(text, [&](std::string_view line) {
    out += "data: ";
    out += line;
    out += '\n';
  });
  out += '\n';
}

}  // namespace

std::string sse_data(std::string_view text) {
  std::string out;
  append_data(out, text);
  return out;
}

std::string sse_event(std::string_view name, std::string_view text) {
  std::string out = "event: " + without_line_ends(name) + "\n";
  append_data(out, text);
  return out;
}

std::string sse_comment(std::string_view text) { return ": " + without_line_ends(text) + "\n\n"; }

bool SseParser::feed(std::string_view bytes, const std::function<void(SseEvent)>& on_event) {
  for (const char c : bytes) {
    if (std::exchange(after_cr_, c == '\r') && c == '\n') continue;
    if (c == '\r' || c == '\n') {
      take_line(on_event);
      continue;
    }
    if (line_.size() + event_.data.size() >= max_event_bytes_) return false;
    line_.push_back(c);
  }
  return true;
}

void SseParser::take_line(const std::function<void(SseEvent)>& on_event) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    SseEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false)) on_event(std::move(event));
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = std::string_view(line).substr(0, colon);
  std::string_view value = std::string_view(line).substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") event_.name = value;
  if (field != "data") return;
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data += value;
}

}  // namespace tandem::net
