#pragma once
// The answer to one request, as a handle that may be copied, moved to other threads and kept for as
// long as the answer takes. Every call is allowed from any thread and returns at once: bytes are
// queued and an I/O thread sends them.
// Exactly one of: respond(), or begin_stream(), write()…, end(). When the last copy goes without
// that, an unanswered request gets 500 and a begun stream is cut off, so that the client can tell.
// A handle may outlive its connection and the server; its calls then do nothing and return false.

#include <functional>
#include <memory>
#include <string_view>

#include "net/http_message.h"

namespace tandem::net {

class Exchange;

class ResponseWriter {
 public:
  // By the server.
  explicit ResponseWriter(std::shared_ptr<Exchange> exchange);

  // The whole answer. False: the connection is gone, or the request already has an answer.
  bool respond(Response response);

  // The head of an answer whose body follows in pieces: chunked in HTTP/1.1, until close in
  // HTTP/1.0. False as above.
  bool begin_stream(int status, Headers headers);
  // Each piece is sent at once. An empty piece is nothing. False: gone, or just cut because the
  // client does not read (HttpLimits::max_queued_bytes); stop producing.
  bool write(std::string_view piece);
  bool end();

  // The client went away, was cut, or the server stops.
  bool is_closed() const;
  // `callback` runs once when that happens before the answer is complete: on an I/O thread, or at
  // once in this thread if it has happened. It must be short and must not throw. It is destroyed
  // unused when the answer completes.
  void on_close(std::function<void()> callback);

  // Bytes of the stream that the kernel has not yet taken, for producers that can wait.
  size_t queued_bytes() const;

 private:
  struct Token;  // shared by the copies; its end is the end of the last one
  std::shared_ptr<Token> token_;
};

}  // namespace tandem::net
