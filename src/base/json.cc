#include "base/json.h"

#include <cmath>

#include "base/utf8.h"

namespace tandem {
namespace {

// Nesting is checked on the text before parsing: brackets outside strings. Cheaper than a SAX
// handler and independent of the value type.
bool deeper_than(std::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

template <class Value>
Expected<Value> parse_any(std::string_view text, int max_depth) {
  if (!utf8_is_valid(text)) return fail(ErrorCode::kInvalidArgument, "not valid UTF-8");
  if (deeper_than(text, max_depth)) {
    return fail(ErrorCode::kInvalidArgument, "JSON is nested deeper than {} levels", max_depth);
  }
  try {
    return Value::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    return fail(ErrorCode::kInvalidArgument, "not valid JSON at byte {}", e.byte);
  } catch (const std::exception&) {
    return fail(ErrorCode::kInvalidArgument, "not valid JSON");
  }
}

const Json* find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace

Expected<Json> parse_json(std::string_view text, int max_depth) {
  return parse_any<Json>(text, max_depth);
}

Expected<OrderedJson> parse_ordered_json(std::string_view text, int max_depth) {
  return parse_any<OrderedJson>(text, max_depth);
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Expected<std::optional<int64_t>> json_int(
    const Json& object, std::string_view key, int64_t low, int64_t high, std::string_view where) {
  const Json* value = find(object, key);
  if (!value) return std::nullopt;
  const bool whole_float = value->is_number_float() &&
                           std::trunc(value->get<double>()) == value->get<double>() &&
                           std::abs(value->get<double>()) < 9e15;
  const bool too_large = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  if (!value->is_number_integer() && !whole_float) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: '{}' must be an integer, found {}",
                where,
                key,
                value->type_name());
  }
  const int64_t number =
      whole_float ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
  if (too_large || number < low || number > high) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: '{}' must be between {} and {}, found {}",
                where,
                key,
                low,
                high,
                too_large ? "a larger number" : std::to_string(number));
  }
  return number;
}

Expected<std::optional<double>> json_number(const Json& object,
                                            std::string_view key,
                                            std::string_view where) {
  const Json* value = find(object, key);
  if (!value) return std::nullopt;
  if (!value->is_number()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: '{}' must be a number, found {}",
                where,
                key,
                value->type_name());
  }
  return value->get<double>();
}

Expected<std::optional<bool>> json_bool(const Json& object,
                                        std::string_view key,
                                        std::string_view where) {
  const Json* value = find(object, key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: '{}' must be true or false, found {}",
                where,
                key,
                value->type_name());
  }
  return value->get<bool>();
}

Expected<std::optional<std::string>> json_string(const Json& object,
                                                 std::string_view key,
                                                 std::string_view where) {
  const Json* value = find(object, key);
  if (!value) return std::nullopt;
  if (!value->is_string()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: '{}' must be a string, found {}",
                where,
                key,
                value->type_name());
  }
  return value->get<std::string>();
}

}  // namespace tandem
