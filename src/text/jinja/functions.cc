// The global functions.

#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/python_text.h"

namespace tandem::text::jinja {
namespace {

constexpr size_t kMaxTimeFormatBytes = 1024;

Expected<Value> range(Interpreter& in, const Arguments& arguments) {
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty()) {
    return fail_value("range expected 1 to 3 arguments, got {}", count);
  }
  std::array<Int, 3> given{0, 0, 1};
  for (size_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN(given[i], int_argument(&arguments.positional[i], 0, "range() argument"));
    given[i] = std::clamp<Int>(given[i], INT64_MIN, INT64_MAX);
  }
  const Int start = count == 1 ? 0 : given[0];
  const Int stop = count == 1 ? given[0] : given[1];
  const Int step = given[2];
  if (step == 0) return fail_value("range() arg 3 must not be zero");
  const Int span = step > 0 ? stop - start : start - stop;
  const Int by = step > 0 ? step : -step;
  const Int length = span <= 0 ? 0 : (span + by - 1) / by;
  const int64_t most = in.budget().limits().max_range;
  if (length > most) {
    return fail_value("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", most);
  }
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(length));
  for (Int i = 0; i < length; ++i) items.push_back(Value(start + i * step));
  return make_sequence(in.budget(), SequenceKind::kRange, std::move(items));
}

// What dict() and namespace() take: a dict or pairs, and names.
Expected<std::vector<Dict::Entry>> entries_of(Interpreter& in, const Arguments& arguments) {
  std::vector<Dict::Entry> entries;
  if (arguments.positional.size() > 1) return fail_value("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (given.dict() != nullptr) {
      entries = given.dict()->entries;
    } else {
      TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(given));
      for (const Value& item : items) {
        TANDEM_ASSIGN(const std::vector<Value> pair, in.iterate(item));
        if (pair.size() != 2) return fail_value("dict needs pairs of key and value");
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    TANDEM_ASSIGN(Value key, in.string(name));
    entries.emplace_back(std::move(key), value);
  }
  return entries;
}

Expected<Value> dict(Interpreter& in, const Arguments& arguments) {
  TANDEM_ASSIGN(std::vector<Dict::Entry> entries, entries_of(in, arguments));
  return make_dict(in.budget(), std::move(entries));
}

Expected<Value> name_space(Interpreter& in, const Arguments& arguments) {
  TANDEM_ASSIGN(std::vector<Dict::Entry> entries, entries_of(in, arguments));
  std::vector<std::pair<std::string, Value>> members;
  for (auto& [key, value] : entries) {
    if (key.string() == nullptr) return fail_value("namespace members have names");
    members.emplace_back(key.text(), std::move(value));
  }
  return in.make_namespace(std::move(members));
}

Expected<Value> raise_exception(Interpreter& in, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "raise_exception", {"message"}, 1));
  TANDEM_ASSIGN(const MarkedText message, str(in.budget(), *bound[0]));
  return in.raise(message.text());
}

// Python's strftime on a local time without a zone: %z and %Z are empty, %f is microseconds.
Expected<Value> strftime_now(Interpreter& in, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "strftime_now", {"format"}, 1));
  TANDEM_ASSIGN(const MarkedText* given, text_argument(bound[0], "strftime_now() argument"));
  if (given->size() > kMaxTimeFormatBytes) {
    return fail_value("a time format above {} bytes is not supported", kMaxTimeFormatBytes);
  }
  std::string format;
  const std::string& text = given->text();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') return fail_value("embedded null character");
    if (text[i] != '%' || i + 1 == text.size()) {
      format += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'f') format += "000000";
    if (c != 'f' && c != 'z' && c != 'Z') format += {'%', c};
  }
  if (format.empty()) return in.string("");
  // A directive gives at most a few dozen bytes but for widths ("%9999d"), which do not fit.
  std::string out(kMaxTimeFormatBytes * 32, '\0');
  const size_t size = std::strftime(out.data(), out.size(), format.c_str(), &in.now());
  out.resize(size);
  return in.string(MarkedText(std::move(out), given->any_untrusted()));
}

}  // namespace

Function find_function(std::string_view name) {
  if (name == "range") return range;
  if (name == "dict") return dict;
  if (name == "namespace") return name_space;
  if (name == "raise_exception") return raise_exception;
  if (name == "strftime_now") return strftime_now;
  return nullptr;
}

}  // namespace tandem::text::jinja
