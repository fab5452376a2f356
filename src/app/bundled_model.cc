#include "app/bundled_model.h"

#include <array>
#include <filesystem>

#include "system/files.h"

namespace tandem::app {

Expected<std::string> find_bundled_model() {
  TANDEM_ASSIGN(const std::string program, system::executable_directory());
  // <prefix>/bin/tandem with <prefix>/share/tandem/models; <source>/build/<preset>/tandem with
  // <source>/models.
  const std::array<std::string, 2> places = {program + "/../share/tandem/models/tandem-tiny-v3",
                                             program + "/../../models/tandem-tiny-v3"};
  for (const std::string& place : places) {
    if (system::is_regular_file(place + "/config.json")) {
      std::error_code error;
      const auto canonical = std::filesystem::canonical(place, error);
      return error ? place : canonical.string();
    }
  }
  return fail(
      Error{ErrorCode::kNotFound,
            fmt::format("the bundled model is neither at {} nor at {}", places[0], places[1]),
            "name a model folder: tandem serve MODEL"});
}

std::string default_model_name(const std::string& path) {
  std::filesystem::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  const std::string name = p.filename().string();
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

}  // namespace tandem::app
