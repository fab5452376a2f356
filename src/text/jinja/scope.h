#pragma once
// Names and loops while a template runs. Owned by the interpreter; one thread.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace tandem::text::jinja {

// Names of one block, and the block around it. Views are into the template's tree.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> names;
  bool pinned = false;  // a macro refers to it: it lives to the end of the rendering

  void set(std::string_view name, Value value) {
    for (auto& [known, held] : names) {
      if (known == name) {
        held = std::move(value);
        return;
      }
    }
    names.emplace_back(name, std::move(value));
  }
  // Here or further out; null if there is none.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      for (const auto& [known, held] : scope->names) {
        if (known == name) return &held;
      }
    }
    return nullptr;
  }
};

// What namespace() makes: the one value that changes.
struct Namespace {
  std::vector<std::pair<std::string, Value>> members;

  const Value* find(std::string_view name) const {
    for (const auto& [known, value] : members) {
      if (known == name) return &value;
    }
    return nullptr;
  }
};

struct Stmt;

// The variable `loop`. Items that pass the loop's condition are found one ahead at most, as in
// Jinja2, since the condition may read what the body changes.
struct Loop {
  const Stmt* stmt = nullptr;
  Scope* outer = nullptr;  // where the loop stands; valid while active
  bool active = true;      // still running
  Value list;              // what is walked: a list
  int depth = 1;           // of the value, as for lists
  size_t next_item = 0;    // of the list, to be looked at
  bool all_pass = true;    // no condition, or the list holds only what passed it
  bool has_ahead = false;
  Value ahead;  // the item after the current one, once looked for
  bool has_previous = false;
  Value previous;
  Value current;
  int64_t index0 = -1;
  int64_t length = -1;  // known once asked for
  int depth0 = 0;       // loops of this statement around it
  bool has_changed_values = false;
  std::vector<Value> changed_values;  // of the last loop.changed()
};

}  // namespace tandem::text::jinja
