#include "net/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace tandem::net {
namespace {

// RFC 9110 §5.6.7; not strftime, whose names depend on the locale.
std::string http_date() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = static_cast<std::time_t>(unix_seconds());
  std::tm t{};
  gmtime_r(&now, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[t.tm_wday],
                     t.tm_mday,
                     kMonths[t.tm_mon],
                     t.tm_year + 1900,
                     t.tm_hour,
                     t.tm_min,
                     t.tm_sec);
}

bool belongs_to_server(std::string_view lower_name) {
  return lower_name == "content-length" || lower_name == "transfer-encoding" ||
         lower_name == "connection" || lower_name == "date";
}

// A value may come from a client by way of a handler; it must not end the line.
std::string one_line(std::string_view value) {
  std::string out(value);
  for (char& c : out)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) c = ' ';
  return out;
}

}  // namespace

Response HttpShared::error_response(int status,
                                    std::string_view reason,
                                    const RequestSummary& summary) const {
  if (hooks.error_response) {
    try {
      return hooks.error_response(status, reason, summary);
    } catch (const std::exception& e) {
      log_error("the error hook threw: {}", log_safe(e.what()));
    }
  }
  return Response{.status = status,
                  .headers = {{"content-type", "text/plain; charset=utf-8"}},
                  .body = std::string(reason) + "\n"};
}

Exchange::Exchange(std::shared_ptr<const HttpShared> shared,
                   std::weak_ptr<ExchangeOwner> owner,
                   ExchangeFacts facts)
    : shared_(std::move(shared)), owner_(std::move(owner)), facts_(std::move(facts)) {}

bool Exchange::body_allowed(int status) const {
  return !facts_.head_request && status >= 200 && status != 204 && status != 304;
}

std::string Exchange::build_head(int status,
                                 const Headers& headers,
                                 const std::string& framing) const {
  std::string out = fmt::format(
      "HTTP/1.1 {} {}\r\ndate: {}\r\n{}", status, reason_phrase(status), http_date(), framing);
  if (close_after_) out += "connection: close\r\n";
  if (shared_->config.echo_request_id && !facts_.summary.request_id.empty())
    out += "x-request-id: " + facts_.summary.request_id + "\r\n";
  for (const Header& header : headers) {
    const std::string name = to_lower_ascii(header.name);
    if (!is_token(name) || belongs_to_server(name)) continue;
    out += name + ": " + one_line(header.value) + "\r\n";
  }
  out += "\r\n";
  return out;
}

void Exchange::decorate(int status, Headers& headers) const {
  if (!shared_->hooks.decorate) return;
  try {
    shared_->hooks.decorate(facts_.summary, status, headers);
  } catch (const std::exception& e) {
    log_error("the header hook threw: {}", log_safe(e.what()));
  }
}

void Exchange::push(std::string text) {
  queued_bytes_ += text.size();
  output_.push_back(std::move(text));
}

// Calls the owner without the lock, once until it looks.
void Exchange::wake(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(wake_pending_, true)) return;
  lock.unlock();
  if (const auto owner = owner_.lock()) owner->wake();
}

bool Exchange::respond(Response response) {
  std::unique_lock lock(mutex_);
  if (closed_ || state_ != State::kNew) return false;
  decorate(response.status, response.headers);
  close_after_ = !facts_.keep_alive || response.close || shared_->draining.load();
  status_ = response.status;
  const bool no_length = status_ < 200 || status_ == 204 || status_ == 304;
  const std::string framing =
      no_length ? std::string() : fmt::format("content-length: {}\r\n", response.body.size());
  push(build_head(status_, response.headers, framing));
  if (body_allowed(status_) && !response.body.empty()) {
    body_bytes_ = response.body.size();
    push(std::move(response.body));
  }
  state_ = State::kEnded;
  // Destroyed outside the lock: they may hold the last of something.
  const auto unused_callbacks = std::exchange(close_callbacks_, {});
  wake(lock);
  if (lock.owns_lock()) lock.unlock();
  return true;
}

bool Exchange::begin_stream(int status, Headers headers) {
  std::unique_lock lock(mutex_);
  if (closed_ || half_closed_ || state_ != State::kNew) return false;
  decorate(status, headers);
  send_body_ = body_allowed(status);
  chunked_ = facts_.version_minor == 1 && status >= 200 && status != 204 && status != 304;
  close_after_ = !facts_.keep_alive || facts_.version_minor == 0 || shared_->draining.load();
  status_ = status;
  streaming_ = true;
  push(build_head(status, headers, chunked_ ? "transfer-encoding: chunked\r\n" : ""));
  state_ = State::kStreaming;
  wake(lock);
  return true;
}

bool Exchange::write(std::string_view piece) {
  std::unique_lock lock(mutex_);
  if (closed_ || half_closed_ || overflowed_ || state_ != State::kStreaming) return false;
  if (piece.empty() || !send_body_) return true;
  // Before adding, so that one piece of any size passes when the client keeps up.
  if (queued_bytes_ >= shared_->config.limits.max_queued_bytes) {
    overflowed_ = true;
    wake_pending_ = false;
    wake(lock);
    return false;
  }
  body_bytes_ += piece.size();
  if (chunked_) {
    std::string framed = fmt::format("{:x}\r\n", piece.size());
    framed.reserve(framed.size() + piece.size() + 2);
    framed += piece;
    framed += "\r\n";
    push(std::move(framed));
  } else {
    push(std::string(piece));
  }
  wake(lock);
  return true;
}

bool Exchange::end() {
  std::unique_lock lock(mutex_);
  if (closed_ || half_closed_ || overflowed_ || state_ != State::kStreaming) return false;
  if (chunked_ && send_body_) push("0\r\n\r\n");
  state_ = State::kEnded;
  const auto unused_callbacks = std::exchange(close_callbacks_, {});
  wake(lock);
  if (lock.owns_lock()) lock.unlock();
  return true;
}

bool Exchange::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_ || half_closed_ || overflowed_;
}

bool Exchange::is_cut() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Exchange::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    if (!closed_ && !half_closed_ && !overflowed_) {
      close_callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

size_t Exchange::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return queued_bytes_;
}

void Exchange::dropped() {
  std::unique_lock lock(mutex_);
  dropped_ = true;
  const auto unused_callbacks = std::exchange(close_callbacks_, {});
  if (!closed_ && state_ != State::kEnded) wake(lock);
  if (lock.owns_lock()) lock.unlock();
}

Exchange::Progress Exchange::progress() const {
  const std::lock_guard lock(mutex_);
  return {.streaming = streaming_,
          .started = state_ != State::kNew,
          .ended = state_ == State::kEnded,
          .dropped = dropped_,
          .overflowed = overflowed_,
          .close_after = close_after_,
          .status = status_,
          .body_bytes = body_bytes_};
}

void Exchange::take_output(std::vector<std::string>& out) {
  const std::lock_guard lock(mutex_);
  wake_pending_ = false;
  for (std::string& text : output_) out.push_back(std::move(text));
  output_.clear();
}

void Exchange::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  queued_bytes_ -= std::min(bytes, queued_bytes_);
}

void Exchange::run_close_callbacks(std::unique_lock<std::mutex>& lock) {
  const auto callbacks = std::exchange(close_callbacks_, {});
  lock.unlock();
  for (const auto& callback : callbacks) callback();
}

void Exchange::half_close() {
  std::unique_lock lock(mutex_);
  half_closed_ = true;
  run_close_callbacks(lock);
}

void Exchange::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  output_.clear();
  run_close_callbacks(lock);
}

}  // namespace tandem::net
