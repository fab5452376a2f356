#pragma once
// Clients for http_bench: plain sockets on one thread whose CPU time is known, so that what is left
// of the process's time is the server's.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::bench {

inline double cpu_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
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
      : fd_(std::exchange(other.fd_, -1)), answer_(std::move(other.answer_)) {}
  ~LoadClient() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }

  void send(std::string_view request) {
    answer_.clear();
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
    return is_whole();
  }

  const std::string& answer() const { return answer_; }

 private:
  bool is_whole() const {
    const size_t end = answer_.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    if (!answer_.starts_with("HTTP/1.1 200")) {
      std::fprintf(stderr, "%s\n", answer_.c_str());
      std::exit(1);
    }
    const size_t length = answer_.find("content-length: ");
    if (length < end)
      return answer_.size() - end - 4 >= std::strtoul(answer_.c_str() + length + 16, nullptr, 10);
    return answer_.ends_with("\r\n0\r\n\r\n");
  }

  int fd_;
  std::string answer_;
};

// Sends `request` `times` times on each of `connections`, one at a time on each. The server's CPU
// seconds: the process's without this thread's.
inline double run_load(uint16_t port, std::string_view request, int connections, int times) {
  std::vector<LoadClient> clients;
  std::vector<pollfd> waits;
  for (int i = 0; i < connections; ++i) {
    clients.emplace_back(port);
    waits.push_back({clients.back().fd(), POLLIN, 0});
  }
  std::vector<int> left(clients.size(), times);
  size_t open = clients.size();
  const double process = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double own = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
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
  return (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - process) -
         (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - own);
}

}  // namespace tandem::bench
