// The way of a request through its connection: parse, decide from the headers, read the body, hand
// to a worker.
#include <exception>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "net/connection.h"

namespace tandem::net {
namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool has_content_coding(const Headers& headers) {
  for (const std::string& coding : list_elements(headers, "content-encoding"))
    if (coding != "identity") return true;
  return false;
}

}  // namespace

void Connection::consume(std::string_view data) {
  while (state_ == State::kReading && !data.empty()) {
    data.remove_prefix(parser_.feed(data));
    if (parser_.state() == RequestParser::State::kHeadDone) on_head();
    if (state_ != State::kReading) break;
    if (parser_.state() == RequestParser::State::kError) {
      ++core_->counters.malformed;
      const ParseError error = parser_.error();
      refuse_request(error.status, error.reason);
    } else if (!body_lease_.grow_to(parser_.body().size(), limits().max_total_body_bytes)) {
      refuse_request(503, "too many large requests at once");
    } else if (parser_.state() == RequestParser::State::kDone) {
      dispatch();
    }
  }
  if (state_ == State::kAnswering) backlog_.append(data);
  if (state_ == State::kReading) note_read_progress();
}

void Connection::note_read_progress() {
  const Time now = Clock::now();
  if (parser_.state() == RequestParser::State::kBody) {
    const std::chrono::milliseconds earned(parser_.body_bytes() * 1000 /
                                           std::max<size_t>(limits().min_body_bytes_per_s, 1));
    read_deadline_ = body_begin_ + limits().body_timeout + earned;
  } else if (parser_.started() && !in_headers_) {
    in_headers_ = true;
    read_deadline_ = now + limits().header_timeout;
  }
  arm_timer();
}

void Connection::on_head() {
  RequestHead& head = parser_.head();
  head_request_ = head.method == "HEAD";
  request_ = Request{.method = head.method,
                     .path = std::move(head.target.path),
                     .query = std::move(head.target.query),
                     .host = std::move(head.host),
                     .headers = std::move(head.headers),
                     .body = {},
                     .path_params = {},
                     .peer = peer_,
                     .request_id = {},
                     .version_minor = head.version_minor};
  const auto label = request_.header("x-request-id");
  request_.request_id = label && is_valid_request_id(*label) ? std::string(*label) : random_id();
  summary_ = {.method = request_.method,
              .path = request_.path,
              .route = {},
              .origin = std::string(request_.header("origin").value_or("")),
              .request_id = request_.request_id};
  body_begin_ = Clock::now();
  body_lease_ = BodyLease(core_->body_bytes);
  handler_ = nullptr;
  held_answer_ = early_answer(head);
  if (head.expects_continue && head.has_body()) {
    if (held_answer_) {
      // The body may never come, or may be on its way: the connection cannot go on.
      begin_exchange(false);
      exchange_->respond(std::move(*held_answer_));
      held_answer_.reset();
      return;
    }
    out_.emplace_back(kContinue);
    pump();
    if (state_ != State::kReading) return;
  }
  parser_.continue_to_body(!held_answer_);
}

// What can be said before the body is read.
std::optional<Response> Connection::early_answer(const RequestHead& head) {
  if (const auto& intercept = core_->shared->hooks.intercept) {
    try {
      if (auto answer = intercept(request_)) return answer;
    } catch (const std::exception& e) {
      log_error("the hook for new requests threw: {}", log_safe(e.what()));
      return error_answer(500, "internal error");
    }
  }
  if (head.unknown_expectation) return error_answer(417, "only 'Expect: 100-continue' is known");
  // Asks about the server as a whole.
  if (request_.path == "*") return Response{.status = 204};
  Router::Match match = core_->router.match(request_.method, request_.path);
  if (match.allow.empty()) return error_answer(404, "there is no such path");
  summary_.route = match.pattern;
  if (match.handler == nullptr) {
    Response answer = request_.method == "OPTIONS"
                          ? Response{.status = 204}
                          : error_answer(405, "the path does not have this method");
    answer.headers.push_back({"allow", match.allow + ", OPTIONS"});
    return answer;
  }
  if (has_content_coding(request_.headers))
    return error_answer(415, "a Content-Encoding is not accepted");
  request_.path_params = std::move(match.path_params);
  handler_ = match.handler;
  return std::nullopt;
}

Response Connection::error_answer(int status, std::string_view reason) const {
  return core_->shared->error_response(status, reason, summary_);
}

void Connection::begin_exchange(bool keep_alive) {
  state_ = State::kAnswering;
  read_deadline_ = kNever;
  exchange_begin_ = Clock::now();
  exchange_ = std::make_shared<Exchange>(core_->shared,
                                         weak_from_this(),
                                         ExchangeFacts{.summary = summary_,
                                                       .head_request = head_request_,
                                                       .version_minor = request_.version_minor,
                                                       .keep_alive = keep_alive});
}

void Connection::dispatch() {
  ++core_->counters.requests;
  request_.body = std::move(parser_.body());
  begin_exchange(parser_.head().keep_alive);
  parser_.reset();
  if (held_answer_) {
    exchange_->respond(std::move(*held_answer_));
    held_answer_.reset();
    body_lease_ = {};
    return;
  }
  submit();
}

void Connection::submit() {
  WorkerPool::Job job = [handler = handler_,
                         exchange = exchange_,
                         request = std::move(request_),
                         writer = ResponseWriter(exchange_),
                         lease = std::move(body_lease_)]() mutable {
    if (exchange->is_cut()) return;
    try {
      (*handler)(std::move(request), std::move(writer));
    } catch (const std::exception& e) {
      log_error("a handler threw: {}", log_safe(e.what()));
    } catch (...) {
      log_error("a handler threw something that is no exception");
    }
  };
  request_ = {};
  if (core_->workers.try_submit(job)) return;
  Response answer = error_answer(503, "the server is busy");
  answer.headers.push_back({"retry-after", "1"});
  exchange_->respond(std::move(answer));
}

// Answers and closes: after this nobody knows where the next request would begin.
void Connection::refuse_request(int status, std::string_view reason) {
  if (summary_.request_id.empty()) summary_.request_id = random_id();
  Response answer = error_answer(status, reason);
  if (status == 503) answer.headers.push_back({"retry-after", "1"});
  begin_exchange(false);
  body_lease_ = {};
  held_answer_.reset();
  exchange_->respond(std::move(answer));
}

}  // namespace tandem::net
