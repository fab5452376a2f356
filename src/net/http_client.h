#pragma once
// A small blocking HTTP/1.1 client over plain TCP: for tests, command-line tools and the gateway's
// probes. Keeps its connection between requests and opens a new one when the old one has gone.
// One owner, one thread at a time. No redirects, no proxies, no TLS.
// Errors: kIo (cannot connect, connection cut), kTimeout, kCorruptData (not HTTP), kUnavailable
// (larger than the limits), kCancelled (the callback said stop). After an error the connection is
// closed and the next request opens a new one.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/http_message.h"

namespace tandem::net {

struct HttpClientOptions {
  std::string host = "127.0.0.1";  // name or address, without brackets
  uint16_t port = 8000;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds io_timeout{60'000};  // without a byte in the direction awaited
  size_t max_header_bytes = 64 * 1024;
  size_t max_body_bytes = 256 * 1024 * 1024;  // of bodies that are collected, not of streamed ones
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";  // path and query, already percent-encoded
  Headers headers;           // host, content-length and connection are set by the client
  std::string body;
};

// Called with the status and headers before the first piece of the body.
struct BodyCallbacks {
  std::function<bool(const Response& head)> on_head;
  // False ends the request (kCancelled) and closes the connection.
  std::function<bool(std::string_view piece)> on_piece;
};

class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  // The whole answer. Any status is a success.
  Expected<Response> request(const ClientRequest& request);
  // The body goes to `callbacks.on_piece` as it arrives; the result's body is empty.
  Expected<Response> stream(const ClientRequest& request, const BodyCallbacks& callbacks);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net
