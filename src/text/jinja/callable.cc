#include "text/jinja/callable.h"

#include <algorithm>

namespace tandem::text::jinja {

Expected<std::vector<const Value*>> bind_arguments(const Arguments& arguments,
                                                   std::string_view function,
                                                   std::initializer_list<std::string_view> names,
                                                   size_t required) {
  if (arguments.positional.size() > names.size()) {
    return fail_value("{}() takes at most {} arguments ({} given)",
                      function,
                      names.size(),
                      arguments.positional.size());
  }
  std::vector<const Value*> bound(names.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      return fail_value("{}() got an unexpected keyword argument '{}'", function, name);
    }
    const Value*& slot = bound[static_cast<size_t>(it - names.begin())];
    if (slot != nullptr) {
      return fail_value("{}() got multiple values for argument '{}'", function, name);
    }
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) {
      return fail_value("{}() missing a required argument: '{}'", function, std::data(names)[i]);
    }
  }
  return bound;
}

Expected<Int> int_argument(const Value* value, Int if_missing, std::string_view what) {
  if (value == nullptr) return if_missing;
  if (value->undefined() != nullptr) return fail_value("{}", value->undefined()->message);
  Int storage = 0;
  if (const Int* number = value->integer_or_bool(storage)) return *number;
  return fail_value("{} must be an integer, not '{}'", what, type_name(*value));
}

Expected<bool> bool_argument(const Value* value, bool if_missing) {
  return value == nullptr ? if_missing : is_true(*value);
}

Expected<const MarkedText*> text_argument(const Value* value, std::string_view what) {
  static const MarkedText kEmpty;
  if (value == nullptr) return &kEmpty;
  if (value->undefined() != nullptr) return fail_value("{}", value->undefined()->message);
  if (const String* string = value->string()) return &string->text;
  return fail_value("{} must be str, not {}", what, type_name(*value));
}

}  // namespace tandem::text::jinja
