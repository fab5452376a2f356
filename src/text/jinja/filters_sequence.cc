// Filters on lists.

#include <algorithm>
#include <unordered_map>

#include "text/jinja/attribute_path.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/text_ops.h"

namespace tandem::text::jinja {
namespace {

Expected<Value> generator(Interpreter& in, std::vector<Value> items) {
  return make_sequence(in.budget(), SequenceKind::kGenerator, std::move(items));
}

Expected<Value> list_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "list", {}));
  TANDEM_ASSIGN(std::vector<Value> items, in.iterate(input));
  return in.list(std::move(items));
}

Expected<Value> first(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "first", {}));
  const Sequence* sequence = input.sequence();
  if (sequence != nullptr && sequence->kind == SequenceKind::kGenerator) {
    if (sequence->consumed < sequence->items.size()) return sequence->items[sequence->consumed++];
  } else if (sequence != nullptr) {
    if (!sequence->items.empty()) return sequence->items[0];
  } else if (const String* string = input.string(); string != nullptr) {
    if (string->code_points > 0) return sub_string(in.budget(), *string, 0, 1);
  } else {
    TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
    if (!items.empty()) return items[0];
  }
  return Value::undefined("No first item, sequence was empty.");
}

Expected<Value> last(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "last", {}));
  const Sequence* sequence = input.sequence();
  if (sequence != nullptr && sequence->kind == SequenceKind::kGenerator) {
    return fail_value("'generator' object is not reversible");
  }
  if (sequence != nullptr && !sequence->items.empty()) return sequence->items.back();
  if (const String* string = input.string(); string != nullptr && string->code_points > 0) {
    return sub_string(in.budget(), *string, string->code_points - 1, string->code_points);
  }
  if (sequence == nullptr && input.string() == nullptr) {
    TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
    if (!items.empty()) return items.back();
  }
  return Value::undefined("No last item, sequence was empty.");
}

Expected<Value> reverse(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_TRY(bind_arguments(arguments, "reverse", {}));
  if (input.string() != nullptr) {
    return slice(in.budget(), input, Value(), Value(), Value(Int{-1}));
  }
  TANDEM_ASSIGN(std::vector<Value> items, in.iterate(input));
  std::reverse(items.begin(), items.end());
  return generator(in, std::move(items));
}

Expected<Value> join(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "join", {"d", "attribute"}));
  MarkedText separator;
  if (bound[0] != nullptr) {
    TANDEM_ASSIGN(separator, str(in.budget(), *bound[0]));
  }
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  TANDEM_ASSIGN(const AttributePath path, AttributePath::parse(in, bound[1]));
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    TANDEM_ASSIGN(const Value item, path.get(in, items[i]));
    TANDEM_ASSIGN(const MarkedText text, str(in.budget(), item));
    if (i > 0) out.append(separator);
    out.append(text);
    TANDEM_TRY(in.budget().step_bytes(text.size() + separator.size()));
    if (out.size() > in.budget().limits().max_live_bytes) {
      return fail_value("needs more than {} bytes of memory", in.budget().limits().max_live_bytes);
    }
  }
  return in.string(std::move(out));
}

// What a value is compared by: its member, and small letters unless the case counts.
Expected<Value> sort_key(Interpreter& in,
                         const AttributePath& path,
                         const Value& item,
                         bool case_sensitive) {
  TANDEM_ASSIGN(Value key, path.get(in, item));
  if (case_sensitive || key.string() == nullptr) return key;
  TANDEM_TRY(in.budget().step_bytes(key.text().size() * 4));
  return in.string(to_lower(key.string()->text));
}

struct Keyed {
  std::vector<Value> keys;  // for a path of several members
  Value item;
};

// Whether `a` goes before `b`. Errors: types without an order.
Expected<bool> goes_before(Interpreter& in, const Keyed& a, const Keyed& b, bool reversed) {
  for (size_t i = 0; i < a.keys.size(); ++i) {
    TANDEM_ASSIGN(const int result,
                  reversed ? order(in.budget(), b.keys[i], a.keys[i])
                           : order(in.budget(), a.keys[i], b.keys[i]));
    if (result != 0) return result < 0;
  }
  return false;
}

// A merge sort from the bottom: stable, ends at the first error, and stays in bounds whatever the
// order says (NaN has none).
Expected<Value> sort_items(Interpreter& in, std::vector<Keyed> keyed, bool reversed) {
  std::vector<Keyed> merged;
  for (size_t width = 1; width < keyed.size(); width *= 2) {
    merged.clear();
    merged.reserve(keyed.size());
    for (size_t begin = 0; begin < keyed.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, keyed.size());
      const size_t end = std::min(begin + 2 * width, keyed.size());
      size_t left = begin;
      size_t right = middle;
      while (left < middle || right < end) {
        TANDEM_TRY(in.budget().step());
        bool take_right = left == middle;
        if (left < middle && right < end) {
          TANDEM_ASSIGN(take_right, goes_before(in, keyed[right], keyed[left], reversed));
        }
        merged.push_back(std::move(keyed[take_right ? right++ : left++]));
      }
    }
    keyed.swap(merged);
  }
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return in.list(std::move(items));
}

Expected<Value> sort(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "sort", {"reverse", "case_sensitive", "attribute"}));
  TANDEM_ASSIGN(const bool reversed, bool_argument(bound[0], false));
  TANDEM_ASSIGN(const bool case_sensitive, bool_argument(bound[1], false));
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  TANDEM_ASSIGN(const std::vector<AttributePath> paths, AttributePath::parse_several(in, bound[2]));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    Keyed entry{{}, item};
    for (const AttributePath& path : paths) {
      TANDEM_ASSIGN(Value key, sort_key(in, path, item, case_sensitive));
      entry.keys.push_back(std::move(key));
    }
    keyed.push_back(std::move(entry));
  }
  return sort_items(in, std::move(keyed), reversed);
}

Expected<Value> dictsort(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "dictsort", {"case_sensitive", "by", "reverse"}));
  TANDEM_ASSIGN(const bool case_sensitive, bool_argument(bound[0], false));
  TANDEM_ASSIGN(const MarkedText* by, text_argument(bound[1], "by"));
  TANDEM_ASSIGN(const bool reversed, bool_argument(bound[2], false));
  const bool by_value = by->text() == "value";
  if (!by->empty() && !by_value && by->text() != "key") {
    return fail_value("You can only sort by either \"key\" or \"value\"");
  }
  if (input.dict() == nullptr) return fail_value("'{}' is not a dict", type_name(input));
  std::vector<Keyed> keyed;
  const AttributePath itself;
  for (const auto& [key, value] : input.dict()->entries) {
    TANDEM_ASSIGN(Value sorted_by, sort_key(in, itself, by_value ? value : key, case_sensitive));
    TANDEM_ASSIGN(Value pair, make_sequence(in.budget(), SequenceKind::kTuple, {key, value}));
    keyed.push_back({{std::move(sorted_by)}, std::move(pair)});
  }
  return sort_items(in, std::move(keyed), reversed);
}

Expected<Value> unique(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "unique", {"case_sensitive", "attribute"}));
  TANDEM_ASSIGN(const bool case_sensitive, bool_argument(bound[0], false));
  TANDEM_ASSIGN(const AttributePath path, AttributePath::parse(in, bound[1]));
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  std::unordered_map<std::string, bool> seen_texts;
  std::vector<Value> seen;  // others than strings
  std::vector<Value> out;
  for (const Value& item : items) {
    TANDEM_ASSIGN(Value key, sort_key(in, path, item, case_sensitive));
    if (!is_hashable(key)) return fail_value("unhashable type: '{}'", type_name(key));
    bool fresh = false;
    if (key.string() != nullptr) {
      fresh = seen_texts.emplace(key.text(), true).second;
    } else {
      TANDEM_TRY(in.budget().step(1 + seen.size()));
      fresh = std::none_of(
          seen.begin(), seen.end(), [&](const Value& other) { return equals(other, key); });
      if (fresh) seen.push_back(std::move(key));
    }
    if (fresh) out.push_back(item);
  }
  return generator(in, std::move(out));
}

template <int sign>
Expected<Value> extreme(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "max", {"case_sensitive", "attribute"}));
  TANDEM_ASSIGN(const bool case_sensitive, bool_argument(bound[0], false));
  TANDEM_ASSIGN(const AttributePath path, AttributePath::parse(in, bound[1]));
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    TANDEM_ASSIGN(Value key, sort_key(in, path, items[i], case_sensitive));
    if (i > 0) {
      TANDEM_ASSIGN(const int result, order(in.budget(), key, best_key));
      if (result * sign <= 0) continue;
    }
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Expected<Value> sum(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "sum", {"attribute", "start"}));
  TANDEM_ASSIGN(const AttributePath path, AttributePath::parse(in, bound[0]));
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  Value total = bound[1] != nullptr ? *bound[1] : Value(Int{0});
  if (total.string() != nullptr) return fail_value("sum() can't sum strings");
  for (const Value& item : items) {
    TANDEM_ASSIGN(const Value part, path.get(in, item));
    TANDEM_ASSIGN(total, arithmetic(in.budget(), Operator::kAdd, total, part));
  }
  return total;
}

// batch: rows of `n`; the last is filled up if a filling is given.
Expected<Value> batch(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound,
                bind_arguments(arguments, "batch", {"linecount", "fill_with"}, 1));
  TANDEM_ASSIGN(const Int count, int_argument(bound[0], 0, "linecount"));
  if (count < 1) return fail_value("linecount must be at least 1");
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  std::vector<Value> rows;
  const auto size = static_cast<size_t>(std::min<Int>(count, static_cast<Int>(items.size()) + 1));
  for (size_t begin = 0; begin < items.size(); begin += size) {
    const size_t end = std::min(begin + size, items.size());
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(begin),
                           items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound[1] != nullptr && !bound[1]->is_none() && static_cast<Int>(row.size()) < count) {
      const Int most = in.budget().limits().max_range;
      if (count > most) return fail_value("linecount above {} is not supported", int_text(most));
      row.resize(static_cast<size_t>(count), *bound[1]);
    }
    TANDEM_ASSIGN(Value made, in.list(std::move(row)));
    rows.push_back(std::move(made));
  }
  return generator(in, std::move(rows));
}

// slice: `n` columns of nearly equal length.
Expected<Value> slice_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  TANDEM_ASSIGN(const auto bound, bind_arguments(arguments, "slice", {"slices", "fill_with"}, 1));
  TANDEM_ASSIGN(const Int count, int_argument(bound[0], 0, "slices"));
  if (count < 1 || count > in.budget().limits().max_range) {
    return fail_value("slices must be from 1 to {}", in.budget().limits().max_range);
  }
  TANDEM_ASSIGN(const std::vector<Value> items, in.iterate(input));
  const auto slices = static_cast<size_t>(count);
  const size_t each = items.size() / slices;
  const size_t extra = items.size() % slices;
  std::vector<Value> out;
  size_t begin = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t end = begin + each + (i < extra ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<std::ptrdiff_t>(begin),
                              items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound[1] != nullptr && !bound[1]->is_none() && i >= extra) column.push_back(*bound[1]);
    begin = end;
    TANDEM_ASSIGN(Value made, in.list(std::move(column)));
    out.push_back(std::move(made));
  }
  return generator(in, std::move(out));
}

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  if (name == "list") return list_filter;
  if (name == "first") return first;
  if (name == "last") return last;
  if (name == "reverse") return reverse;
  if (name == "join") return join;
  if (name == "sort") return sort;
  if (name == "dictsort") return dictsort;
  if (name == "unique") return unique;
  if (name == "min") return extreme<-1>;
  if (name == "max") return extreme<1>;
  if (name == "sum") return sum;
  if (name == "batch") return batch;
  if (name == "slice") return slice_filter;
  return nullptr;
}

}  // namespace tandem::text::jinja
