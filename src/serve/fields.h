#pragma once
// Reads typed fields of a JSON request. null is the same as absent. A wrong type is a RequestError
// that names the field, what was found and what is accepted. Pure; any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "frontend/request_error.h"

namespace tandem::serve {

using frontend::Checked;
using frontend::invalid;
using frontend::RequestError;

// Borrows the object.
class FieldReader {
 public:
  explicit FieldReader(const OrderedJson& object) : object_(object) {}

  // Null if absent or JSON null.
  const OrderedJson* find(std::string_view name) const;

  Checked<std::optional<double>> number(const char* name) const;
  // Whole numbers within 64 bits signed; 3.0 is not one.
  Checked<std::optional<int64_t>> integer(const char* name) const;
  Checked<std::optional<bool>> boolean(const char* name) const;
  Checked<std::optional<std::string>> string(const char* name) const;
  Checked<std::optional<std::vector<int64_t>>> integers(const char* name, size_t most) const;
  // A string counts as a list of one if `allow_single`.
  Checked<std::vector<std::string>> strings(const char* name, size_t most, bool allow_single) const;

 private:
  const OrderedJson& object_;
};

// "a number", "a string", …: how messages call what was found.
std::string describe(const OrderedJson& value);

}  // namespace tandem::serve
