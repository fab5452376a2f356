#pragma once
// Where the bundled model lies: beside an installed program, or in the source tree that it was
// built from.

#include <string>

#include "base/error.h"

namespace tandem::app {

// kNotFound lists the places that were looked at.
Expected<std::string> find_bundled_model();

// "models/tandem-tiny-v3" -> "tandem-tiny-v3": the name that clients use unless --served-model-name
// says otherwise.
std::string default_model_name(const std::string& path);

}  // namespace tandem::app
