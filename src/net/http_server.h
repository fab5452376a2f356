#pragma once
// The HTTP/1.1 server: connections, framing, limits, routing. Knows no API: bodies of errors, CORS,
// keys and logs come from hooks.
// Threads: `io_threads` move bytes and never compute; handlers run on `worker_threads`. Idle, both
// sleep. start() and stop() are called by the owner, from one thread, not from a handler or hook.
// After stop(), or destruction, no thread, descriptor or callback of the server is left; writers
// that are still held do nothing.
// Errors: start() says why it cannot listen. Nothing that a client sends throws, aborts or
// allocates beyond the limits.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "net/http_limits.h"
#include "net/http_message.h"
#include "net/router.h"

namespace tandem::net {

struct HttpServerConfig {
  // An IPv4 or IPv6 address or a name (all its addresses are bound). "::" takes IPv4 as well. Empty
  // means "0.0.0.0".
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one
  int io_threads = 1;
  int worker_threads = 4;
  size_t max_waiting_requests = 4096;  // for a worker; beyond, 503 at once
  int listen_backlog = 1024;
  bool echo_request_id = false;  // answer with x-request-id
  HttpLimits limits;
};

struct AnswerFacts {
  int status = 0;  // 0: the connection ended before an answer was begun
  bool complete = false;
  size_t body_bytes = 0;
  Duration duration{0};  // from the complete request to the last byte handed to the kernel
};

// All optional. They run on I/O or worker threads, several at once, and must be quick and
// thread-safe. None runs after stop() has returned.
struct HttpHooks {
  // The answer for an error that the server itself finds: 400, 404, 405, 408, 413, 414, 415, 417,
  // 431, 500, 501, 503, 505. `reason` is one line for the client. Default: text/plain.
  std::function<Response(int status, std::string_view reason, const RequestSummary&)>
      error_response;
  // Sees every request as soon as its headers are complete and well-formed, before routing and
  // before its body is read (`body` is empty); an answer given here ends it. For CORS preflights,
  // keys, draining. A body that follows is read and thrown away.
  std::function<std::optional<Response>(const Request&)> intercept;
  // May add headers to any answer, also to errors.
  std::function<void(const RequestSummary&, int status, Headers&)> decorate;
  // Once for every request, after its answer; also for those that could not be parsed.
  std::function<void(const RequestSummary&, const AnswerFacts&)> finished;
};

// Plain counters since start; the first is a gauge.
struct HttpServerStats {
  uint64_t open_connections = 0;
  uint64_t accepted_connections = 0;
  uint64_t refused_connections = 0;  // over max_connections
  uint64_t requests = 0;             // complete and well-formed
  uint64_t malformed_requests = 0;
  uint64_t timeouts = 0;       // of headers or bodies
  uint64_t slow_readers = 0;   // cut: too much queued, or no byte taken for write_timeout
  uint64_t client_closes = 0;  // while an answer was pending
};

struct ServerCore;

class HttpServer {
 public:
  HttpServer(HttpServerConfig config, Router router, HttpHooks hooks);
  ~HttpServer();  // stop(0)
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds, listens, starts the threads. Returns the port that was bound. Once.
  Expected<uint16_t> start();

  // Stops accepting and closes idle connections at once; answers that are pending may complete for
  // up to `deadline`, then their connections are cut. Returns when all is gone. Handlers that run
  // are waited for, without limit. Idempotent.
  void stop(Duration deadline);

  HttpServerStats stats() const;  // any thread

 private:
  std::shared_ptr<ServerCore> core_;
};

}  // namespace tandem::net
