#pragma once
// Server-sent events (WHATWG HTML §9.2): framing out and in. Pure functions of text; any thread.

#include <functional>
#include <string>
#include <string_view>

namespace tandem::net {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";

// "data: <text>\n\n". JSON as dump_json() gives it has no line ends; in other text each line (ended
// by LF, CR or CRLF) becomes a data line of its own, as the standard joins them again.
std::string sse_data(std::string_view text);
// The same with "event: <name>\n" before. `name` has no line ends (they are left out).
std::string sse_event(std::string_view name, std::string_view text);
// ": <text>\n\n": ignored by clients; keeps proxies from closing a silent stream.
std::string sse_comment(std::string_view text);

struct SseEvent {
  std::string name;  // empty: "message"
  std::string data;
};

// Bytes in, events out, however they are cut. One owner, one thread. Holds at most
// `max_event_bytes`.
class SseParser {
 public:
  explicit SseParser(size_t max_event_bytes = 16 * 1024 * 1024)
      : max_event_bytes_(max_event_bytes) {}
  // False: an event larger than the bound; what follows is meaningless.
  bool feed(std::string_view bytes, const std::function<void(SseEvent)>& on_event);

 private:
  void take_line(const std::function<void(SseEvent)>& on_event);

  size_t max_event_bytes_;
  bool after_cr_ = false;
  bool has_data_ = false;
  std::string line_;
  SseEvent event_;
};

}  // namespace tandem::net
