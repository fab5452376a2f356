#include "net/router.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::net {
namespace {

bool is_param(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}
bool is_rest(std::string_view segment) { return is_param(segment) && segment.ends_with("...}"); }

std::string param_name(std::string_view segment) {
  const size_t trailer = is_rest(segment) ? 4 : 1;
  return std::string(segment.substr(1, segment.size() - 1 - trailer));
}

// "/a/b" -> "a", "b".
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t slash = std::min(path.find('/'), path.size());
    out.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash);
  }
  return out;
}

}  // namespace

void Router::add(std::string method, std::string pattern, Handler handler) {
  TANDEM_CHECK(is_token(method) && pattern.starts_with('/') && handler != nullptr, "bad route");
  std::vector<Route>* routes = nullptr;
  if (pattern.find('{') == std::string::npos) {
    routes = &exact_[pattern];
  } else {
    auto found = std::find_if(
        patterns_.begin(), patterns_.end(), [&](const Pattern& p) { return p.text == pattern; });
    if (found == patterns_.end()) {
      patterns_.push_back({pattern, split(pattern), {}});
      found = std::prev(patterns_.end());
    }
    routes = &found->routes;
  }
  for (const Route& route : *routes) TANDEM_CHECK(route.method != method, "route added twice");
  routes->push_back({std::move(method), std::move(handler)});
}

bool Router::matches(const Pattern& pattern, std::string_view path, std::vector<PathParam>& out) {
  std::vector<PathParam> params;
  for (const std::string& segment : pattern.segments) {
    if (path.empty()) return false;
    path.remove_prefix(1);
    if (is_rest(segment)) {
      if (path.empty()) return false;
      params.push_back({param_name(segment), std::string(path)});
      path = {};
      break;
    }
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view found = path.substr(0, slash);
    path.remove_prefix(slash);
    if (is_param(segment)) {
      if (found.empty()) return false;
      params.push_back({param_name(segment), std::string(found)});
    } else if (found != segment) {
      return false;
    }
  }
  if (!path.empty()) return false;
  out = std::move(params);
  return true;
}

void Router::choose(const std::vector<Route>& routes, std::string_view method, Match& out) {
  const std::string_view wanted = method == "HEAD" ? std::string_view("GET") : method;
  for (const Route& route : routes) {
    if (route.method == wanted) out.handler = &route.handler;
    if (!out.allow.empty()) out.allow += ", ";
    out.allow += route.method;
    if (route.method == "GET") out.allow += ", HEAD";
  }
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  Match out;
  if (const auto found = exact_.find(std::string(path)); found != exact_.end()) {
    out.pattern = found->first;
    choose(found->second, method, out);
    return out;
  }
  for (const Pattern& pattern : patterns_) {
    if (!path.starts_with('/') || !matches(pattern, path, out.path_params)) continue;
    out.pattern = pattern.text;
    choose(pattern.routes, method, out);
    return out;
  }
  return out;
}

}  // namespace tandem::net
