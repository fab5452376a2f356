#pragma once
// OpenAI's error shape: {"error": {"message", "type", "param", "code"}}, code = the HTTP status.
// Pure.

#include <string>
#include <string_view>

#include "base/json.h"
#include "frontend/request_error.h"
#include "net/http_message.h"

namespace tandem::serve {

// 400, 404, 500 or 503.
int http_status(frontend::ErrorKind kind);

// "BadRequestError", "NotFoundError", …: vLLM's names by status.
const char* error_type(int status);

// The body of an error, also sent as an SSE event when a stream is already under way.
OrderedJson error_body(int status, std::string_view message, std::string_view param = {});
OrderedJson error_body(const frontend::RequestError& error);

net::Response json_response(int status, const OrderedJson& body);
net::Response error_response(int status, std::string_view message, std::string_view param = {});
// 503 carries retry-after.
net::Response error_response(const frontend::RequestError& error);

}  // namespace tandem::serve
