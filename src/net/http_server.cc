#include "net/http_server.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "net/connection.h"
#include "net/listener.h"
#include "net/server_core.h"

namespace tandem::net {
namespace {

// Over max_connections: this many more get a 503, further ones are just closed.
constexpr size_t kMaxRefusals = 64;
constexpr Duration kLongestDeadline = std::chrono::hours(24 * 365);  // far from overflow

// Handlers of net do not throw; what is left is memory, and callbacks that break their promise. It
// costs the connection that was at work, not the server.
void run_io(asio::io_context& io) {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& e) {
      log_error("on an HTTP I/O thread: {}", log_safe(e.what()));
    }
  }
}

}  // namespace

ServerCore::ServerCore(HttpServerConfig config, Router routes, HttpHooks hooks)
    : shared(std::make_shared<HttpShared>()),
      router(std::move(routes)),
      workers(config.max_waiting_requests) {
  shared->config = std::move(config);
  shared->hooks = std::move(hooks);
}

void ServerCore::adopt(const std::shared_ptr<ServerCore>& core, Socket socket) {
  ++core->counters.accepted;
  const auto connection = std::make_shared<Connection>(core, std::move(socket));
  bool refuse = false;
  {
    const std::lock_guard lock(core->mutex);
    const size_t open = core->connections.size();
    const size_t limit = core->shared->config.limits.max_connections;
    refuse = open >= limit;
    if (refuse) ++core->counters.refused;
    if (open >= limit + kMaxRefusals) return;  // the socket closes here
    core->connections.insert(connection);
  }
  connection->start(refuse);
}

void ServerCore::remove(const std::shared_ptr<Connection>& connection) {
  {
    const std::lock_guard lock(mutex);
    connections.erase(connection);
  }
  changed.notify_all();
}

HttpServer::HttpServer(HttpServerConfig config, Router router, HttpHooks hooks)
    : core_(std::make_shared<ServerCore>(std::move(config), std::move(router), std::move(hooks))) {}

HttpServer::~HttpServer() { stop(Duration(0)); }

Expected<uint16_t> HttpServer::start() {
  if (core_->started || core_->stopped)
    return fail(ErrorCode::kInternal, "the HTTP server was started before");
  const HttpServerConfig& config = core_->shared->config;
  if (config.io_threads < 1 || config.io_threads > 64 || config.worker_threads < 1 ||
      config.worker_threads > 1024 || config.listen_backlog < 1)
    return fail(ErrorCode::kInvalidArgument,
                "HTTP threads are {} (accepted: 1..64), workers {} (1..1024), backlog {} (from 1)",
                config.io_threads,
                config.worker_threads,
                config.listen_backlog);
  TANDEM_ASSIGN(core_->listeners, Listener::open_all(core_));
  core_->started = true;
  try {
    core_->workers.start(config.worker_threads);
    for (const auto& listener : core_->listeners) listener->accept_next();
    for (int i = 0; i < config.io_threads; ++i) {
      core_->io_threads.emplace_back([core = core_.get()] { run_io(core->io); });
      pthread_setname_np(core_->io_threads.back().native_handle(), "http-io");
    }
  } catch (const std::exception& e) {
    stop(Duration(0));
    return fail(ErrorCode::kIo, "cannot start the HTTP threads: {}", e.what());
  }
  return core_->listeners.front()->port();
}

void HttpServer::stop(Duration deadline) {
  if (std::exchange(core_->stopped, true) || !core_->started) return;
  const auto until =
      std::chrono::steady_clock::now() + std::clamp(deadline, Duration(0), kLongestDeadline);
  core_->shared->draining.store(true);
  if (core_->io_threads.empty()) {
    // start() failed half-way; nothing runs.
    for (const auto& listener : core_->listeners) listener->close();
    core_->io.poll();
  }
  for (const auto& listener : core_->listeners) listener->close_and_wait();
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(core_->mutex);
    open.assign(core_->connections.begin(), core_->connections.end());
  }
  for (const auto& connection : open) connection->drain();
  open.clear();
  std::unique_lock lock(core_->mutex);
  const auto none_left = [this] { return core_->connections.empty(); };
  core_->changed.wait_until(lock, until, none_left);
  for (const auto& connection : core_->connections) connection->abort();
  core_->changed.wait(lock, none_left);
  lock.unlock();
  core_->workers.stop();
  // Without listeners and connections the I/O threads run out of work.
  for (std::thread& thread : core_->io_threads) thread.join();
  core_->io_threads.clear();
  core_->listeners.clear();
}

HttpServerStats HttpServer::stats() const {
  HttpServerStats out;
  {
    const std::lock_guard lock(core_->mutex);
    out.open_connections = core_->connections.size();
  }
  const ServerCore::Counters& counters = core_->counters;
  out.accepted_connections = counters.accepted;
  out.refused_connections = counters.refused;
  out.requests = counters.requests;
  out.malformed_requests = counters.malformed;
  out.timeouts = counters.timeouts;
  out.slow_readers = counters.slow_readers;
  out.client_closes = counters.client_closes;
  return out;
}

}  // namespace tandem::net
