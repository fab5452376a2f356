#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/log.h"
#include "base/utf8.h"

namespace tandem {
namespace {

// What is bounded before parsing, on the text: nesting, since the parser recurses over it; and for
// ordered objects the work of finding duplicate keys, which grows with the square of an object's
// keys.
constexpr uint64_t kMaxKeyWork = 50'000'000;

struct Shape {
  bool too_deep = false;
  uint64_t key_work = 0;  // sum over objects of keys squared
};

Shape measure(std::string_view text, int max_depth) {
  Shape shape;
  std::vector<uint64_t> keys;  // of the open brackets
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (keys.size() >= static_cast<size_t>(max_depth)) {
        shape.too_deep = true;
        return shape;
      }
      keys.push_back(0);
    } else if (c == ':' && !keys.empty()) {
      ++keys.back();
    } else if ((c == ']' || c == '}') && !keys.empty()) {
      shape.key_work += keys.back() * keys.back();
      keys.pop_back();
    }
  }
  return shape;
}

// The last key before byte `at`, so that a message can name the field; empty if there is none.
std::string key_before(std::string_view text, size_t at) {
  std::string_view key;
  for (size_t i = 0; i < std::min(at, text.size()); ++i) {
    if (text[i] != '"') continue;
    const size_t begin = ++i;
    while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    if (i >= text.size()) break;
    const size_t next = text.find_first_not_of(" \t\r\n", i + 1);
    if (next != std::string_view::npos && text[next] == ':') key = text.substr(begin, i - begin);
  }
  return log_safe(key, 64);
}

template <class Value>
Expected<Value> parse_any(std::string_view text, int max_depth) {
  if (!utf8_is_valid(text)) return fail(ErrorCode::kInvalidArgument, "not valid UTF-8");
  const Shape shape = measure(text, max_depth);
  if (shape.too_deep) {
    return fail(ErrorCode::kInvalidArgument, "JSON is nested deeper than {} levels", max_depth);
  }
  if (std::is_same_v<Value, OrderedJson> && shape.key_work > kMaxKeyWork) {
    return fail(ErrorCode::kInvalidArgument,
                "JSON has objects with too many keys (more than about 7000)");
  }
  try {
    return Value::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string key = key_before(text, e.byte);
    if (key.empty()) return fail(ErrorCode::kInvalidArgument, "not valid JSON at byte {}", e.byte);
    return fail(
        ErrorCode::kInvalidArgument, "not valid JSON at byte {}, after the key '{}'", e.byte, key);
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

void append_json_string(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
  };
  if (std::all_of(text.begin(), text.end(), is_plain) && utf8_is_valid(text)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += dump_json(Json(std::string(text)));
  }
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
