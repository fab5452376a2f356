#pragma once
// A table from (method, path) to handlers. Filled before the server starts, constant after; then
// any thread may look things up. Wrong patterns and duplicates are programmer errors.

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/http_message.h"
#include "net/response_writer.h"

namespace tandem::net {

// Called on a worker thread, several at once. It may compute; it must not wait for long: it hands
// the writer on and returns. A handler that throws, or lets go of the writer without an answer, is
// answered 500.
using Handler = std::function<void(Request request, ResponseWriter writer)>;

class Router {
 public:
  // `pattern`: an exact path, or with segments "{name}" (one segment, not empty) and, at the end,
  // "{name...}" (the rest, one or more segments). Exact paths win, then patterns in the order of
  // their addition.
  void add(std::string method, std::string pattern, Handler handler);

  struct Match {
    const Handler* handler = nullptr;  // lives as long as the router
    std::vector<PathParam> path_params;
    std::string_view pattern;  // the route's; lives as long as the router
    std::string allow;  // methods of this path, for 405 and OPTIONS; empty: no such path (404)
  };
  // HEAD finds the handler of GET.
  Match match(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    Handler handler;
  };
  struct Pattern {
    std::string text;
    std::vector<std::string> segments;
    std::vector<Route> routes;
  };
  static bool matches(const Pattern& pattern, std::string_view path, std::vector<PathParam>& out);
  static void choose(const std::vector<Route>& routes, std::string_view method, Match& out);

  std::unordered_map<std::string, std::vector<Route>> exact_;
  std::vector<Pattern> patterns_;
};

}  // namespace tandem::net
