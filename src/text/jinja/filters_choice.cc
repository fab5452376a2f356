// map, select and reject, and groupby: filters that use members, tests and other filters.

#include <algorithm>

#include "text/jinja/attribute_path.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"

namespace tandem::text::jinja {
namespace {

Expected<Value> generator(Interpreter& in, std::vector<Value> items) {
  return make_sequence(in.budget(), SequenceKind::kGenerator, std::move(items));
}

// The arguments behind the first `skipped` ones.
Arguments behind(const Arguments& arguments, size_t skipped) {
  Arguments rest;
  for (size_t i = skipped; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  rest.named = arguments.named;
  return rest;
}

// map(attribute=…, default=…) or map('filter', …).
Expected<Value> map(Interpreter& in, const Value& input, const Arguments& arguments) {
  std::vector<Value> out;
  if (!is_true(input)) return generator(in, {});  // none, too, as in Jinja2
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  if (arguments.positional.empty()) {
    TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "map", {"attribute", "default"}));
    if (bound[0] == nullptr) return fail_value("map requires a filter argument");
    TANDEM_ASSIGN(const AttributePath path, AttributePath::parse(in, bound[0]));
    for (const Value& item : items) {
      TANDEM_ASSIGN(Value member, path.get(in, item, bound[1]));
      out.push_back(std::move(member));
    }
    return generator(in, std::move(out));
  }
  TANDEM_ASSIGN(const MarkedText* name, text_argument(&arguments.positional[0], "a filter's name"));
  const Arguments rest = behind(arguments, 1);
  for (const Value& item : items) {
    TANDEM_TRY(in.budget().step());
    TANDEM_ASSIGN(Value mapped, in.apply_filter(name->text(), item, rest));
    out.push_back(std::move(mapped));
  }
  return generator(in, std::move(out));
}

// Keeps the items whose value (or member) passes the test, or those that fail it.
template <bool by_attribute, bool keep>
Expected<Value> select(Interpreter& in, const Value& input, const Arguments& arguments) {
  if (!is_true(input)) return generator(in, {});  // none, too, as in Jinja2
  AttributePath path;
  const size_t offset = by_attribute ? 1 : 0;
  if (by_attribute) {
    if (arguments.positional.empty()) return fail_value("Missing parameter for attribute name");
    TANDEM_ASSIGN(path, AttributePath::parse(in, &arguments.positional[0]));
  }
  const MarkedText* test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > offset) {
    TANDEM_ASSIGN(test, text_argument(&arguments.positional[offset], "a test's name"));
    rest = behind(arguments, offset + 1);
  }
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  std::vector<Value> out;
  for (const Value& item : items) {
    TANDEM_TRY(in.budget().step());
    TANDEM_ASSIGN(const Value tested, path.get(in, item));
    bool passes = is_true(tested);
    if (test != nullptr) {
      TANDEM_ASSIGN(passes, in.apply_test(test->text(), tested, rest));
    }
    if (passes == keep) out.push_back(item);
  }
  return generator(in, std::move(out));
}

// Pairs of a value and the list of items that have it as their member, in the values' order.
Expected<Value> groupby(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(
      const auto bound,
      bind_arguments(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1));
  TANDEM_ASSIGN(const AttributePath path, AttributePath::parse(in, bound[0]));
  TANDEM_ASSIGN(const bool case_sensitive, bool_argument(bound[2], false));
  Arguments sorting;
  sorting.named.emplace_back("attribute", *bound[0]);
  sorting.named.emplace_back("case_sensitive", Value(case_sensitive));
  TANDEM_ASSIGN(const Value sorted, in.apply_filter("sort", input, sorting));
  std::vector<Value> groups;
  std::vector<Value> members;
  Value group_key;
  Value compared;
  const auto close = [&]() -> Expected<void> {
    if (members.empty()) return {};
    TANDEM_ASSIGN(Value list, in.list(std::move(members)));
    members.clear();
    TANDEM_ASSIGN(Value pair,
                  make_sequence(in.budget(), SequenceKind::kTuple, {group_key, std::move(list)}));
    groups.push_back(std::move(pair));
    return {};
  };
  for (const Value& item : sorted.sequence()->items) {
    TANDEM_ASSIGN(const Value key, path.get(in, item, bound[1]));
    Value compared_now = key;
    if (!case_sensitive && key.string() != nullptr) {
      TANDEM_ASSIGN(compared_now, in.string(to_lower(key.string()->text)));
    }
    if (members.empty() || !equals(compared_now, compared)) {
      TANDEM_TRY(close());
      group_key = key;
      compared = compared_now;
    }
    members.push_back(item);
  }
  TANDEM_TRY(close());
  return in.list(std::move(groups));
}

}  // namespace

Filter find_choice_filter(std::string_view name) {
  if (name == "map") return map;
  if (name == "select") return select<false, true>;
  if (name == "reject") return select<false, false>;
  if (name == "selectattr") return select<true, true>;
  if (name == "rejectattr") return select<true, false>;
  if (name == "groupby") return groupby;
  return nullptr;
}

}  // namespace tandem::text::jinja
