#pragma once
// Listening sockets of a server. Private to net; includes Asio.

#include <memory>
#include <vector>

#include "base/error.h"
#include "net/server_core.h"

namespace tandem::net {

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // One for each address of the configured host, all on one port. The core outlives them.
  static Expected<std::vector<std::shared_ptr<Listener>>> open_all(
      const std::shared_ptr<ServerCore>& core);

  explicit Listener(const std::shared_ptr<ServerCore>& core);
  uint16_t port() const { return port_; }
  // Before the I/O threads start, or on the strand.
  void accept_next();
  void close();
  // Any thread but an I/O thread, while those run; returns when no accept is pending or will be.
  void close_and_wait();

 private:
  Expected<void> open(const asio::ip::tcp::endpoint& endpoint, int backlog);
  void on_accept(error_code error, Socket socket);

  std::weak_ptr<ServerCore> core_;
  asio::io_context& io_;
  Acceptor acceptor_;
  Timer retry_;
  uint16_t port_ = 0;
};

}  // namespace tandem::net
