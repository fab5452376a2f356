#include "serve/api_server.h"

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

// What an answer's id ends in: the client's own label if it gave one, by header (which wins, as in
// vLLM) or field; else the one that the server made for the request.
Checked<std::string> answer_label(const net::Request& http, const OrderedJson& body) {
  TANDEM_ASSIGN(const auto field, FieldReader(body).string("request_id"));
  if (field && !net::is_valid_request_id(*field))
    return invalid("request_id", "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -");
  const auto header = http.header("x-request-id");
  const bool from_header = header && net::is_valid_request_id(*header);
  return field && !from_header ? *field : http.request_id;
}

}  // namespace

// State of all handlers; constant but for `draining`.
struct ApiServer::Handlers {
  ApiConfig config;
  frontend::Frontend& frontend;
  engine::Engine& engine;
  Metrics& metrics;
  std::atomic<bool> draining{false};
  const std::shared_ptr<LoadCounter> load = std::make_shared<LoadCounter>(0);
  const int64_t created = unix_seconds();

  Handlers(ApiConfig c, frontend::Frontend& f, engine::Engine& e, Metrics& m)
      : config(std::move(c)), frontend(f), engine(e), metrics(m) {}

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

  AnswerHead head(const char* prefix, const std::string& label, const char* object) const {
    return {prefix + label, object, unix_seconds(), config.model_names.front(), config.fingerprint};
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
      if (const Checked<void> done = (this->*work)(request, *body, writer); !done) {
        writer.respond(error_response(done.error()));
      }
    };
  }

  using Http = const net::Request&;
  Checked<void> chat(Http http, const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> completions(Http http, const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> invocations(Http http, const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> tokenize(Http http, const OrderedJson& body, net::ResponseWriter& writer);
  Checked<void> detokenize(Http http, const OrderedJson& body, net::ResponseWriter& writer);
  void add_probes(net::Router& router);
  net::Router routes();
};

Checked<void> ApiServer::Handlers::chat(Http http,
                                        const OrderedJson& body,
                                        net::ResponseWriter& writer) {
  TANDEM_ASSIGN(const std::string label, answer_label(http, body));
  TANDEM_ASSIGN(ChatRequest request, parse_chat_request(body));
  TANDEM_TRY(check_model(request.model));
  TANDEM_ASSIGN(std::vector<int32_t> ids, frontend.encode_chat(request.input));
  TANDEM_ASSIGN(auto prepared, frontend.prepare(std::move(ids), request.options, std::nullopt));
  CallSetup setup;
  const bool stream = request.stream.stream;
  setup.head = head("chatcmpl-", label, stream ? "chat.completion.chunk" : "chat.completion");
  setup.style.chat = true;
  setup.style.role = request.role;
  setup.style.echo = !request.echo.empty();
  setup.style.include_reasoning = request.include_reasoning;
  setup.style.logprobs = request.options.logprobs.has_value();
  setup.style.prompt_logprobs = request.options.prompt_logprobs.has_value();
  setup.style.return_token_ids = request.return_token_ids;
  setup.style.tokens.as_ids = request.return_tokens_as_token_ids;
  setup.stream = request.stream;
  setup.choices_per_prompt = prepared.options.choices;
  setup.usage_details = config.prompt_tokens_details;
  setup.splits_reasoning = prepared.reasoning.has_value();
  setup.prompts = {prepared.prompt};
  if (setup.style.echo) setup.prompt_texts = {request.echo};
  TANDEM_TRY(frontend::CallSize(frontend.config().limits, stream)
                 .add(static_cast<int64_t>(prepared.prompt.size()), prepared.options));
  std::vector<frontend::PreparedGeneration> all;
  all.push_back(std::move(prepared));
  std::make_shared<Call>(std::move(setup), LoadTicket(load), writer)
      ->start(frontend, std::move(all));
  return {};
}

Checked<void> ApiServer::Handlers::completions(Http http,
                                               const OrderedJson& body,
                                               net::ResponseWriter& writer) {
  TANDEM_ASSIGN(const std::string label, answer_label(http, body));
  TANDEM_ASSIGN(
      CompletionRequest request,
      parse_completion_request(body, static_cast<size_t>(frontend.config().limits.max_prompts)));
  TANDEM_TRY(check_model(request.model));
  CallSetup setup;
  setup.head = head("cmpl-", label, "text_completion");
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
  std::make_shared<Call>(std::move(setup), LoadTicket(load), writer)
      ->start(frontend, std::move(all));
  return {};
}

// SageMaker's one route: what the body holds tells what is asked for.
Checked<void> ApiServer::Handlers::invocations(Http http,
                                               const OrderedJson& body,
                                               net::ResponseWriter& writer) {
  if (body.contains("messages")) return chat(http, body, writer);
  if (body.contains("prompt")) return completions(http, body, writer);
  return invalid("", "the body needs 'messages' (a chat) or 'prompt' (a completion)");
}

Checked<void> ApiServer::Handlers::tokenize(Http /*http*/,
                                            const OrderedJson& body,
                                            net::ResponseWriter& writer) {
  TANDEM_ASSIGN(const auto model, FieldReader(body).string("model"));
  TANDEM_TRY(check_model(model.value_or("")));
  TANDEM_ASSIGN(const OrderedJson answer, answer_tokenize(body, frontend));
  writer.respond(json_response(200, answer));
  return {};
}

Checked<void> ApiServer::Handlers::detokenize(Http /*http*/,
                                              const OrderedJson& body,
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
  router.add("POST", "/invocations", json_handler(&Handlers::invocations));
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
  add_probes(router);
  return router;
}

// What orchestrators and dashboards ask.
void ApiServer::Handlers::add_probes(net::Router& router) {
  const auto health = [this](const net::Request&, net::ResponseWriter writer) {
    writer.respond(healthy() ? net::Response{}
                             : error_response(503, "the engine does not make progress"));
  };
  router.add("GET", "/health", health);
  router.add("GET", "/ping", health);
  router.add("POST", "/ping", health);
  router.add("GET", "/ready", [this](const net::Request&, net::ResponseWriter writer) {
    const bool ready = !draining && healthy();
    writer.respond(
        ready ? net::Response{}
              : error_response(503, draining ? "the server is shutting down" : "not ready"));
  });
  router.add("GET", "/version", [this](const net::Request&, net::ResponseWriter writer) {
    writer.respond(json_response(200, OrderedJson{{"version", config.version}}));
  });
  router.add("GET", "/load", [this](const net::Request&, net::ResponseWriter writer) {
    writer.respond(json_response(200, OrderedJson{{"server_load", load->load()}}));
  });
  router.add("GET", "/metrics", [this](const net::Request&, net::ResponseWriter writer) {
    net::Response answer;
    answer.headers.push_back({"content-type", "text/plain; version=0.0.4; charset=utf-8"});
    answer.body = metrics.text();
    writer.respond(std::move(answer));
  });
}

ApiServer::ApiServer(ApiConfig config,
                     frontend::Frontend& frontend,
                     engine::Engine& engine,
                     Metrics& metrics)
    : handlers_(std::make_unique<Handlers>(std::move(config), frontend, engine, metrics)) {}

ApiServer::~ApiServer() {
  handlers_->metrics.set_http_source(nullptr);
  server_.reset();  // no handler or hook runs from here on
}

Expected<uint16_t> ApiServer::start() {
  Handlers* const h = handlers_.get();
  net::HttpHooks hooks;
  hooks.error_response = [](int status, std::string_view reason, const net::RequestSummary&) {
    return error_response(status, reason);
  };
  hooks.intercept = [h](const net::Request& request) {
    auto answer = answer_preflight(h->config.cors, request);
    return answer ? std::move(answer) : refuse_without_key(h->config.access, request);
  };
  hooks.decorate = [h](const net::RequestSummary& request, int, net::Headers& headers) {
    add_cors_headers(h->config.cors, request.origin, headers);
  };
  hooks.finished = [h](const net::RequestSummary& request, const net::AnswerFacts& answer) {
    h->metrics.on_http(request, answer);
  };
  server_ = std::make_unique<net::HttpServer>(h->config.http, h->routes(), std::move(hooks));
  h->metrics.set_http_source([server = server_.get()] { return server->stats(); });
  return server_->start();
}

void ApiServer::begin_drain() { handlers_->draining = true; }

void ApiServer::stop(Duration deadline) {
  if (server_) server_->stop(deadline);
}

}  // namespace tandem::serve
