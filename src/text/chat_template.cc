#include "text/chat_template.h"

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/value.h"

namespace tandem::text {
namespace {

using jinja::Budget;
using jinja::Dict;
using jinja::Int;
using jinja::Value;

// Templates build control tokens from these ('<|' + role + '|>'). Others stay untrusted.
constexpr std::string_view kRoles[] = {
    "system", "user", "assistant", "tool", "developer", "function", "ipython", "observation"};

// A client's JSON as values, all its text untrusted.
class Converter {
 public:
  explicit Converter(Budget& budget) : budget_(budget) {}

  Expected<Value> convert(const OrderedJson& json, int depth) {
    if (depth > jinja::kMaxValueDepth) return jinja::fail_value("a value is nested too deep");
    switch (json.type()) {
      case OrderedJson::value_t::boolean:
        return Value(json.get<bool>());
      case OrderedJson::value_t::number_integer:
        return Value(Int{json.get<int64_t>()});
      case OrderedJson::value_t::number_unsigned:
        return Value(static_cast<Int>(json.get<uint64_t>()));
      case OrderedJson::value_t::number_float:
        return Value(json.get<double>());
      case OrderedJson::value_t::string:
        return text(json.get_ref<const std::string&>(), true);
      case OrderedJson::value_t::array:
        return convert_list(json, depth);
      case OrderedJson::value_t::object:
        return convert_object(json, depth, /*message=*/false);
      default:
        return Value();
    }
  }

  Expected<Value> convert_messages(const OrderedJson& json) {
    if (!json.is_array()) return convert(json, 0);
    std::vector<Value> items;
    for (const OrderedJson& message : json) {
      if (message.is_object()) {
        TANDEM_ASSIGN(Value item, convert_object(message, 1, /*message=*/true));
        items.push_back(std::move(item));
      } else {
        TANDEM_ASSIGN(Value item, convert(message, 1));
        items.push_back(std::move(item));
      }
    }
    return make_sequence(budget_, jinja::SequenceKind::kList, std::move(items));
  }

  Expected<Value> text(const std::string& bytes, bool untrusted) {
    if (utf8_is_valid(bytes)) return make_string(budget_, MarkedText(bytes, untrusted));
    return make_string(budget_, MarkedText(utf8_replace_invalid(bytes), untrusted));
  }

 private:
  Expected<Value> convert_list(const OrderedJson& json, int depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const OrderedJson& element : json) {
      TANDEM_ASSIGN(Value item, convert(element, depth + 1));
      items.push_back(std::move(item));
    }
    return make_sequence(budget_, jinja::SequenceKind::kList, std::move(items));
  }

  Expected<Value> convert_object(const OrderedJson& json, int depth, bool message) {
    std::vector<Dict::Entry> entries;
    entries.reserve(json.size());
    for (auto it = json.begin(); it != json.end(); ++it) {
      TANDEM_ASSIGN(Value key, text(it.key(), true));
      const bool role =
          message && it.key() == "role" && it->is_string() &&
          std::find(std::begin(kRoles), std::end(kRoles), it->get_ref<const std::string&>()) !=
              std::end(kRoles);
      auto value = role ? text(it->get_ref<const std::string&>(), false) : convert(*it, depth + 1);
      if (!value) return value;
      entries.emplace_back(std::move(key), *std::move(value));
    }
    return make_dict(budget_, std::move(entries));
  }

  Budget& budget_;
};

Expected<void> set_variables(const ChatContext& context,
                             Budget& budget,
                             jinja::Interpreter& interpreter) {
  Converter converter(budget);
  if (context.variables != nullptr && context.variables->is_object()) {
    for (auto it = context.variables->begin(); it != context.variables->end(); ++it) {
      auto value =
          it.key() == "messages" ? converter.convert_messages(*it) : converter.convert(*it, 0);
      if (!value) return fail(std::move(value).error());
      interpreter.set_variable(it.key(), *std::move(value));
    }
  }
  for (const auto& [name, content] : context.special_tokens) {
    TANDEM_ASSIGN(Value value, converter.text(content, false));
    interpreter.set_variable(name, std::move(value));
  }
  return {};
}

std::tm local_time() {
  const std::time_t seconds = unix_seconds();
  std::tm now{};
  localtime_r(&seconds, &now);
  return now;
}

}  // namespace

struct ChatTemplate::State {
  jinja::Body body;
  TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

Expected<ChatTemplate> ChatTemplate::parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > kMaxSourceBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "chat template: has {} bytes, more than {}",
                source.size(),
                kMaxSourceBytes);
  }
  auto body = jinja::parse_template(source);
  if (!body) {
    return fail(body.error().code, "chat template, {}", body.error().message);
  }
  auto state = std::make_unique<State>();
  state->body = *std::move(body);
  state->limits = limits;
  return ChatTemplate(std::move(state));
}

Expected<MarkedText> ChatTemplate::render(const ChatContext& context, const Clock& clock) const {
  Budget budget(state_->limits, clock);
  const std::tm now = context.now ? *context.now : local_time();
  jinja::Interpreter interpreter(budget, now);
  if (auto set = set_variables(context, budget, interpreter); !set) {
    return fail(set.error().code, "chat template, variables: {}", set.error().message);
  }
  return interpreter.run(state_->body);
}

}  // namespace tandem::text
