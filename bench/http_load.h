#pragma once
// Clients for http_bench: plain sockets on one thread whose CPU time is known, so that what is left
// of the process's time is the server's.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::bench {

// CPU time in seconds: the program's own and what the kernel did for it.
struct CpuTime {
  double user = 0;
  double kernel = 0;

  double sum() const { return user + kernel; }
  CpuTime operator-(const CpuTime& other) const {
    return {user - other.user, kernel - other.kernel};
  }
  CpuTime operator*(double factor) const { return {user * factor, kernel * factor}; }
};

// `who`: RUSAGE_SELF or RUSAGE_THREAD.
inline CpuTime cpu_time(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

[[noreturn]] inline void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

// One keep-alive connection that sends the same request again and again.
class LoadClient {
 public:
  explicit LoadClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      give_up("connect");
  }
  LoadClient(LoadClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        streams_(other.streams_),
        answer_(std::move(other.answer_)) {}
  ~LoadClient() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }

  void send(std::string_view request) {
    answer_.clear();
    streams_ = false;
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size()))
      give_up("send");
  }

  // Takes what has come; true when the answer is whole.
  bool receive() {
    char buffer[65536];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) give_up("recv");
    answer_.append(buffer, static_cast<size_t>(n));
    const bool whole = is_whole();
    // Of a stream only its end matters; keeping it all would cost the server its caches.
    if (streams_ && answer_.size() > kEnd.size()) answer_.erase(0, answer_.size() - kEnd.size());
    return whole;
  }

 private:
  static constexpr std::string_view kEnd = "\r\n0\r\n\r\n";

  bool is_whole() {
    if (streams_) return answer_.ends_with(kEnd);
    const size_t end = answer_.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    if (!answer_.starts_with("HTTP/1.1 200")) {
      std::fprintf(stderr, "%s\n", answer_.c_str());
      std::exit(1);
    }
    const size_t length = answer_.find("content-length: ");
    if (length < end)
      return answer_.size() - end - 4 >= std::strtoul(answer_.c_str() + length + 16, nullptr, 10);
    streams_ = true;
    return answer_.ends_with(kEnd);
  }

  int fd_;
  bool streams_ = false;  // the head of a chunked answer was seen
  std::string answer_;
};

// Sends `request` `times` times on each of `connections`, one at a time on each. The server's CPU
// seconds: the process's without this thread's.
inline CpuTime run_load(uint16_t port, std::string_view request, int connections, int times) {
  std::vector<LoadClient> clients;
  std::vector<pollfd> waits;
  for (int i = 0; i < connections; ++i) {
    clients.emplace_back(port);
    waits.push_back({clients.back().fd(), POLLIN, 0});
  }
  std::vector<int> left(clients.size(), times);
  size_t open = clients.size();
  const CpuTime process = cpu_time(RUSAGE_SELF);
  const CpuTime own = cpu_time(RUSAGE_THREAD);
  for (LoadClient& client : clients) client.send(request);
  while (open > 0) {
    if (::poll(waits.data(), waits.size(), 60'000) <= 0) give_up("poll");
    for (size_t i = 0; i < clients.size(); ++i) {
      if (!(waits[i].revents & (POLLIN | POLLHUP | POLLERR)) || !clients[i].receive()) continue;
      if (--left[i] > 0) {
        clients[i].send(request);
      } else {
        waits[i].fd = -1;
        --open;
      }
    }
  }
  return (cpu_time(RUSAGE_SELF) - process) - (cpu_time(RUSAGE_THREAD) - own);
}

// What this machine's kernel takes to send `bytes` on one of `sockets` loopback connections, all in
// turn: what no server can go below.
inline CpuTime bare_send(size_t bytes, int sockets, int rounds) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener, sockets) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    give_up("listen");
  std::vector<LoadClient> clients;
  std::vector<int> servers;
  for (int i = 0; i < sockets; ++i) {
    clients.emplace_back(ntohs(address.sin_port));
    servers.push_back(::accept(listener, nullptr, nullptr));
    const int on = 1;
    ::setsockopt(servers.back(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  const std::string data(bytes, 'x');
  std::string sink(bytes, ' ');
  CpuTime total;
  for (int round = 0; round < rounds; ++round) {
    const CpuTime begin = cpu_time(RUSAGE_THREAD);
    for (const int server : servers)
      if (::send(server, data.data(), bytes, MSG_NOSIGNAL) <= 0) give_up("send");
    const CpuTime spent = cpu_time(RUSAGE_THREAD) - begin;
    total = {total.user + spent.user, total.kernel + spent.kernel};
    for (const LoadClient& client : clients)
      if (::recv(client.fd(), sink.data(), bytes, MSG_WAITALL) <= 0) give_up("recv");
  }
  for (const int server : servers) ::close(server);
  ::close(listener);
  return total * (1.0 / (static_cast<double>(sockets) * rounds));
}

}  // namespace tandem::bench
