#include "net/response_writer.h"

#include <utility>

#include "net/exchange.h"

namespace tandem::net {

struct ResponseWriter::Token {
  explicit Token(std::shared_ptr<Exchange> e) : exchange(std::move(e)) {}
  ~Token() { exchange->dropped(); }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  std::shared_ptr<Exchange> exchange;
};

ResponseWriter::ResponseWriter(std::shared_ptr<Exchange> exchange)
    : token_(std::make_shared<Token>(std::move(exchange))) {}

bool ResponseWriter::respond(Response response) {
  return token_->exchange->respond(std::move(response));
}
bool ResponseWriter::begin_stream(int status, Headers headers) {
  return token_->exchange->begin_stream(status, std::move(headers));
}
bool ResponseWriter::write(std::string_view piece) { return token_->exchange->write(piece); }
bool ResponseWriter::end() { return token_->exchange->end(); }
bool ResponseWriter::is_closed() const { return token_->exchange->is_closed(); }
void ResponseWriter::on_close(std::function<void()> callback) {
  token_->exchange->on_close(std::move(callback));
}
size_t ResponseWriter::queued_bytes() const { return token_->exchange->queued_bytes(); }

}  // namespace tandem::net
