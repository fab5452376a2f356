#include "serve/access.h"

#include "serve/api_error.h"

namespace tandem::serve {
namespace {

bool is_open(const AccessConfig& config, const net::Request& request) {
  if (request.method == "OPTIONS") return true;
  if (request.path == "/metrics") return config.metrics_open;
  return request.path == "/health" || request.path == "/ready" || request.path == "/ping";
}

}  // namespace

std::optional<net::Response> refuse_without_key(const AccessConfig& config,
                                                const net::Request& request) {
  if (config.keys.empty() || is_open(config, request)) return std::nullopt;
  if (config.keys.accept(request.headers)) return std::nullopt;
  net::Response answer =
      error_response(401, "a valid API key is needed, as the header 'Authorization: Bearer KEY'");
  answer.headers.push_back({"www-authenticate", "Bearer"});
  return answer;
}

}  // namespace tandem::serve
