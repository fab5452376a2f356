#pragma once
// Reading small files and looking at paths. Every error names the path. Nothing here blocks on a
// pipe or reads without a bound. Any thread.

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "system/unique_fd.h"

namespace tandem::system {

// Opens for reading. Symbolic links are followed (model caches are made of them); what they lead to
// must be a regular file: a pipe, device or directory is kInvalidArgument.
Expected<UniqueFd> open_regular_file(const std::string& path);

// The whole content, at most `max_bytes`; a longer file is kInvalidArgument. Works on /proc and
// /sys, whose files claim size 0.
Expected<std::string> read_text_file(const std::string& path, size_t max_bytes);

// False also when the path cannot be looked at.
bool path_exists(const std::string& path);
bool is_directory(const std::string& path);
bool is_regular_file(const std::string& path);

// Names (not paths) without "." and "..", sorted by byte. More than `max_entries` is an error.
Expected<std::vector<std::string>> list_directory(const std::string& path,
                                                  size_t max_entries = 65536);

// The folder that holds the running program, without a trailing slash.
Expected<std::string> executable_directory();

}  // namespace tandem::system
