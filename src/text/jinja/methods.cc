// The methods of lists, tuples, dicts and numbers.

#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace tandem::text::jinja {
namespace {

constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
// Jinja2's sandbox: methods that modify lists and dicts.
constexpr std::string_view kUnsafeDictMethods[] = {
    "clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kUnsafeListMethods[] = {
    "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};

template <size_t count>
bool is_one_of(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_list(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->kind == SequenceKind::kList;
}

bool is_tuple(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->kind == SequenceKind::kTuple;
}

Expected<Value> call_dict_method(Interpreter& in,
                                 const Value& self,
                                 std::string_view name,
                                 const Arguments& arguments) {
  const Dict& dict = *self.dict();
  if (name == "get") {
    TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "get", {"key", "default"}, 1));
    if (!is_hashable(*bound[0])) return fail_value("unhashable type: '{}'", type_name(*bound[0]));
    TANDEM_TRY(in.budget().step(1 + dict.entries.size() / 256));
    const Value* found = dict.find(*bound[0]);
    if (found != nullptr) return *found;
    return bound[1] != nullptr ? *bound[1] : Value();
  }
  TANDEM_TRY(bind_arguments(arguments, name, {}));
  if (name == "copy") return self;
  std::vector<Value> items;
  items.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") {
      items.push_back(key);
    } else if (name == "values") {
      items.push_back(value);
    } else {
      TANDEM_ASSIGN(Value pair, make_sequence(in.budget(), SequenceKind::kTuple, {key, value}));
      items.push_back(std::move(pair));
    }
  }
  const SequenceKind kind = name == "keys"     ? SequenceKind::kKeys
                            : name == "values" ? SequenceKind::kValues
                                               : SequenceKind::kItems;
  return make_sequence(in.budget(), kind, std::move(items));
}

Expected<Value> call_list_method(Interpreter& in,
                                 const Value& self,
                                 std::string_view name,
                                 const Arguments& arguments) {
  if (name == "copy") {
    TANDEM_TRY(bind_arguments(arguments, name, {}));
    return self;
  }
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, name, {"value"}, 1));
  const Sequence& list = *self.sequence();
  TANDEM_TRY(in.budget().step(list.weight / 8));
  const auto same = [&](const Value& item) { return equals(item, *bound[0]); };
  if (name == "count") {
    return Value(static_cast<Int>(std::count_if(list.items.begin(), list.items.end(), same)));
  }
  const auto found = std::find_if(list.items.begin(), list.items.end(), same);
  if (found == list.items.end()) return fail_value("the value is not in the list");
  return Value(static_cast<Int>(found - list.items.begin()));
}

}  // namespace

bool has_method(const Value& receiver, std::string_view name) {
  if (receiver.string() != nullptr) return has_string_method(name);
  if (receiver.dict() != nullptr) {
    return is_one_of(kDictMethods, name) || is_one_of(kUnsafeDictMethods, name);
  }
  if (is_list(receiver)) {
    return is_one_of(kListMethods, name) || is_one_of(kUnsafeListMethods, name);
  }
  if (is_tuple(receiver)) return name == "count" || name == "index";
  return receiver.get<double>() != nullptr && name == "is_integer";
}

bool is_unsafe_method(const Value& receiver, std::string_view name) {
  return (receiver.dict() != nullptr && is_one_of(kUnsafeDictMethods, name)) ||
         (is_list(receiver) && is_one_of(kUnsafeListMethods, name));
}

Expected<Value> call_method(Interpreter& interpreter,
                            const Value& receiver,
                            std::string_view name,
                            const Arguments& arguments) {
  TANDEM_TRY(interpreter.budget().step());
  if (const String* string = receiver.string()) {
    return call_string_method(interpreter, *string, name, arguments);
  }
  if (receiver.dict() != nullptr) return call_dict_method(interpreter, receiver, name, arguments);
  if (receiver.sequence() != nullptr) {
    return call_list_method(interpreter, receiver, name, arguments);
  }
  const double number = *receiver.get<double>();
  TANDEM_TRY(bind_arguments(arguments, name, {}));
  return Value(std::isfinite(number) && std::trunc(number) == number);
}

}  // namespace tandem::text::jinja
