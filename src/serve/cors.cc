#include "serve/cors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "serve/api_error.h"

namespace tandem::serve {
namespace {

constexpr std::string_view kAllMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
constexpr std::string_view kMaxAgeSeconds = "600";

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
    return entry == "*" || entry == wanted;
  });
}

bool allows_all(const std::vector<std::string>& list) {
  return std::find(list.begin(), list.end(), "*") != list.end();
}

bool has_ignoring_case(const std::vector<std::string>& list, std::string_view wanted) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
    return entry == "*" || net::equals_ignoring_case(entry, wanted);
  });
}

// Fetch lets these through without asking.
bool is_safelisted(std::string_view lower_name) {
  return lower_name == "accept" || lower_name == "accept-language" ||
         lower_name == "content-language" || lower_name == "content-type";
}

std::string allowed_methods(const CorsConfig& config) {
  return allows_all(config.methods) ? std::string(kAllMethods)
                                    : fmt::format("{}", fmt::join(config.methods, ", "));
}

}  // namespace

void add_cors_headers(const CorsConfig& config, std::string_view origin, net::Headers& headers) {
  if (origin.empty() || !has(config.origins, origin)) return;
  // With credentials the wildcard is not allowed: then the origin itself is named.
  const bool wildcard = allows_all(config.origins) && !config.credentials;
  headers.push_back({"access-control-allow-origin", wildcard ? "*" : std::string(origin)});
  if (!wildcard) headers.push_back({"vary", "Origin"});
  if (config.credentials) headers.push_back({"access-control-allow-credentials", "true"});
}

std::optional<net::Response> answer_preflight(const CorsConfig& config,
                                              const net::Request& request) {
  if (request.method != "OPTIONS") return std::nullopt;
  const auto origin = request.header("origin");
  const auto method = request.header("access-control-request-method");
  if (!origin || !method) return std::nullopt;
  if (!has(config.origins, *origin)) return error_response(400, "this origin is not allowed");
  if (!has(config.methods, *method)) return error_response(400, "this method is not allowed");
  const auto asked = net::list_elements(request.headers, "access-control-request-headers");
  for (const std::string& name : asked) {
    if (!is_safelisted(name) && !has_ignoring_case(config.headers, name))
      return error_response(400, "a header is not allowed");
    if (!net::is_token(name)) return error_response(400, "a header's name is none");
  }
  net::Response answer;
  answer.status = 204;
  answer.headers.push_back({"access-control-allow-methods", allowed_methods(config)});
  answer.headers.push_back({"access-control-max-age", std::string(kMaxAgeSeconds)});
  if (!asked.empty())
    answer.headers.push_back(
        {"access-control-allow-headers", fmt::format("{}", fmt::join(asked, ", "))});
  // What add_cors_headers() leaves out depends on these.
  answer.headers.push_back(
      {"vary", "Access-Control-Request-Method, Access-Control-Request-Headers"});
  return answer;
}

}  // namespace tandem::serve
