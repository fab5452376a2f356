#pragma once
// `tandem serve`: opens devices, loads the model, starts engine, frontend and HTTP, waits for
// SIGTERM, drains.

#include "app/serve_options.h"

namespace tandem::app {

// Returns when the server has drained after SIGTERM or SIGINT. Errors are one line for the user.
Expected<void> serve_command(const ServeOptions& options);

}  // namespace tandem::app
