#include "net/http_client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "base/log.h"

namespace tandem::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Stream = beast::basic_stream<asio::ip::tcp, asio::io_context::executor_type>;
using Parser = http::response_parser<http::buffer_body>;

constexpr size_t kPieceBytes = 64 * 1024;

Error to_error(const error_code& error, const std::string& what) {
  ErrorCode code = ErrorCode::kIo;
  if (error == beast::error::timeout)
    code = ErrorCode::kTimeout;
  else if (error == http::error::header_limit || error == http::error::body_limit)
    code = ErrorCode::kUnavailable;
  else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message)
    code = ErrorCode::kCorruptData;
  return Error{code, what + ": " + error.message(), {}};
}

}  // namespace

class HttpClient::Impl {
 public:
  explicit Impl(HttpClientOptions options) : options_(std::move(options)) {}

  Expected<Response> run(const ClientRequest& request, const BodyCallbacks* callbacks) {
    try {
      return run_with_retry(request, callbacks);
    } catch (const std::exception& e) {
      close();
      return fail(ErrorCode::kIo, "HTTP request failed: {}", log_safe(e.what()));
    }
  }

 private:
  Expected<Response> run_with_retry(const ClientRequest& request, const BodyCallbacks* callbacks) {
    const bool reused = stream_.has_value();
    got_bytes_ = false;
    Expected<Response> result = run_once(request, callbacks);
    // The server may have closed an idle connection just now; then it has not seen the request.
    if (!result && reused && !got_bytes_ && result.error().code == ErrorCode::kIo)
      result = run_once(request, callbacks);
    return result;
  }

  Expected<Response> run_once(const ClientRequest& request, const BodyCallbacks* callbacks) {
    Expected<Response> result = exchange(request, callbacks);
    if (!result || result->close) close();
    return result;
  }

  Expected<Response> exchange(const ClientRequest& request, const BodyCallbacks* callbacks) {
    if (!stream_) TANDEM_TRY(connect());
    TANDEM_TRY(send(request));
    Parser parser;
    parser.header_limit(
        static_cast<uint32_t>(std::min<size_t>(options_.max_header_bytes, UINT32_MAX)));
    parser.body_limit(boost::none);  // counted below, or the callback's business
    parser.skip(request.method == "HEAD");
    TANDEM_ASSIGN(Response response, read_head(parser));
    if (callbacks && callbacks->on_head && !callbacks->on_head(response))
      return fail(ErrorCode::kCancelled, "the HTTP request was ended by its caller");
    TANDEM_TRY(read_body(parser, response, callbacks));
    response.close = !parser.get().keep_alive();
    return response;
  }

  // Runs the operation that `start` begins to its end; the stream's own timer bounds it.
  template <class Start>
  error_code wait_for(std::chrono::milliseconds timeout, const Start& start) {
    error_code result;
    stream_->expires_after(timeout);
    start([&result](error_code error, auto&&...) { result = error; });
    io_.restart();
    io_.run();
    return result;
  }

  Expected<void> connect() {
    error_code error;
    asio::ip::tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port), error);
    if (error) return fail(to_error(error, "cannot resolve '" + log_safe(options_.host) + "'"));
    stream_.emplace(io_.get_executor());
    error = wait_for(options_.connect_timeout,
                     [&](auto done) { stream_->async_connect(found, std::move(done)); });
    if (!error) stream_->socket().set_option(asio::ip::tcp::no_delay(true), error);
    if (error)
      return fail(to_error(
          error,
          fmt::format("cannot connect to {} port {}", log_safe(options_.host), options_.port)));
    return {};
  }

  Expected<void> send(const ClientRequest& request) {
    http::request<http::string_body> message;
    message.method_string(request.method);
    message.target(request.target);
    message.version(11);
    const bool v6 = options_.host.find(':') != std::string::npos;
    message.set(
        http::field::host,
        fmt::format("{}{}{}:{}", v6 ? "[" : "", options_.host, v6 ? "]" : "", options_.port));
    for (const Header& header : request.headers) {
      const std::string name = to_lower_ascii(header.name);
      if (!is_token(name) || header.value.find_first_of("\r\n") != std::string::npos)
        return fail(ErrorCode::kInvalidArgument, "the header '{}' is malformed", log_safe(name));
      if (name != "host" && name != "content-length" && name != "connection")
        message.insert(name, header.value);
    }
    message.body() = request.body;
    if (!request.body.empty() || request.method == "POST" || request.method == "PUT")
      message.content_length(request.body.size());
    const error_code error = wait_for(options_.io_timeout, [&](auto done) {
      http::async_write(*stream_, message, std::move(done));
    });
    // A server that refuses a body early answers and stops reading: look for its answer.
    if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset)
      return fail(to_error(error, "cannot send the HTTP request"));
    return {};
  }

  Expected<Response> read_head(Parser& parser) {
    const error_code error = wait_for(options_.io_timeout, [&](auto done) {
      http::async_read_header(*stream_, buffer_, parser, std::move(done));
    });
    got_bytes_ = parser.got_some();
    if (error) return fail(to_error(error, "no HTTP answer"));
    Response response;
    response.status = static_cast<int>(parser.get().result_int());
    for (const auto& field : parser.get().base())
      response.headers.push_back(
          {to_lower_ascii(std::string_view(field.name_string())), std::string(field.value())});
    return response;
  }

  Expected<void> read_body(Parser& parser, Response& response, const BodyCallbacks* callbacks) {
    std::string piece(kPieceBytes, '\0');
    while (!parser.is_done()) {
      parser.get().body() = {.data = piece.data(), .size = piece.size(), .more = true};
      const error_code error = wait_for(options_.io_timeout, [&](auto done) {
        http::async_read_some(*stream_, buffer_, parser, std::move(done));
      });
      const size_t count = piece.size() - parser.get().body().size;
      const std::string_view data(piece.data(), count);
      if (callbacks && callbacks->on_piece && count > 0 && !callbacks->on_piece(data))
        return fail(ErrorCode::kCancelled, "the HTTP request was ended by its caller");
      if (!callbacks) {
        if (response.body.size() + count > options_.max_body_bytes)
          return fail(ErrorCode::kUnavailable, "the HTTP answer is larger than the limit");
        response.body += data;
      }
      if (error && error != http::error::need_buffer)
        return fail(to_error(error, "the HTTP answer was cut off"));
    }
    return {};
  }

  void close() {
    stream_.reset();
    buffer_.clear();
  }

  HttpClientOptions options_;
  asio::io_context io_{1};
  std::optional<Stream> stream_;
  beast::flat_buffer buffer_{kPieceBytes + 1024 * 1024};
  bool got_bytes_ = false;
};

HttpClient::HttpClient(HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Expected<Response> HttpClient::request(const ClientRequest& request) {
  return impl_->run(request, nullptr);
}

Expected<Response> HttpClient::stream(const ClientRequest& request,
                                      const BodyCallbacks& callbacks) {
  return impl_->run(request, &callbacks);
}

}  // namespace tandem::net
