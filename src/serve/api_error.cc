#include "serve/api_error.h"

namespace tandem::serve {

int http_status(frontend::ErrorKind kind) {
  switch (kind) {
    case frontend::ErrorKind::kInvalid:
    case frontend::ErrorKind::kTooLarge:
      return 400;
    case frontend::ErrorKind::kNotFound:
      return 404;
    case frontend::ErrorKind::kOverloaded:
      return 503;
    case frontend::ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "AuthenticationError";
    case 403:
      return "PermissionDeniedError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 408:
      return "RequestTimeoutError";
    case 413:
      return "RequestTooLargeError";
    case 415:
      return "UnsupportedMediaTypeError";
    case 422:
      return "UnprocessableEntityError";
    case 431:
      return "RequestHeaderFieldsTooLargeError";
    case 501:
      return "NotImplementedError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return status >= 500 ? "InternalServerError" : "BadRequestError";
  }
}

OrderedJson error_body(int status, std::string_view message, std::string_view param) {
  OrderedJson error;
  error["message"] = message;
  error["type"] = error_type(status);
  error["param"] = param.empty() ? OrderedJson() : OrderedJson(param);
  error["code"] = status;
  OrderedJson body;
  body["error"] = std::move(error);
  return body;
}

OrderedJson error_body(const frontend::RequestError& error) {
  return error_body(http_status(error.kind), error.message, error.param);
}

net::Response json_response(int status, const OrderedJson& body) {
  net::Response response;
  response.status = status;
  response.headers.push_back({"content-type", "application/json"});
  response.body = dump_json(body);
  return response;
}

net::Response error_response(int status, std::string_view message, std::string_view param) {
  return json_response(status, error_body(status, message, param));
}

net::Response error_response(const frontend::RequestError& error) {
  net::Response response = json_response(http_status(error.kind), error_body(error));
  if (response.status == 503) response.headers.push_back({"retry-after", "1"});
  return response;
}

}  // namespace tandem::serve
