#include "text/jinja/attribute_path.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "text/jinja/callable.h"
#include "text/jinja/interpreter.h"

namespace tandem::text::jinja {

Expected<AttributePath> AttributePath::parse(Interpreter& interpreter, const Value* attribute) {
  AttributePath path;
  if (attribute == nullptr || attribute->is_none()) return path;
  if (attribute->string() == nullptr) {
    TANDEM_ASSIGN(const Int index, int_argument(attribute, 0, "attribute"));
    path.parts_.push_back(Value(index));
    return path;
  }
  std::string_view rest = attribute->text();
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool digits =
        !part.empty() && part.size() < 10 &&
        std::all_of(
            part.begin(),
            part.end(),
            [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    if (digits) {
      int64_t index = 0;
      for (const char c : part) index = index * 10 + (c - '0');
      path.parts_.push_back(Value::integer(index));
    } else {
      TANDEM_ASSIGN(Value name, interpreter.string(part));
      path.parts_.push_back(std::move(name));
    }
    if (dot == rest.size()) return path;
    rest.remove_prefix(dot + 1);
  }
}

Expected<std::vector<AttributePath>> AttributePath::parse_several(Interpreter& interpreter,
                                                                  const Value* attribute) {
  std::vector<AttributePath> paths;
  if (attribute == nullptr || attribute->string() == nullptr) {
    TANDEM_ASSIGN(AttributePath path, parse(interpreter, attribute));
    paths.push_back(std::move(path));
    return paths;
  }
  std::string_view rest = attribute->text();
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    TANDEM_ASSIGN(const Value name, interpreter.string(rest.substr(0, comma)));
    TANDEM_ASSIGN(AttributePath path, parse(interpreter, &name));
    paths.push_back(std::move(path));
    if (comma == rest.size()) return paths;
    rest.remove_prefix(comma + 1);
  }
}

Expected<Value> AttributePath::get(Interpreter& interpreter,
                                   const Value& item,
                                   const Value* if_undefined) const {
  Value value = item;
  for (const Value& part : parts_) {
    TANDEM_TRY(interpreter.budget().step());
    TANDEM_ASSIGN(value, interpreter.get_item(value, part));
    if (if_undefined != nullptr && value.is_undefined()) value = *if_undefined;
  }
  return value;
}

}  // namespace tandem::text::jinja
