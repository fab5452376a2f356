#pragma once
// Who may ask: keys are checked before a route is looked for, so that without one nothing can be
// told about routes or models. Pure; any thread.

#include <optional>

#include "net/api_keys.h"
#include "net/http_message.h"

namespace tandem::serve {

struct AccessConfig {
  net::ApiKeys keys;  // none: everybody may ask
  bool metrics_open = false;
};

// 401, always the same to the byte, unless the request may pass. Open to all: /health, /ready,
// /ping, OPTIONS, and /metrics if configured.
std::optional<net::Response> refuse_without_key(const AccessConfig& config,
                                                const net::Request& request);

}  // namespace tandem::serve
