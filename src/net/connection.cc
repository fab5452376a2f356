#include "net/connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>
#include <vector>

#include "base/log.h"

namespace tandem::net {
namespace {

// Only while the bound on pipelined bytes stops us from reading: the price of noticing a client
// that goes away then.
constexpr std::chrono::milliseconds kHangupCheckInterval{100};
constexpr std::chrono::milliseconds kDrainingLinger{200};  // a stopping server waits less
constexpr size_t kMaxBuffersPerWrite = 64;                 // one writev; Linux takes 1024

PeerAddress to_peer_address(const asio::ip::tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return {address.to_string(), endpoint.port()};
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, Socket socket)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      parser_(core_->shared->config.limits) {}

void Connection::start(bool refuse) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), refuse] { self->begin(refuse); });
}

// Weak: what is posted after the server stopped is never run, and must not keep itself alive.
void Connection::wake() {
  asio::post(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->advance_exchange();
  });
}

void Connection::drain() {
  asio::post(socket_.get_executor(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    const bool idle = self->state_ == State::kReading && !self->parser_.started();
    if (idle || self->state_ == State::kLingering) self->close_now(false);
  });
}

void Connection::abort() {
  asio::post(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close_now(true);
  });
}

void Connection::begin(bool refuse) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (error) return close_now(false);
  peer_ = to_peer_address(endpoint);
  read_deadline_ = Clock::now() + limits().idle_timeout;
  arm_timer();
  if (refuse) refuse_request(503, "too many connections");
  read_more();
}

// ------------------------------------------------------------------------------------------ input
void Connection::read_more() {
  if (reading_ || eof_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && backlog_.size() >= limits().max_pipelined_bytes) {
    hangup_check_at_ = Clock::now() + kHangupCheckInterval;
    return arm_timer();
  }
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(read_buffer_),
      [self = shared_from_this()](error_code error, size_t n) { self->on_read(error, n); });
}

void Connection::on_read(error_code error, size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error == asio::error::eof) return on_client_eof();
  if (error) {
    if (exchange_) ++core_->counters.client_closes;
    return close_now(false);
  }
  const std::string_view data(read_buffer_.data(), bytes);
  switch (state_) {
    case State::kReading:
      consume(data);
      break;
    case State::kAnswering:
      backlog_.append(data);
      break;
    case State::kLingering:
      lingered_bytes_ += bytes;
      if (lingered_bytes_ > limits().max_linger_bytes) return close_now(false);
      break;
    case State::kClosed:
      return;
  }
  read_more();
}

// A client that has shut its sending side may still read, so a short answer that is on its way is
// sent; but it looks like one that went away, so the engine is told, and no stream goes on.
void Connection::on_client_eof() {
  eof_ = true;
  hangup_check_at_ = kNever;
  if (state_ == State::kReading) return end_of_requests();
  if (state_ != State::kAnswering || !exchange_) return close_now(false);
  const Exchange::Progress progress = exchange_->progress();
  if (progress.ended) return;  // being sent
  ++core_->counters.client_closes;
  exchange_->half_close();
  advance_exchange();
}

// No request can follow. One that was cut is told so: who only shut the sending side can read it.
void Connection::end_of_requests() {
  if (!parser_.started()) return close_now(false);
  ++core_->counters.malformed;
  refuse_request(400, "the request ended before it was complete");
}

// ----------------------------------------------------------------------------------------- output
void Connection::pump() {
  if (writing_ || state_ == State::kClosed || state_ == State::kLingering) return;
  if (out_.empty() && exchange_) {
    std::vector<std::string> fresh;
    exchange_->take_output(fresh);
    for (std::string& text : fresh)
      if (!text.empty()) out_.push_back(std::move(text));
  }
  if (out_.empty()) return;
  std::vector<asio::const_buffer> buffers;
  for (const std::string& text : out_) {
    if (buffers.size() == kMaxBuffersPerWrite) break;
    buffers.push_back(asio::buffer(text));
  }
  buffers.front() += out_offset_;
  writing_ = true;
  write_deadline_ = Clock::now() + limits().write_timeout;
  arm_timer();
  socket_.async_write_some(buffers, [self = shared_from_this()](error_code error, size_t n) {
    self->on_written(error, n);
  });
}

void Connection::on_written(error_code error, size_t bytes) {
  writing_ = false;
  write_deadline_ = kNever;
  if (state_ == State::kClosed) return;
  if (error) {
    if (exchange_) ++core_->counters.client_closes;
    return close_now(false);
  }
  if (exchange_) exchange_->sent(bytes);
  while (bytes > 0) {
    const size_t left = out_.front().size() - out_offset_;
    if (bytes < left) {
      out_offset_ += bytes;
      break;
    }
    bytes -= left;
    out_offset_ = 0;
    out_.pop_front();
  }
  advance_exchange();
}

// Whatever happened to the exchange: send more, finish, or give up.
void Connection::advance_exchange() {
  if (state_ == State::kClosed) return;
  pump();
  if (!exchange_) return;
  // After pump(): what the writer does from there on wakes us again.
  const Exchange::Progress progress = exchange_->progress();
  if (progress.overflowed) {
    ++core_->counters.slow_readers;
    return close_now(true);
  }
  // The handler may have begun its stream in the moment in which the client left.
  const bool left_stream = eof_ && progress.streaming && !progress.ended;
  if (progress.stream_refused || left_stream) return close_now(false);
  // Not yet all sent; or queued just now, and the wake-up is under way.
  if (writing_ || !out_.empty() || progress.waiting) return;
  if (progress.ended) return finish_exchange(progress);
  if (!progress.dropped) return;
  if (progress.started || eof_) return close_now(progress.started);
  // No handler will answer. The wake-up that this causes sends it.
  exchange_->respond(error_answer(500, "the request got no answer"));
}

void Connection::finish_exchange(const Exchange::Progress& progress) {
  report_finished(progress, true);
  exchange_->close();
  exchange_ = nullptr;
  hangup_check_at_ = kNever;
  const bool last = progress.close_after || core_->shared->draining.load();
  if (eof_ && (last || backlog_.empty())) return close_now(false);
  if (last) return linger();
  state_ = State::kReading;
  in_headers_ = head_request_ = false;
  summary_ = {};
  read_deadline_ = Clock::now() + limits().idle_timeout;
  arm_timer();
  const std::string data = std::exchange(backlog_, {});
  consume(data);
  if (!eof_) return read_more();
  // What a client pipelined before it shut its sending side is still answered.
  if (state_ == State::kReading) return end_of_requests();
  if (!exchange_) return;
  exchange_->half_close();
  wake();
}

void Connection::report_finished(const Exchange::Progress& progress, bool complete) {
  const auto& finished = core_->shared->hooks.finished;
  if (!finished) return;
  try {
    finished(exchange_->summary(),
             {.status = progress.status,
              .complete = complete,
              .body_bytes = progress.body_bytes,
              .duration = Clock::now() - exchange_begin_});
  } catch (const std::exception& e) {
    log_error("the hook for finished requests threw: {}", log_safe(e.what()));
  }
}

// -------------------------------------------------------------------------------------------- end
// Says "no more" and reads on for a while: closing with unread input would reset the connection and
// could destroy the answer before the client has read it.
void Connection::linger() {
  state_ = State::kLingering;
  backlog_.clear();
  error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) return close_now(false);
  const bool draining = core_->shared->draining.load();
  read_deadline_ = Clock::now() + (draining ? std::min(kDrainingLinger, limits().linger_timeout)
                                            : limits().linger_timeout);
  arm_timer();
  read_more();
}

// `reset`: tell the client that an answer was cut off (a stream of HTTP/1.0 has no other sign), and
// drop what the kernel still holds for it.
void Connection::close_now(bool reset) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();
  error_code ignored;
  if (reset) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  timer_.cancel();
  if (exchange_) {
    report_finished(exchange_->progress(), false);
    exchange_->close();
    exchange_ = nullptr;
  }
  body_lease_ = {};
  core_->remove(self);
}

// ----------------------------------------------------------------------------------------- timers
// One timer for three deadlines. A deadline that moves later does not touch it; it fires early and
// is set again.
void Connection::arm_timer() {
  if (state_ == State::kClosed) return;
  const Time next = std::min({read_deadline_, write_deadline_, hangup_check_at_});
  if (next >= timer_at_) return;
  timer_at_ = next;
  timer_.expires_at(next);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->on_timer();
  });
}

void Connection::on_timer() {
  if (state_ == State::kClosed) return;
  timer_at_ = kNever;
  const Time now = Clock::now();
  if (now >= write_deadline_) {
    ++core_->counters.slow_readers;
    return close_now(true);
  }
  if (now >= hangup_check_at_) check_hangup(now);
  if (now >= read_deadline_ && state_ == State::kLingering) return close_now(false);
  if (now >= read_deadline_ && state_ == State::kReading) {
    if (!parser_.started()) return close_now(false);
    ++core_->counters.timeouts;
    refuse_request(408, "the request did not arrive in time");
  }
  arm_timer();
}

void Connection::check_hangup(Time now) {
  hangup_check_at_ = kNever;
  if (state_ != State::kAnswering) return;
  pollfd descriptor{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&descriptor, 1, 0) > 0) return on_client_eof();
  hangup_check_at_ = now + kHangupCheckInterval;
}

}  // namespace tandem::net
