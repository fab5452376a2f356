#pragma once
// Which web pages may use the server (the Fetch standard's CORS): vLLM's flags and defaults, which
// let every page ask but send no credentials. Pure; any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace tandem::serve {

struct CorsConfig {
  // {"*"} = all of them.
  std::vector<std::string> origins = {"*"};
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> headers = {"*"};
  bool credentials = false;
};

// The answer to a preflight: OPTIONS with Origin and Access-Control-Request-Method. None for other
// requests. 400 if the origin, the method or a header is not allowed.
std::optional<net::Response> answer_preflight(const CorsConfig& config,
                                              const net::Request& request);

// Adds what an answer to `origin` needs; nothing for an empty or foreign one.
void add_cors_headers(const CorsConfig& config, std::string_view origin, net::Headers& headers);

}  // namespace tandem::serve
