#pragma once
// Values of the template language: Python's, as far as templates see them. Strings, lists, tuples
// and dicts never change once made (Jinja2's immutable sandbox), so copies share them; only a
// namespace changes. Values live within one rendering (constants: within the template) and belong
// to its thread.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "text/jinja/budget.h"
#include "text/marked_text.h"

namespace tandem::text::jinja {

// Python's integers have no bound; here 128 bits, and passing them is an error.
using Int = __int128;

// Nesting of lists and dicts.
constexpr int kMaxValueDepth = 128;
// Nodes of a value when its shared parts are counted as often as they are seen, so that walking one
// (printing, comparing) is bounded. A string counts 1 for each 64 bytes.
constexpr size_t kMaxValueWeight = 1 << 22;

struct Callable;   // callable.h
struct Loop;       // scope.h
struct Namespace;  // scope.h
class Value;

struct String {
  MarkedText text;
  size_t code_points = 0;
  // Marked by the filters `safe` and `escape`: text added to it by + is HTML-escaped, as
  // Jinja2 does even without autoescape. (Its methods give plain text here.)
  bool html_safe = false;
  Budget* budget = nullptr;  // null: a constant of the template
  size_t taken_bytes = 0;

  String() = default;
  String(const String&) = delete;
  String& operator=(const String&) = delete;
  ~String() {
    if (budget != nullptr) budget->release(taken_bytes);
  }
  bool ascii() const { return code_points == text.size(); }
};

// What is like a list. A generator is walked once, has no length and is always true.
enum class SequenceKind { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

struct Sequence;
struct Dict;

// The value of a name or member that is not there. What it may be used for is decided by Jinja2:
// printing and testing; everything else is the error `message`.
struct Undefined {
  std::string message;
};

class Value {
 public:
  struct None {};
  using UndefinedRef = std::shared_ptr<const Undefined>;
  using StringRef = std::shared_ptr<const String>;
  using SequenceRef = std::shared_ptr<const Sequence>;
  using DictRef = std::shared_ptr<const Dict>;
  using LoopRef = std::shared_ptr<Loop>;

  Value() : held_(None{}) {}
  Value(bool value) : held_(value) {}                     // NOLINT(google-explicit-constructor)
  Value(Int value) : held_(value) {}                      // NOLINT(google-explicit-constructor)
  Value(double value) : held_(value) {}                   // NOLINT(google-explicit-constructor)
  Value(StringRef value) : held_(std::move(value)) {}     // NOLINT
  Value(SequenceRef value) : held_(std::move(value)) {}   // NOLINT
  Value(DictRef value) : held_(std::move(value)) {}       // NOLINT
  Value(UndefinedRef value) : held_(std::move(value)) {}  // NOLINT
  Value(Namespace* value) : held_(value) {}               // NOLINT
  Value(const Callable* value) : held_(value) {}          // NOLINT
  Value(LoopRef value) : held_(std::move(value)) {}       // NOLINT
  static Value integer(int64_t value) { return Value(Int{value}); }
  static Value undefined(std::string message) {
    return Value(std::make_shared<const Undefined>(Undefined{std::move(message)}));
  }

  template <class T>
  const T* get() const {
    return std::get_if<T>(&held_);
  }
  bool is_undefined() const { return get<UndefinedRef>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  bool is_bool() const { return get<bool>() != nullptr; }
  const String* string() const { return pointer<StringRef>(); }
  const Sequence* sequence() const { return pointer<SequenceRef>(); }
  const Dict* dict() const { return pointer<DictRef>(); }
  const Undefined* undefined() const { return pointer<UndefinedRef>(); }
  Namespace* name_space() const { return raw<Namespace*>(); }
  const Callable* callable() const { return raw<const Callable*>(); }
  Loop* loop() const { return pointer<LoopRef>(); }
  // An integer or a bool, which Python counts as one.
  const Int* integer_or_bool(Int& storage) const {
    if (const bool* flag = get<bool>()) {
      storage = *flag ? 1 : 0;
      return &storage;
    }
    return get<Int>();
  }
  // The text of a string value; empty for others.
  std::string_view text() const;

 private:
  template <class Ref>
  auto pointer() const -> decltype(std::declval<Ref>().get()) {
    const Ref* ref = get<Ref>();
    return ref != nullptr ? ref->get() : nullptr;
  }
  template <class Raw>
  Raw raw() const {
    const Raw* pointer = get<Raw>();
    return pointer != nullptr ? *pointer : nullptr;
  }

  std::variant<None,
               bool,
               Int,
               double,
               StringRef,
               SequenceRef,
               DictRef,
               UndefinedRef,
               Namespace*,
               const Callable*,
               LoopRef>
      held_;
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;
  size_t weight = 1;
  bool untrusted = false;       // whether anything in it is
  mutable size_t consumed = 0;  // of a generator
  Budget* budget = nullptr;
  size_t taken_bytes = 0;

  Sequence() = default;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() {
    if (budget != nullptr) budget->release(taken_bytes);
  }
};

struct Dict {
  using Entry = std::pair<Value, Value>;
  std::vector<Entry> entries;  // in order of insertion, keys unique
  int depth = 1;
  size_t weight = 1;
  bool untrusted = false;  // whether anything in it is
  Budget* budget = nullptr;
  size_t taken_bytes = 0;

  Dict() = default;
  Dict(const Dict&) = delete;
  Dict& operator=(const Dict&) = delete;
  ~Dict() {
    if (budget != nullptr) budget->release(taken_bytes);
  }

  // Null if there is no such key.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  // Fills the index; called once, when the entries are complete.
  void index_strings();

 private:
  std::unordered_map<std::string_view, size_t> string_index_;  // for larger ones
};

// "str", "int", "list", "dict", "NoneType" …: Python's names, for messages.
std::string type_name(const Value& value);

// The kind of error is in the words, as Python has them.
template <class... Args>
std::unexpected<Error> fail_value(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// --- Making values. Each pays for its memory. ---

Expected<Value> make_string(Budget& budget, MarkedText text, bool html_safe = false);
Expected<Value> make_string(Budget& budget, std::string_view trusted_text);
Expected<Value> make_sequence(Budget& budget, SequenceKind kind, std::vector<Value> items);
// A key that comes again replaces the value. Errors: a key that is a list or dict.
Expected<Value> make_dict(Budget& budget, std::vector<Dict::Entry> entries);
// A constant of the template: not paid for, shared by renderings.
Value constant_string(std::string text);

// --- Python's rules. ---

// `bool(value)`.
bool is_true(const Value& value);
// `a == b`. Depth is bounded by kMaxValueDepth.
bool equals(const Value& a, const Value& b);
// Whether Python could use it as a key.
bool is_hashable(const Value& value);
// Whether anything in it comes from untrusted text.
bool has_untrusted(const Value& value);
// See kMaxValueWeight.
size_t weight_of(const Value& value);

}  // namespace tandem::text::jinja
