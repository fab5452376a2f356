// The methods of strings.

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace tandem::text::jinja {
namespace {

constexpr Int kMaxWidth = 100'000;

using Method = Expected<Value> (*)(Interpreter&, const String&, const Arguments&);

struct Entry {
  std::string_view name;
  Method method;
};

Expected<Value> parts_list(Interpreter& in, std::vector<MarkedText> parts, SequenceKind kind) {
  if (parts.size() > kMaxParts) return fail_value("a text has more than {} parts", kMaxParts);
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) {
    TANDEM_ASSIGN(Value item, in.string(std::move(part)));
    items.push_back(std::move(item));
  }
  return make_sequence(in.budget(), kind, std::move(items));
}

template <Side side>
Expected<Value> strip_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "strip", {"chars"}));
  if (bound[0] == nullptr || bound[0]->is_none()) return in.string(strip(self.text, side, nullptr));
  TANDEM_ASSIGN(const MarkedText* chars, text_argument(bound[0], "strip arg"));
  TANDEM_TRY(in.budget().step_bytes(self.text.size() * (1 + chars->size() / 16)));
  return in.string(strip(self.text, side, chars));
}

template <bool from_right>
Expected<Value> split_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "split", {"sep", "maxsplit"}));
  TANDEM_ASSIGN(const Int most, int_argument(bound[1], -1, "maxsplit"));
  const auto cuts = static_cast<int64_t>(std::clamp<Int>(most, -1, INT64_MAX));
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  if (bound[0] == nullptr || bound[0]->is_none()) {
    return parts_list(in, split_blanks(self.text, cuts, from_right), SequenceKind::kList);
  }
  TANDEM_ASSIGN(const MarkedText* separator, text_argument(bound[0], "sep"));
  if (separator->empty()) return fail_value("empty separator");
  return parts_list(in, split(self.text, separator->text(), cuts, from_right), SequenceKind::kList);
}

Expected<Value> splitlines_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "splitlines", {"keepends"}));
  TANDEM_ASSIGN(const bool keep, bool_argument(bound[0], false));
  return parts_list(in, split_lines(self.text, keep), SequenceKind::kList);
}

template <bool from_right>
Expected<Value> partition_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "partition", {"sep"}, 1));
  TANDEM_ASSIGN(const MarkedText* separator, text_argument(bound[0], "sep"));
  if (separator->empty()) return fail_value("empty separator");
  const std::string& all = self.text.text();
  const size_t at = from_right ? all.rfind(separator->text()) : all.find(separator->text());
  std::vector<MarkedText> parts(3);
  if (at == all.npos) {
    parts[from_right ? 2 : 0] = self.text;
  } else {
    const size_t end = at + separator->size();
    parts = {self.text.slice(0, at), self.text.slice(at, end), self.text.slice(end, all.size())};
  }
  return parts_list(in, std::move(parts), SequenceKind::kTuple);
}

Expected<Value> replace_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "replace", {"old", "new", "count"}, 2));
  TANDEM_ASSIGN(const MarkedText* old, text_argument(bound[0], "replace() argument 1"));
  TANDEM_ASSIGN(const MarkedText* by, text_argument(bound[1], "replace() argument 2"));
  TANDEM_ASSIGN(const Int most, int_argument(bound[2], -1, "count"));
  // The result is at most this large; checked before it is made.
  const size_t places = old->empty() ? self.text.size() + 1 : self.text.size() / old->size();
  if (by->size() != 0 && places > in.budget().limits().max_live_bytes / by->size()) {
    return fail_value("needs more than {} bytes of memory", in.budget().limits().max_live_bytes);
  }
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  return in.string(replace(
      self.text, old->text(), *by, static_cast<int64_t>(std::clamp<Int>(most, -1, INT64_MAX))));
}

// startswith, endswith: a string or a tuple of them; with bounds as in slices.
template <bool at_end>
Expected<Value> starts_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "startswith", {"prefix", "start", "end"}, 1));
  std::string_view text = self.text.text();
  Value part;
  if (bound[1] != nullptr || bound[2] != nullptr) {
    const Value whole(std::shared_ptr<const String>(std::shared_ptr<void>(), &self));
    TANDEM_ASSIGN(part,
                  slice(in.budget(),
                        whole,
                        bound[1] != nullptr ? *bound[1] : Value(),
                        bound[2] != nullptr ? *bound[2] : Value(),
                        Value()));
    text = part.text();
  }
  const Sequence* several = bound[0]->sequence();
  if (several != nullptr && several->kind != SequenceKind::kTuple) several = nullptr;
  const Value* candidates = several != nullptr ? several->items.data() : bound[0];
  const size_t count = several != nullptr ? several->items.size() : 1;
  TANDEM_TRY(in.budget().step(count));
  for (size_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN(const MarkedText* candidate,
                  text_argument(&candidates[i], "startswith first arg"));
    const bool matches =
        at_end ? text.ends_with(candidate->text()) : text.starts_with(candidate->text());
    if (matches) return Value(true);
  }
  return Value(false);
}

// find, rfind, index, rindex: in characters.
template <bool from_right, bool must>
Expected<Value> find_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "find", {"sub", "start", "end"}, 1));
  TANDEM_ASSIGN(const MarkedText* wanted, text_argument(bound[0], "find() argument"));
  const auto length = static_cast<Int>(self.code_points);
  TANDEM_ASSIGN(Int start, int_argument(bound[1], 0, "start"));
  TANDEM_ASSIGN(Int end, int_argument(bound[2], length, "end"));
  start = std::clamp<Int>(start < 0 ? start + length : start, 0, length + 1);
  end = std::clamp<Int>(end < 0 ? end + length : end, 0, length);
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  size_t at = std::string::npos;
  if (start <= end) {
    const size_t first = byte_of_code_point(self, static_cast<size_t>(start));
    const size_t last = byte_of_code_point(self, static_cast<size_t>(end));
    const std::string_view part = std::string_view(self.text.text()).substr(first, last - first);
    at = from_right ? part.rfind(wanted->text()) : part.find(wanted->text());
    if (at != part.npos) at += first;
  }
  if (at != std::string::npos) {
    const size_t index = code_points_of(std::string_view(self.text.text()).substr(0, at));
    return Value(static_cast<Int>(index));
  }
  return must ? Expected<Value>(fail_value("substring not found")) : Value(Int{-1});
}

Expected<Value> count_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "count", {"sub"}, 1));
  TANDEM_ASSIGN(const MarkedText* wanted, text_argument(bound[0], "count() argument"));
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  if (wanted->empty()) return Value(static_cast<Int>(self.code_points + 1));
  Int count = 0;
  const std::string& all = self.text.text();
  for (size_t at = all.find(wanted->text()); at != all.npos;
       at = all.find(wanted->text(), at + wanted->size())) {
    ++count;
  }
  return Value(count);
}

template <MarkedText (*change)(const MarkedText&)>
Expected<Value> changed_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "method", {}));
  TANDEM_TRY(in.budget().step_bytes(self.text.size() * 4));
  return in.string(change(self.text));
}

MarkedText swap_case(const MarkedText& text) {
  return map_characters(text, [](std::string& out, char32_t c) {
    is_upper(c) ? append_lower(out, c) : append_upper(out, c);
  });
}

template <Side side>
Expected<Value> justify_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "center", {"width", "fillchar"}, 1));
  TANDEM_ASSIGN(const Int width, int_argument(bound[0], 0, "width"));
  if (width > kMaxWidth) return fail_value("a width above 100000 is not supported");
  std::string fill = " ";
  if (bound[1] != nullptr) {
    TANDEM_ASSIGN(const MarkedText* given, text_argument(bound[1], "fillchar"));
    fill = given->text();
    if (code_points_of(fill) != 1) {
      return fail_value("The fill character must be exactly one character long");
    }
  }
  return in.string(justify(self.text, static_cast<size_t>(std::max<Int>(width, 0)), side, fill));
}

Expected<Value> zfill_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "zfill", {"width"}, 1));
  TANDEM_ASSIGN(const Int width, int_argument(bound[0], 0, "width"));
  if (width > kMaxWidth) return fail_value("a width above 100000 is not supported");
  const bool sign = self.text.text().starts_with('-') || self.text.text().starts_with('+');
  const size_t head = sign ? 1 : 0;
  MarkedText out = self.text.slice(0, head);
  const auto wanted = static_cast<size_t>(std::max<Int>(width, 0));
  for (size_t i = self.code_points; i < wanted; ++i) out.append("0", false);
  out.append(self.text, head, self.text.size());
  return in.string(std::move(out));
}

template <bool suffix>
Expected<Value> remove_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "removeprefix", {"prefix"}, 1));
  TANDEM_ASSIGN(const MarkedText* part, text_argument(bound[0], "removeprefix() argument"));
  const std::string& all = self.text.text();
  const bool there = suffix ? all.ends_with(part->text()) : all.starts_with(part->text());
  const size_t length = there ? part->size() : 0;
  return in.string(suffix ? self.text.slice(0, all.size() - length)
                          : self.text.slice(length, all.size()));
}

Expected<Value> join_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "join", {"iterable"}, 1));
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(*bound[0]));
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].string() == nullptr) {
      return fail_value(
          "sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
    if (i > 0) out.append(self.text);
    out.append(items[i].string()->text);
    TANDEM_TRY(in.budget().step_bytes(items[i].text().size() + self.text.size()));
    if (out.size() > in.budget().limits().max_live_bytes) {
      return fail_value("needs more than {} bytes of memory", in.budget().limits().max_live_bytes);
    }
  }
  return in.string(std::move(out));
}

Expected<Value> format_method(Interpreter& in, const String& self, const Arguments& arguments) {
  return brace_format(in.budget(), self.text, arguments);
}

Expected<Value> expandtabs_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "expandtabs", {"tabsize"}));
  TANDEM_ASSIGN(const Int given, int_argument(bound[0], 8, "tabsize"));
  if (given > 64) return fail_value("a tab size above 64 is not supported");
  const auto size = static_cast<size_t>(std::max<Int>(given, 0));
  size_t column = 0;
  return in.string(map_characters(self.text, [&](std::string& out, char32_t c) {
    if (c == '\t') {
      const size_t blanks = size == 0 ? 0 : size - column % size;
      out.append(blanks, ' ');
      column += blanks;
      return;
    }
    utf8_append(out, c);
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }));
}

// isalpha and others: not empty, and true of every character.
template <bool (*holds)(char32_t)>
Expected<Value> all_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "method", {}));
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  std::string_view rest = self.text.text();
  if (rest.empty()) return Value(false);
  while (!rest.empty()) {
    const CodePoint c = utf8_decode(rest);
    if (!holds(c.value)) return Value(false);
    rest.remove_prefix(std::max<size_t>(1, c.length));
  }
  return Value(true);
}

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }

// isupper, islower: some cased character, and none of the other case.
template <bool upper>
Expected<Value> case_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "method", {}));
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  std::string_view rest = self.text.text();
  bool cased = false;
  while (!rest.empty()) {
    const CodePoint c = utf8_decode(rest);
    const bool right = upper ? is_upper(c.value) : is_lower(c.value);
    if (is_cased(c.value) && !right) return Value(false);
    cased = cased || right;
    rest.remove_prefix(std::max<size_t>(1, c.length));
  }
  return Value(cased);
}

Expected<Value> isascii_method(Interpreter&, const String& self, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "isascii", {}));
  return Value(self.ascii());
}

Expected<Value> istitle_method(Interpreter& in, const String& self, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "istitle", {}));
  TANDEM_TRY(in.budget().step_bytes(self.text.size()));
  const std::string& all = self.text.text();
  const bool cased = std::any_of(all.begin(), all.end(), [](char c) {
    return (c & 0x80) != 0 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  });
  return Value(cased && title(self.text).text() == all);
}

constexpr Entry kMethods[] = {
    {"capitalize", changed_method<capitalize>},
    {"casefold", changed_method<to_lower>},
    {"center", justify_method<Side::kBoth>},
    {"count", count_method},
    {"endswith", starts_method<true>},
    {"expandtabs", expandtabs_method},
    {"find", find_method<false, false>},
    {"format", format_method},
    {"index", find_method<false, true>},
    {"isalnum", all_method<is_alphanumeric>},
    {"isalpha", all_method<is_letter>},
    {"isascii", isascii_method},
    {"isdecimal", all_method<is_decimal>},
    {"isdigit", all_method<is_decimal>},
    {"islower", case_method<false>},
    {"isnumeric", all_method<is_numeric>},
    {"isprintable", all_method<is_printable>},
    {"isspace", all_method<is_python_space>},
    {"istitle", istitle_method},
    {"isupper", case_method<true>},
    {"join", join_method},
    {"ljust", justify_method<Side::kLeft>},
    {"lower", changed_method<to_lower>},
    {"lstrip", strip_method<Side::kLeft>},
    {"partition", partition_method<false>},
    {"removeprefix", remove_method<false>},
    {"removesuffix", remove_method<true>},
    {"replace", replace_method},
    {"rfind", find_method<true, false>},
    {"rindex", find_method<true, true>},
    {"rjust", justify_method<Side::kRight>},
    {"rpartition", partition_method<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<Side::kRight>},
    {"split", split_method<false>},
    {"splitlines", splitlines_method},
    {"startswith", starts_method<false>},
    {"strip", strip_method<Side::kBoth>},
    {"swapcase", changed_method<swap_case>},
    {"title", changed_method<title>},
    {"upper", changed_method<to_upper>},
    {"zfill", zfill_method},
};

const Entry* find_method(std::string_view name) {
  const auto* it = std::find_if(
      std::begin(kMethods), std::end(kMethods), [name](const Entry& e) { return e.name == name; });
  return it == std::end(kMethods) ? nullptr : it;
}

}  // namespace

bool has_string_method(std::string_view name) { return find_method(name) != nullptr; }

Expected<Value> call_string_method(Interpreter& interpreter,
                                   const String& receiver,
                                   std::string_view name,
                                   const Arguments& arguments) {
  return find_method(name)->method(interpreter, receiver, arguments);
}

}  // namespace tandem::text::jinja
