#pragma once
// One request's answer on its way: what ResponseWriter (any thread) and Connection (its strand)
// share. Private to net. No Boost: the connection is behind ExchangeOwner.
// A mutex guards all state. Hooks that build answers run under it, so that close(), which waits for
// it, ends all use of them.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"
#include "net/http_server.h"

namespace tandem::net {

// What all connections of a server share and never changes, apart from `draining`.
struct HttpShared {
  HttpServerConfig config;
  HttpHooks hooks;
  std::atomic<bool> draining{false};

  // The error_response hook or its default; never throws.
  Response error_response(int status, std::string_view reason, const RequestSummary& summary) const;
};

class ExchangeOwner {
 public:
  virtual ~ExchangeOwner() = default;
  // There is something to do for the exchange. Any thread, returns at once.
  virtual void wake() = 0;
};

struct ExchangeFacts {
  RequestSummary summary;
  bool head_request = false;  // HEAD: the answer has no body
  int version_minor = 1;
  bool keep_alive = true;
};

class Exchange {
 public:
  Exchange(std::shared_ptr<const HttpShared> shared,
           std::weak_ptr<ExchangeOwner> owner,
           ExchangeFacts facts);

  // For ResponseWriter.
  bool respond(Response response);
  bool begin_stream(int status, Headers headers);
  bool write(std::string_view piece);
  bool end();
  bool is_closed() const;
  void on_close(std::function<void()> callback);
  size_t queued_bytes() const;
  void dropped();
  bool is_cut() const;  // nobody can be answered; a client that only shut its side can

  // For the connection.
  struct Progress {
    bool streaming = false;    // a streamed answer was begun
    bool started = false;      // any answer was begun
    bool ended = false;        // all of it was queued
    bool dropped = false;      // no writer is left
    bool overflowed = false;   // the client does not read: cut
    bool close_after = false;  // the answer says "connection: close"
    int status = 0;
    size_t body_bytes = 0;
  };
  Progress progress() const;
  // Moves what is queued to the end of `out`.
  void take_output(std::vector<std::string>& out);
  // The kernel took that many bytes.
  void sent(size_t bytes);
  // The client has closed its side: no more stream pieces, but a whole answer may still be sent.
  void half_close();
  // Nothing more is sent or called after this returns, apart from the close callbacks that it runs
  // itself, if the answer was not complete.
  void close();
  const RequestSummary& summary() const { return facts_.summary; }

 private:
  enum class State { kNew, kStreaming, kEnded };
  std::string build_head(int status, const Headers& headers, const std::string& framing) const;
  void decorate(int status, Headers& headers) const;
  bool body_allowed(int status) const;
  void push(std::string text);
  void run_close_callbacks(std::unique_lock<std::mutex>& lock);
  void wake(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<const HttpShared> shared_;
  const std::weak_ptr<ExchangeOwner> owner_;
  const ExchangeFacts facts_;

  mutable std::mutex mutex_;
  State state_ = State::kNew;
  bool streaming_ = false;
  bool chunked_ = false;
  bool send_body_ = true;
  bool half_closed_ = false;
  bool closed_ = false;
  bool dropped_ = false;
  bool overflowed_ = false;
  bool close_after_ = false;
  bool wake_pending_ = false;
  int status_ = 0;
  size_t body_bytes_ = 0;
  size_t queued_bytes_ = 0;
  std::vector<std::string> output_;
  std::vector<std::function<void()>> close_callbacks_;
};

}  // namespace tandem::net
