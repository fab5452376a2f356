#include "serve/fields.h"

#include <cmath>

namespace tandem::serve {
namespace {

std::unexpected<RequestError> too_many(const char* name, size_t found, size_t most) {
  return std::unexpected(
      RequestError{frontend::ErrorKind::kTooLarge,
                   fmt::format("'{}' has {} entries, at most {} are accepted", name, found, most),
                   name});
}

bool is_int64(const OrderedJson& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
}

}  // namespace

std::string describe(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::null:
      return "null";
    case OrderedJson::value_t::object:
      return "an object";
    case OrderedJson::value_t::array:
      return "a list";
    case OrderedJson::value_t::string:
      return "a string";
    case OrderedJson::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case OrderedJson::value_t::number_integer:
    case OrderedJson::value_t::number_unsigned:
    case OrderedJson::value_t::number_float:
      return "the number " + value.dump();
    default:
      return "something else";
  }
}

const OrderedJson* FieldReader::find(std::string_view name) const {
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

Checked<std::optional<double>> FieldReader::number(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) return invalid(name, "must be a number, found {}", describe(*value));
  return value->get<double>();
}

Checked<std::optional<int64_t>> FieldReader::integer(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!is_int64(*value))
    return invalid(name, "must be an integer of at most 64 bits, found {}", describe(*value));
  return value->get<int64_t>();
}

Checked<std::optional<bool>> FieldReader::boolean(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean())
    return invalid(name, "must be true or false, found {}", describe(*value));
  return value->get<bool>();
}

Checked<std::optional<std::string>> FieldReader::string(const char* name) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) return invalid(name, "must be a string, found {}", describe(*value));
  return value->get<std::string>();
}

Checked<std::optional<std::vector<int64_t>>> FieldReader::integers(const char* name,
                                                                   size_t most) const {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_array())
    return invalid(name, "must be a list of integers, found {}", describe(*value));
  if (value->size() > most) return too_many(name, value->size(), most);
  std::vector<int64_t> out;
  out.reserve(value->size());
  for (const OrderedJson& entry : *value) {
    if (!is_int64(entry))
      return invalid(name, "must be a list of integers, found {} in it", describe(entry));
    out.push_back(entry.get<int64_t>());
  }
  return out;
}

Checked<std::vector<std::string>> FieldReader::strings(const char* name,
                                                       size_t most,
                                                       bool allow_single) const {
  const OrderedJson* value = find(name);
  if (!value) return std::vector<std::string>{};
  if (allow_single && value->is_string()) return std::vector{value->get<std::string>()};
  const char* accepted = allow_single ? "a string or a list of strings" : "a list of strings";
  if (!value->is_array()) return invalid(name, "must be {}, found {}", accepted, describe(*value));
  if (value->size() > most) return too_many(name, value->size(), most);
  std::vector<std::string> out;
  out.reserve(value->size());
  for (const OrderedJson& entry : *value) {
    if (!entry.is_string())
      return invalid(name, "must be {}, found {} in it", accepted, describe(entry));
    out.push_back(entry.get<std::string>());
  }
  return out;
}

}  // namespace tandem::serve
