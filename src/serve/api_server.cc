#include "serve/api_server.h"

#include "base/ids.h"
#include "base/log.h"
#include "serve/api_error.h"
#include "serve/call.h"
#include "serve/chat_request.h"
#include "serve/completion_request.h"
#include "serve/health.h"
#include "serve/model_cards.h"
#include "serve/tokenize.h"

namespace tandem::serve {
namespace {

// The body as a JSON object, or why not. Content types other than JSON are refused with 415.
Expected<OrderedJson> parse_object(const net::Request& request) {
  TANDEM_ASSIGN(OrderedJson body, parse_ordered_json(request.body));
  if (!body.is_object())
    return fail(
        ErrorCode::kInvalidArgument, "the body must be a JSON object, found {}", describe(body));
  return body;
}

bool is_json(const net::Request& request) {
  const auto type = request.header("content-type");
  if (!type) return true;  // curl -d without -H; the parser decides
  const std::string lower = net::to_lower_ascii(net::trim_blanks(type->substr(0, type->find(';'))));
  return lower == "application/json" ||
         (lower.starts_with("application/") && lower.ends_with("+json"));
}

}  // namespace

// State of all handlers; constant but for `draining`.
struct ApiServer::Handlers {
  ApiConfig config;
  frontend::Frontend& frontend;
  engine::Engine& engine;
  std::atomic<bool> draining{false};
  int64_t created = unix_seconds();

  Handlers(ApiConfig c, frontend::Frontend& f, engine::Engine& e)
      : config(std::move(c)), frontend(f), engine(e) {}

  Checked<void> check_model(const std::string& name) const {
    if (name.empty()) return {};
    for (const std::string& served : config.model_names) {
      if (served == name) return {};
    }
    return std::unexpected(
        RequestError{frontend::ErrorKind::kNotFound,
                     fmt::format("The model `{}` does not exist.", log_safe(name)),
                     "model"});
  }

  AnswerHead head(const char* prefix, const char* object) const {
    return {prefix + random_id(),
            object,
            unix_seconds(),
            config.model_names.front(),
            config.fingerprint};
  }

  bool healthy() const {
    return is_healthy(engine.counters(), config.clock->now(), config.step_budget);
  }

  // `work` gets the parsed body; an error that it returns is the answer.
  template <class Work>
  net::Handler json_handler(Work work) {
    return [this, work](const net::Request& request, net::ResponseWriter writer) {
      if (!is_json(request)) {
        writer.respond(error_response(415, "the content type must be application/json"));
        return;
      }
      const auto body = parse_object(request);
      if (!body) {
        writer.respond(error_response(400, "the request body is " + body.error().message));
        return;
      }
      if (const Checked<void> done = (this->*work)(*body, writer); !done) {
        writer.respond(error_response(done.error()));
      }
    };
  }

  Checked<void> chat(const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> completions(const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> tokenize(const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> detokenize(const OrderedJson& body, net::ResponseWriter& writer);
  net::Router routes();
};

Checked<void> ApiServer::Handlers::chat(const OrderedJson& body, net::ResponseWriter& writer) {
  TANDEM_ASSIGN(ChatRequest request, parse_chat_request(body));
  TANDEM_TRY(check_model(request.model));
  TANDEM_ASSIGN(std::vector<int32_t> ids, frontend.encode_chat(request.input));
  TANDEM_ASSIGN(auto prepared, frontend.prepare(std::move(ids), request.options, std::nullopt));
  CallSetup setup;
  setup.head =
      head("chatcmpl-", request.stream.stream ? "chat.completion.chunk" : "chat.completion");
  setup.style.chat = true;
  setup.style.logprobs = request.options.logprobs.has_value();
  setup.style.prompt_logprobs = request.options.prompt_logprobs.has_value();
  setup.style.return_token_ids = request.return_token_ids;
  setup.style.tokens.as_ids = request.return_tokens_as_token_ids;
  setup.stream = request.stream;
  setup.choices_per_prompt = prepared.options.choices;
  setup.usage_details = config.prompt_tokens_details;
  setup.prompts = {prepared.prompt};
  TANDEM_TRY(frontend::CallSize(frontend.config().limits, request.stream.stream)
                 .add(static_cast<int64_t>(prepared.prompt.size()), prepared.options));
  std::vector<frontend::PreparedGeneration> all;
  all.push_back(std::move(prepared));
  std::make_shared<Call>(std::move(setup), writer)->start(frontend, std::move(all));
  return {};
}

Checked<void> ApiServer::Handlers::completions(const OrderedJson& body,
                                               net::ResponseWriter& writer) {
  TANDEM_ASSIGN(
      CompletionRequest request,
      parse_completion_request(body, static_cast<size_t>(frontend.config().limits.max_prompts)));
  TANDEM_TRY(check_model(request.model));
  CallSetup setup;
  setup.head = head("cmpl-", "text_completion");
  setup.style.chat = false;
  setup.style.logprobs = request.options.logprobs.has_value();
  setup.style.prompt_logprobs =
      body.contains("prompt_logprobs") && !body["prompt_logprobs"].is_null();
  setup.style.echo = request.echo;
  setup.style.score_only = request.score_only;
  setup.style.return_token_ids = request.return_token_ids;
  setup.style.tokens.as_ids = request.return_tokens_as_token_ids;
  setup.stream = request.stream;
  setup.usage_details = config.prompt_tokens_details;
  std::vector<frontend::PreparedGeneration> all;
  all.reserve(request.prompts.size());
  frontend::CallSize size(frontend.config().limits, request.stream.stream);
  for (Prompt& prompt : request.prompts) {
    std::vector<int32_t> ids;
    const bool is_text = std::holds_alternative<std::string>(prompt);
    if (is_text) {
      TANDEM_ASSIGN(
          ids, frontend.encode_text(std::get<std::string>(prompt), request.add_special_tokens));
    } else {
      ids = std::move(std::get<std::vector<int32_t>>(prompt));
    }
    const size_t whole = ids.size();
    TANDEM_ASSIGN(auto prepared, frontend.prepare(std::move(ids), request.options, 16));
    TANDEM_TRY(size.add(static_cast<int64_t>(prepared.prompt.size()), prepared.options));
    if (request.echo) {
      const bool as_given = is_text && prepared.prompt.size() == whole;  // not truncated
      setup.prompt_texts.push_back(as_given ? std::get<std::string>(prompt)
                                            : frontend.decode(prepared.prompt, false));
    }
    setup.prompts.push_back(prepared.prompt);
    all.push_back(std::move(prepared));
  }
  setup.choices_per_prompt = all.front().options.choices;
  std::make_shared<Call>(std::move(setup), writer)->start(frontend, std::move(all));
  return {};
}

Checked<void> ApiServer::Handlers::tokenize(const OrderedJson& body, net::ResponseWriter& writer) {
  TANDEM_ASSIGN(const auto model, FieldReader(body).string("model"));
  TANDEM_TRY(check_model(model.value_or("")));
  TANDEM_ASSIGN(const OrderedJson answer, answer_tokenize(body, frontend));
  writer.respond(json_response(200, answer));
  return {};
}

Checked<void> ApiServer::Handlers::detokenize(const OrderedJson& body,
                                              net::ResponseWriter& writer) {
  TANDEM_ASSIGN(const auto model, FieldReader(body).string("model"));
  TANDEM_TRY(check_model(model.value_or("")));
  TANDEM_ASSIGN(const OrderedJson answer, answer_detokenize(body, frontend));
  writer.respond(json_response(200, answer));
  return {};
}

net::Router ApiServer::Handlers::routes() {
  const ModelCardFacts facts{
      config.model_names, config.model_root, frontend.config().limits.max_model_len, created};
  net::Router router;
  router.add("POST", "/v1/chat/completions", json_handler(&Handlers::chat));
  router.add("POST", "/v1/completions", json_handler(&Handlers::completions));
  router.add("POST", "/tokenize", json_handler(&Handlers::tokenize));
  router.add("POST", "/detokenize", json_handler(&Handlers::detokenize));
  router.add("GET", "/v1/models", [facts](const net::Request&, net::ResponseWriter writer) {
    writer.respond(json_response(200, model_list(facts)));
  });
  router.add("GET",
             "/v1/models/{id...}",
             [facts](const net::Request& request, net::ResponseWriter writer) {
               writer.respond(model_card_response(facts, std::string(request.path_param("id"))));
             });
  router.add("GET", "/health", [this](const net::Request&, net::ResponseWriter writer) {
    writer.respond(healthy() ? net::Response{}
                             : error_response(503, "the engine does not make progress"));
  });
  router.add("GET", "/ready", [this](const net::Request&, net::ResponseWriter writer) {
    const bool ready = !draining && healthy();
    writer.respond(
        ready ? net::Response{}
              : error_response(503, draining ? "the server is shutting down" : "not ready"));
  });
  router.add("GET", "/version", [this](const net::Request&, net::ResponseWriter writer) {
    writer.respond(json_response(200, OrderedJson{{"version", config.version}}));
  });
  return router;
}

ApiServer::ApiServer(ApiConfig config, frontend::Frontend& frontend, engine::Engine& engine)
    : handlers_(std::make_unique<Handlers>(std::move(config), frontend, engine)) {}

ApiServer::~ApiServer() = default;

Expected<uint16_t> ApiServer::start() {
  net::HttpHooks hooks;
  hooks.error_response = [](int status, std::string_view reason, const net::RequestSummary&) {
    return error_response(status, reason);
  };
  server_ = std::make_unique<net::HttpServer>(
      handlers_->config.http, handlers_->routes(), std::move(hooks));
  return server_->start();
}

void ApiServer::begin_drain() { handlers_->draining = true; }

void ApiServer::stop(Duration deadline) {
  if (server_) server_->stop(deadline);
}

}  // namespace tandem::serve
