#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/callable.h"
#include "text/jinja/scope.h"

namespace tandem::text::jinja {
namespace {

// Below this a scan is faster than a hash table.
constexpr size_t kIndexedEntries = 9;

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

int nesting_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  if (const Loop* loop = value.loop()) return loop->depth;
  return 0;
}

// Depth, weight and marks of a container from those of its parts.
struct Shape {
  int depth = 1;
  size_t weight = 1;
  bool untrusted = false;

  void add(const Value& part) {
    depth = std::max(depth, nesting_of(part) + 1);
    weight += weight_of(part);
    untrusted = untrusted || has_untrusted(part);
  }
  Expected<void> check() const {
    if (depth > kMaxValueDepth) {
      return fail_value("a list or dict is nested deeper than {} levels", kMaxValueDepth);
    }
    if (weight > kMaxValueWeight) {
      return fail_value("a list or dict has more than {} parts", kMaxValueWeight);
    }
    return {};
  }
  template <class Container>
  void store(Container& container) const {
    container.depth = depth;
    container.weight = weight;
    container.untrusted = untrusted;
  }
};

// Numbers compare by value across int, bool and float.
bool number_equals(const Value& a, const Value& b, bool& both_numbers) {
  Int int_a = 0;
  Int int_b = 0;
  const Int* ia = a.integer_or_bool(int_a);
  const Int* ib = b.integer_or_bool(int_b);
  const double* da = a.get<double>();
  const double* db = b.get<double>();
  both_numbers = (ia != nullptr || da != nullptr) && (ib != nullptr || db != nullptr);
  if (!both_numbers) return false;
  if (ia != nullptr && ib != nullptr) return *ia == *ib;
  const double left = da != nullptr ? *da : static_cast<double>(*ia);
  const double right = db != nullptr ? *db : static_cast<double>(*ib);
  return left == right;
}

bool sequence_equals(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind == SequenceKind::kGenerator || a.kind == SequenceKind::kValues ||
      a.items.size() != b.items.size()) {
    return false;
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), equals);
}

bool dict_equals(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equals(entry.second, *other);
  });
}

}  // namespace

std::string_view Value::text() const {
  const String* held = string();
  return held != nullptr ? std::string_view(held->text.text()) : std::string_view();
}

const Value* Dict::find(std::string_view key) const {
  if (!string_index_.empty()) {
    const auto it = string_index_.find(key);
    return it == string_index_.end() ? nullptr : &entries[it->second].second;
  }
  for (const auto& [name, value] : entries) {
    if (const String* text = name.string(); text != nullptr && text->text.text() == key) {
      return &value;
    }
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.string() != nullptr) return find(key.text());
  for (const auto& [name, value] : entries) {
    if (equals(name, key)) return &value;
  }
  return nullptr;
}

void Dict::index_strings() {
  if (entries.size() < kIndexedEntries) return;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].first.string() != nullptr) string_index_.emplace(entries[i].first.text(), i);
  }
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.get<Int>() != nullptr) return "int";
  if (value.get<double>() != nullptr) return "float";
  if (value.string() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.name_space() != nullptr) return "Namespace";
  if (value.loop() != nullptr) return "LoopContext";
  if (value.callable() != nullptr) return "function";
  switch (value.sequence()->kind) {
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
    case SequenceKind::kGenerator:
      return "generator";
    case SequenceKind::kList:
      break;
  }
  return "list";
}

Expected<Value> make_string(Budget& budget, MarkedText text, bool html_safe) {
  const size_t bytes =
      sizeof(String) + text.size() + text.untrusted().size() * sizeof(text.untrusted()[0]);
  TANDEM_TRY(budget.step_bytes(text.size()));
  TANDEM_TRY(budget.take(bytes));
  auto made = std::make_shared<String>();
  made->budget = &budget;
  made->taken_bytes = bytes;
  made->html_safe = html_safe;
  made->code_points = count_code_points(text.text());
  made->text = std::move(text);
  return Value(Value::StringRef(std::move(made)));
}

Expected<Value> make_string(Budget& budget, std::string_view trusted_text) {
  return make_string(budget, MarkedText(std::string(trusted_text), false));
}

Value constant_string(std::string text) {
  auto made = std::make_shared<String>();
  made->code_points = count_code_points(text);
  made->text = MarkedText(std::move(text), false);
  return Value(Value::StringRef(std::move(made)));
}

Expected<Value> make_sequence(Budget& budget, SequenceKind kind, std::vector<Value> items) {
  Shape shape;
  for (const Value& item : items) shape.add(item);
  TANDEM_TRY(shape.check());
  const size_t bytes = sizeof(Sequence) + items.size() * sizeof(Value);
  TANDEM_TRY(budget.step_bytes(bytes));
  TANDEM_TRY(budget.take(bytes));
  auto made = std::make_shared<Sequence>();
  made->kind = kind;
  made->items = std::move(items);
  shape.store(*made);
  made->budget = &budget;
  made->taken_bytes = bytes;
  return Value(Value::SequenceRef(std::move(made)));
}

Expected<Value> make_dict(Budget& budget, std::vector<Dict::Entry> entries) {
  Shape shape;
  for (const auto& [key, value] : entries) {
    if (!is_hashable(key)) return fail_value("unhashable type: '{}'", type_name(key));
    shape.add(key);
    shape.add(value);
  }
  TANDEM_TRY(shape.check());
  const size_t bytes = sizeof(Dict) + entries.size() * 2 * sizeof(Dict::Entry);
  TANDEM_TRY(budget.step_bytes(bytes));
  TANDEM_TRY(budget.take(bytes));
  auto made = std::make_shared<Dict>();
  made->budget = &budget;
  made->taken_bytes = bytes;
  shape.store(*made);
  std::unordered_map<std::string_view, size_t> seen;
  for (auto& entry : entries) {
    Value* same = nullptr;
    if (entry.first.string() != nullptr) {
      const auto [it, fresh] = seen.emplace(entry.first.text(), made->entries.size());
      if (!fresh) same = &made->entries[it->second].second;
    } else {
      TANDEM_TRY(budget.step(1 + made->entries.size() / 16));
      same = const_cast<Value*>(made->find(entry.first));
    }
    if (same != nullptr) {
      *same = std::move(entry.second);
    } else {
      made->entries.push_back(std::move(entry));
    }
  }
  made->index_strings();
  return Value(Value::DictRef(std::move(made)));
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* flag = value.get<bool>()) return *flag;
  if (const Int* number = value.get<Int>()) return *number != 0;
  if (const double* number = value.get<double>()) return *number != 0.0;
  if (const String* string = value.string()) return !string->text.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  if (const Sequence* sequence = value.sequence()) {
    return sequence->kind == SequenceKind::kGenerator || !sequence->items.empty();
  }
  return true;
}

bool equals(const Value& a, const Value& b) {
  bool both_numbers = false;
  const bool same_number = number_equals(a, b, both_numbers);
  if (both_numbers) return same_number;
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.string() != nullptr && b.string() != nullptr) return a.text() == b.text();
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return sequence_equals(*a.sequence(), *b.sequence());
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return dict_equals(*a.dict(), *b.dict());
  if (a.name_space() != nullptr) return a.name_space() == b.name_space();
  if (a.loop() != nullptr) return a.loop() == b.loop();
  if (a.callable() != nullptr) return a.callable() == b.callable();
  return false;
}

bool is_hashable(const Value& value) {
  if (value.dict() != nullptr || value.is_undefined()) return false;
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return true;
  if (sequence->kind != SequenceKind::kTuple) return sequence->kind != SequenceKind::kList;
  return std::all_of(sequence->items.begin(), sequence->items.end(), is_hashable);
}

bool has_untrusted(const Value& value) {
  if (const String* string = value.string()) return string->text.any_untrusted();
  if (const Sequence* sequence = value.sequence()) return sequence->untrusted;
  if (const Dict* dict = value.dict()) return dict->untrusted;
  return false;
}

size_t weight_of(const Value& value) {
  if (const String* string = value.string()) return 1 + string->text.size() / 64;
  if (const Sequence* sequence = value.sequence()) return sequence->weight;
  if (const Dict* dict = value.dict()) return dict->weight;
  return 1;
}

}  // namespace tandem::text::jinja
