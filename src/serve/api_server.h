#pragma once
// The HTTP API over a Frontend: routes, schemas, answers. Owner: the program.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "frontend/frontend.h"
#include "net/http_server.h"
#include "serve/access.h"
#include "serve/cors.h"
#include "serve/metrics.h"

namespace tandem::serve {

struct ApiConfig {
  net::HttpServerConfig http;
  std::vector<std::string> model_names;  // served names; the first is the one that answers carry
  std::string model_root;                // folder or id, for /v1/models
  std::string version;                   // the program's
  std::string fingerprint;               // system_fingerprint
  bool prompt_tokens_details = false;
  AccessConfig access;
  CorsConfig cors;
  const Clock* clock = nullptr;                      // outlives the server
  Duration step_budget = std::chrono::seconds(120);  // a step that takes longer makes /health fail
};

// Threads: start(), begin_drain() and stop() by the owner; the rest runs on net's threads.
class ApiServer {
 public:
  // The others outlive it.
  ApiServer(ApiConfig config,
            frontend::Frontend& frontend,
            engine::Engine& engine,
            Metrics& metrics);
  ~ApiServer();

  // The port that was bound. A busy port is an error that names it.
  Expected<uint16_t> start();
  // Not ready from now on; running requests go on, new ones get 503.
  void begin_drain();
  // Answers may complete for up to `deadline`.
  void stop(Duration deadline);

 private:
  struct Handlers;
  std::unique_ptr<Handlers> handlers_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace tandem::serve
