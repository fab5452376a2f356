#pragma once
// For the tests of net: a raw socket that can do what a proper client never does, and a server on a
// free loopback port.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "net/http_server.h"

namespace tandem::net {

using std::chrono::milliseconds;

inline milliseconds since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
}

// Polls `condition` for up to `timeout`.
template <class Condition>
bool eventually(const Condition& condition, milliseconds timeout = milliseconds(5000)) {
  const auto begin = std::chrono::steady_clock::now();
  while (!condition()) {
    if (since(begin) > timeout) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

class RawSocket {
 public:
  explicit RawSocket(uint16_t port, int receive_buffer_bytes = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer_bytes > 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawSocket() { close(); }
  RawSocket(RawSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        connected_(other.connected_),
        pending_(std::move(other.pending_)) {}

  bool connected() const { return connected_; }
  // False when the server has cut the connection.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void shut_sending() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

  // Reads once; false at the end of the connection or after `timeout`.
  bool receive(milliseconds timeout) {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(timeout.count())) <= 0) return false;
    char buffer[65536];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    pending_.append(buffer, static_cast<size_t>(n));
    return true;
  }
  // Everything until the server closes; `ended()` says whether it did.
  std::string read_to_end(milliseconds timeout = milliseconds(5000)) {
    const auto begin = std::chrono::steady_clock::now();
    while (!ended_ && since(begin) < timeout) receive(timeout);
    return std::exchange(pending_, {});
  }
  bool ended() const { return ended_; }
  // Up to and including `mark`; empty when it does not come.
  std::string read_until(std::string_view mark, milliseconds timeout = milliseconds(5000)) {
    size_t found = 0;
    while ((found = pending_.find(mark)) == std::string::npos)
      if (!receive(timeout)) return {};
    return take(found + mark.size());
  }
  // One response with a content-length (or without any body for `head_request`).
  std::string read_response(bool head_request = false) {
    std::string head = read_until("\r\n\r\n");
    const size_t at = head.find("content-length: ");
    if (head_request || at == std::string::npos) return head;
    const size_t length = std::stoul(head.substr(at + 16));
    while (pending_.size() < length)
      if (!receive(milliseconds(5000))) return {};
    return head + take(length);
  }

 private:
  std::string take(size_t count) {
    std::string out = pending_.substr(0, count);
    pending_.erase(0, count);
    return out;
  }
  int fd_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string pending_;
};

inline int status_of(std::string_view response) {
  if (!response.starts_with("HTTP/1.1 ") || response.size() < 12) return 0;
  return std::stoi(std::string(response.substr(9, 3)));
}

inline std::string get_request(std::string_view path, std::string_view extra_headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(extra_headers) +
         "\r\n";
}
inline std::string post_request(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

// Entries of a directory of /proc/self: "fd" or "task".
inline size_t count_own(const char* what) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(std::string("/proc/self/") + what))
    ++count;
  return count;
}

// Routes that most tests use: /echo answers method, path, query and body.
inline Router echo_router() {
  Router router;
  const Handler echo = [](Request request, ResponseWriter writer) {
    writer.respond(
        {.status = 200,
         .headers = {{"content-type", "text/plain"}},
         .body = request.method + " " + request.path + " " + request.query + " " + request.body});
  };
  router.add("GET", "/echo", echo);
  router.add("POST", "/echo", echo);
  router.add("GET", "/items/{id}", [](Request request, ResponseWriter writer) {
    writer.respond({.body = std::string(request.path_param("id"))});
  });
  return router;
}

struct TestServer {
  explicit TestServer(Router router, HttpServerConfig config = {}, HttpHooks hooks = {}) {
    config.port = 0;
    server = std::make_unique<HttpServer>(config, std::move(router), std::move(hooks));
    auto started = server->start();
    EXPECT_TRUE(started) << started.error().to_line();
    port = started.value_or(0);
  }
  RawSocket connect(int receive_buffer_bytes = 0) const {
    return RawSocket(port, receive_buffer_bytes);
  }
  std::unique_ptr<HttpServer> server;
  uint16_t port = 0;
};

}  // namespace tandem::net
