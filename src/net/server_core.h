#pragma once
// What HttpServer and its connections share. Private to net; includes Asio, so only for .cc files
// of net. The core lives as long as the last connection object, so that a writer that is kept
// longer than the server finds nothing freed under it.

#include <atomic>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "net/exchange.h"
#include "net/http_server.h"
#include "net/router.h"
#include "net/worker_pool.h"

namespace tandem::net {

namespace asio = boost::asio;
using boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Strand>;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, Strand>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>,
                                         Strand>;

class Connection;
class Listener;

struct ServerCore {
  ServerCore(HttpServerConfig config, Router routes, HttpHooks hooks);

  asio::io_context io;  // first, so that it is destroyed last
  std::shared_ptr<HttpShared> shared;
  const Router router;
  WorkerPool workers;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::vector<std::thread> io_threads;
  bool started = false;
  bool stopped = false;

  // All open connections. Under `mutex`; `changed` when one goes.
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::shared_ptr<Connection>> connections;

  // Shared with the bodies it counts, which may be destroyed by a worker.
  std::shared_ptr<std::atomic<size_t>> body_bytes = std::make_shared<std::atomic<size_t>>(0);

  struct Counters {
    std::atomic<uint64_t> accepted{0}, refused{0}, requests{0}, malformed{0}, timeouts{0},
        slow_readers{0}, client_closes{0};
  } counters;

  // Takes over an accepted socket, or refuses it.
  static void adopt(const std::shared_ptr<ServerCore>& core, Socket socket);
  void remove(const std::shared_ptr<Connection>& connection);
};

// Bytes of a request body, counted against HttpLimits::max_total_body_bytes while it lives.
class BodyLease {
 public:
  BodyLease() = default;
  explicit BodyLease(std::shared_ptr<std::atomic<size_t>> total) : total_(std::move(total)) {}
  ~BodyLease() { release(); }
  BodyLease(BodyLease&& other) noexcept
      : total_(std::move(other.total_)), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyLease& operator=(BodyLease&& other) noexcept {
    release();
    total_ = std::move(other.total_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  // False: over the limit; nothing changed.
  bool grow_to(size_t bytes, size_t max_total_bytes) {
    if (bytes <= bytes_) return true;
    const size_t more = bytes - bytes_;
    if (total_->fetch_add(more) + more > max_total_bytes) {
      total_->fetch_sub(more);
      return false;
    }
    bytes_ = bytes;
    return true;
  }

 private:
  void release() {
    if (total_ && bytes_ > 0) total_->fetch_sub(bytes_);
    bytes_ = 0;
  }
  std::shared_ptr<std::atomic<size_t>> total_;
  size_t bytes_ = 0;
};

}  // namespace tandem::net
