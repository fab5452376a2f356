// Filters on texts.

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace tandem::text::jinja {
namespace {

constexpr Int kMaxWidth = 100'000;

template <MarkedText (*change)(const MarkedText&)>
Expected<Value> changed(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "filter", {}));
  TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
  TANDEM_TRY(in.budget().step_bytes(text.size() * 4));
  return in.string(change(text));
}

// Jinja2's own title(): a word begins behind a blank, a hyphen or an opening bracket.
MarkedText jinja_title(const MarkedText& text) {
  bool begins = true;
  return map_characters(text, [&begins](std::string& out, char32_t c) {
    begins ? append_upper(out, c) : append_lower(out, c);
    begins = is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

Expected<Value> trim(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "trim", {"chars"}));
  TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
  if (bound[0] == nullptr || bound[0]->is_none()) {
    return in.string(strip(text, Side::kBoth, nullptr));
  }
  TANDEM_ASSIGN(const MarkedText* chars, text_argument(bound[0], "chars"));
  TANDEM_TRY(in.budget().step_bytes(text.size() * (1 + chars->size() / 16)));
  return in.string(strip(text, Side::kBoth, chars));
}

Expected<Value> replace_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "replace", {"old", "new", "count"}, 2));
  TANDEM_ASSIGN(MarkedText text, str(in.budget(), input));
  TANDEM_ASSIGN(const Value as_string, in.string(std::move(text)));
  Arguments rest = arguments;
  for (auto& [name, value] : rest.named) {
    if (name == "count" && value.is_none()) value = Value(Int{-1});
  }
  if (rest.positional.size() == 3 && rest.positional[2].is_none()) rest.positional.pop_back();
  return call_string_method(in, *as_string.string(), "replace", rest);
}

Expected<Value> truncate(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "truncate", {"length", "killwords", "end", "leeway"}));
  TANDEM_ASSIGN(const Int length, int_argument(bound[0], 255, "length"));
  TANDEM_ASSIGN(const bool kill_words, bool_argument(bound[1], false));
  MarkedText end("...", false);
  if (bound[2] != nullptr) {
    TANDEM_ASSIGN(const MarkedText* given, text_argument(bound[2], "end"));
    end = *given;
  }
  const bool no_leeway = bound[3] == nullptr || bound[3]->is_none();
  TANDEM_ASSIGN(const Int leeway, int_argument(no_leeway ? nullptr : bound[3], 5, "leeway"));
  const auto end_length = static_cast<Int>(code_points_of(end.text()));
  if (length < end_length) return fail_value("expected length >= {}", int_text(end_length));
  if (leeway < 0) return fail_value("expected leeway >= 0");
  TANDEM_ASSIGN(MarkedText text, str(in.budget(), input));
  const auto have = static_cast<Int>(code_points_of(text.text()));
  if (have <= length || have - length <= leeway) return in.string(std::move(text));
  MarkedText out = first_characters(text, static_cast<size_t>(length - end_length));
  if (!kill_words) {
    const size_t blank = out.text().rfind(' ');
    if (blank != std::string::npos) out = out.slice(0, blank);
  }
  out.append(end);
  return in.string(std::move(out));
}

Expected<Value> indent(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "indent", {"width", "first", "blank"}));
  MarkedText indention;
  if (bound[0] != nullptr && bound[0]->string() != nullptr) {
    indention = bound[0]->string()->text;
  } else {
    TANDEM_ASSIGN(const Int width, int_argument(bound[0], 4, "width"));
    if (width > kMaxWidth) return fail_value("a width above 100000 is not supported");
    indention.append(std::string(static_cast<size_t>(std::max<Int>(width, 0)), ' '), false);
  }
  TANDEM_ASSIGN(const bool first, bool_argument(bound[1], false));
  TANDEM_ASSIGN(const bool blank, bool_argument(bound[2], false));
  TANDEM_ASSIGN(MarkedText text, str(in.budget(), input));
  text.append("\n", false);  // this quirk makes splitlines keep a last empty line
  const std::vector<MarkedText> lines = split_lines(text, false);
  if (lines.size() > kMaxParts) return fail_value("a text has more than {} parts", kMaxParts);
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", false);
    const bool wanted = i == 0 ? first : blank || !lines[i].empty();
    if (wanted) out.append(indention);
    out.append(lines[i]);
    TANDEM_TRY(in.budget().step_bytes(lines[i].size() + indention.size()));
    if (out.size() > in.budget().limits().max_live_bytes) {
      return fail_value("needs more than {} bytes of memory", in.budget().limits().max_live_bytes);
    }
  }
  return in.string(std::move(out));
}

Expected<Value> center(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "center", {"width"}));
  TANDEM_ASSIGN(const Int width, int_argument(bound[0], 80, "width"));
  if (width > kMaxWidth) return fail_value("a width above 100000 is not supported");
  TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
  return in.string(justify(text, static_cast<size_t>(std::max<Int>(width, 0)), Side::kBoth, " "));
}

// "%s and %s" | format(a, b), or with names.
Expected<Value> format(Interpreter& in, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return fail_value("can't handle positional and keyword arguments at the same time");
  }
  TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
  if (arguments.named.empty()) {
    TANDEM_ASSIGN(const Value values,
                  make_sequence(in.budget(), SequenceKind::kTuple, arguments.positional));
    return percent_format(in.budget(), text, values);
  }
  std::vector<Dict::Entry> entries;
  for (const auto& [name, value] : arguments.named) {
    TANDEM_ASSIGN(Value key, in.string(name));
    entries.emplace_back(std::move(key), value);
  }
  TANDEM_ASSIGN(const Value values, make_dict(in.budget(), std::move(entries)));
  return percent_format(in.budget(), text, values);
}

Expected<Value> wordcount(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "wordcount", {}));
  TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
  Int count = 0;
  bool inside = false;
  for (std::string_view rest = text.text(); !rest.empty();) {
    const CodePoint c = utf8_decode(rest);
    const bool word = is_letter(c.value) || is_numeric(c.value) || c.value == '_';
    count += word && !inside;
    inside = word;
    rest.remove_prefix(std::max<size_t>(1, c.length));
  }
  return Value(count);
}

// Percent-encoding; in the parts of a query '/' is encoded and a blank is '+'.
std::string percent_encoded(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) || c == '_' || c == '.' || c == '-' ||
                                       c == '~' || (c == '/' && !query));
    if (plain) {
      out += c;
    } else if (query && c == ' ') {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

Expected<Value> urlencode(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "urlencode", {}));
  const bool query = input.dict() != nullptr || input.sequence() != nullptr;
  if (!query) {
    TANDEM_ASSIGN(const MarkedText text, str(in.budget(), input));
    return in.string(MarkedText(percent_encoded(text.text(), false), text.any_untrusted()));
  }
  std::vector<Dict::Entry> entries;
  if (input.dict() != nullptr) {
    entries = input.dict()->entries;
  } else {
    TANDEM_ASSIGN(const std::vector<Value> pairs, in.iterate(input));
    for (const Value& item : pairs) {
      TANDEM_ASSIGN(const std::vector<Value> pair, in.iterate(item));
      if (pair.size() != 2) return fail_value("urlencode needs pairs of key and value");
      entries.emplace_back(pair[0], pair[1]);
    }
  }
  std::string out;
  for (const auto& [key, value] : entries) {
    TANDEM_ASSIGN(const MarkedText name, str(in.budget(), key));
    TANDEM_ASSIGN(const MarkedText text, str(in.budget(), value));
    TANDEM_TRY(in.budget().step_bytes(name.size() + text.size()));
    if (!out.empty()) out += '&';
    out += percent_encoded(name.text(), true) + "=" + percent_encoded(text.text(), true);
    if (out.size() > in.budget().limits().max_output_bytes) {
      return fail_value("writes more than {} bytes", in.budget().limits().max_output_bytes);
    }
  }
  return in.string(MarkedText(std::move(out), has_untrusted(input)));
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  if (name == "upper") return changed<to_upper>;
  if (name == "lower") return changed<to_lower>;
  if (name == "capitalize") return changed<capitalize>;
  if (name == "title") return changed<jinja_title>;
  if (name == "trim") return trim;
  if (name == "replace") return replace_filter;
  if (name == "truncate") return truncate;
  if (name == "indent") return indent;
  if (name == "center") return center;
  if (name == "format") return format;
  if (name == "wordcount") return wordcount;
  if (name == "urlencode") return urlencode;
  return nullptr;
}

}  // namespace tandem::text::jinja
