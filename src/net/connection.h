#pragma once
// One client connection: reads requests, one at a time and in order, and sends their answers.
// Private to net. All state belongs to the socket's strand; wake(), drain() and abort() may be
// called from any thread and only post there.
// While an answer is pending it keeps reading, up to a bound, so that it sees the client go away at
// once; what it reads then is the beginning of the next requests.

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/request_parser.h"
#include "net/server_core.h"

namespace tandem::net {

class Connection final : public ExchangeOwner, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, Socket socket);

  // `refuse`: too many connections; answer 503 and close.
  void start(bool refuse);
  void wake() override;
  // The server stops: close now if idle, else after the pending answer.
  void drain();
  void abort();

 private:
  enum class State { kReading, kAnswering, kLingering, kClosed };
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  static constexpr Time kNever = Time::max();

  // connection.cc: bytes in and out, deadlines, the end.
  void begin(bool refuse);
  void read_more();
  void on_read(error_code error, size_t bytes);
  void on_client_eof();
  void end_of_requests();
  void pump();
  void on_written(error_code error, size_t bytes);
  void advance_exchange();
  void finish_exchange(const Exchange::Progress& progress);
  void report_finished(const Exchange::Progress& progress, bool complete);
  void linger();
  void close_now(bool reset);
  void arm_timer();
  void on_timer();
  void check_hangup(Time now);

  // connection_request.cc: from bytes to a handler.
  void consume(std::string_view data);
  void note_read_progress();
  void on_head();
  std::optional<Response> early_answer(const RequestHead& head);
  void dispatch();
  void submit();
  void refuse_request(int status, std::string_view reason);
  void begin_exchange(bool keep_alive);
  Response error_answer(int status, std::string_view reason) const;
  const HttpLimits& limits() const { return core_->shared->config.limits; }

  const std::shared_ptr<ServerCore> core_;
  Socket socket_;
  Timer timer_;
  PeerAddress peer_;
  State state_ = State::kReading;

  std::array<char, 16 * 1024> read_buffer_;
  bool reading_ = false;
  bool eof_ = false;
  std::string backlog_;  // read while an answer was pending
  size_t lingered_bytes_ = 0;

  RequestParser parser_;
  bool in_headers_ = false;  // the header deadline runs
  Time body_begin_{};
  Request request_;
  RequestSummary summary_;
  bool head_request_ = false;
  const Handler* handler_ = nullptr;
  std::optional<Response> held_answer_;  // decided from the headers, sent after the body
  BodyLease body_lease_;

  std::shared_ptr<Exchange> exchange_;
  Time exchange_begin_{};
  std::deque<std::string> out_;
  size_t out_offset_ = 0;  // sent bytes of out_.front()
  bool writing_ = false;

  Time read_deadline_ = kNever;
  Time write_deadline_ = kNever;
  Time hangup_check_at_ = kNever;
  Time timer_at_ = kNever;
};

}  // namespace tandem::net
