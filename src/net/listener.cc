#include "net/listener.h"

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

#include "base/log.h"

namespace tandem::net {
namespace {

using asio::ip::tcp;

// After "too many open files": long enough not to spin, short enough not to be noticed much.
constexpr std::chrono::milliseconds kAcceptRetry{200};

std::unexpected<Error> listen_error(const tcp::endpoint& endpoint, const error_code& error) {
  const std::string host = endpoint.address().to_string();
  if (error == asio::error::address_in_use)
    return fail(Error{ErrorCode::kUnavailable,
                      fmt::format("port {} on {} is already in use", endpoint.port(), host),
                      "stop the program that listens there, or choose another port"});
  if (error == asio::error::access_denied)
    return fail(Error{ErrorCode::kIo,
                      fmt::format("not allowed to listen on {} port {}", host, endpoint.port()),
                      "ports below 1024 need a privilege; choose a higher one"});
  return fail(
      Error{ErrorCode::kIo,
            fmt::format("cannot listen on {} port {}: {}", host, endpoint.port(), error.message()),
            "give an address of this machine as host"});
}

Expected<std::vector<tcp::endpoint>> resolve(asio::io_context& io, const HttpServerConfig& config) {
  const std::string host = config.host.empty() ? "0.0.0.0" : config.host;
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return std::vector{tcp::endpoint(address, config.port)};
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, "", tcp::resolver::passive, error);
  if (error || found.empty())
    return fail(Error{
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the host '{}' is not an address and has none: {}", log_safe(host), error.message()),
        "give an IPv4 or IPv6 address, or a name of this machine"});
  std::vector<tcp::endpoint> out;
  for (const auto& entry : found) {
    const tcp::endpoint endpoint(entry.endpoint().address(), config.port);
    if (std::find(out.begin(), out.end(), endpoint) == out.end()) out.push_back(endpoint);
  }
  return out;
}

}  // namespace

Listener::Listener(const std::shared_ptr<ServerCore>& core)
    : core_(core),
      io_(core->io),
      acceptor_(asio::make_strand(core->io)),
      retry_(acceptor_.get_executor()) {}

Expected<std::vector<std::shared_ptr<Listener>>> Listener::open_all(
    const std::shared_ptr<ServerCore>& core) {
  const HttpServerConfig& config = core->shared->config;
  TANDEM_ASSIGN(std::vector<tcp::endpoint> endpoints, resolve(core->io, config));
  std::vector<std::shared_ptr<Listener>> out;
  Error last_error;
  for (tcp::endpoint& endpoint : endpoints) {
    // A free port that the first address got is taken for all.
    if (!out.empty()) endpoint.port(out.front()->port());
    auto listener = std::make_shared<Listener>(core);
    if (auto opened = listener->open(endpoint, config.listen_backlog); !opened) {
      last_error = std::move(opened).error();
      // A name may have addresses that this machine lacks (localhost without IPv6).
      if (last_error.code == ErrorCode::kUnavailable || endpoints.size() == 1)
        return fail(std::move(last_error));
      continue;
    }
    out.push_back(std::move(listener));
  }
  if (out.empty()) return fail(std::move(last_error));
  return out;
}

Expected<void> Listener::open(const tcp::endpoint& endpoint, int backlog) {
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) {
    const bool only_v6 = !endpoint.address().is_unspecified();
    acceptor_.set_option(asio::ip::v6_only(only_v6), error);
  }
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(backlog, error);
  if (error) return listen_error(endpoint, error);
  const tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error) return listen_error(endpoint, error);
  port_ = bound.port();
  return {};
}

void Listener::accept_next() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_accept(asio::make_strand(io_),
                         [self = shared_from_this()](error_code error, Socket socket) {
                           self->on_accept(error, std::move(socket));
                         });
}

void Listener::on_accept(error_code error, Socket socket) {
  const auto core = core_.lock();
  if (!core || !acceptor_.is_open()) return;
  if (!error) ServerCore::adopt(core, std::move(socket));
  const bool transient =
      !error || error == asio::error::connection_aborted || error == asio::error::interrupted;
  if (transient) return accept_next();
  log_warning("cannot accept a connection: {}", log_safe(error.message()));
  retry_.expires_after(kAcceptRetry);
  retry_.async_wait([self = shared_from_this()](error_code) { self->accept_next(); });
}

void Listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

void Listener::close_and_wait() {
  std::promise<void> closed;
  asio::post(acceptor_.get_executor(), [&] {
    close();
    closed.set_value();
  });
  closed.get_future().wait();
}

}  // namespace tandem::net
