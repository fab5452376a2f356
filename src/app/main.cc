// The program: subcommands, and wiring behind them.

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "app/serve_command.h"
#include "app/serve_options.h"
#include "app/version.h"

namespace {

int run(int argc, char** argv) {
  CLI::App program{"tandem: serves DeepSeek models on CPUs and GPUs, with the OpenAI API",
                   "tandem"};
  program.set_version_flag("--version", fmt::format("tandem {}", tandem::app::kVersion));
  tandem::app::ServeOptions options;
  CLI::App* serve = program.add_subcommand("serve", "Serve a model over HTTP");
  tandem::app::add_serve_options(*serve, options);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return program.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return program.exit(e);
  } catch (const CLI::ParseError& e) {
    fmt::print(
        stderr, "tandem: {} (see tandem {}--help)\n", e.what(), serve->parsed() ? "serve " : "");
    return 1;
  }
  // Checked here, since CLI11 would complain of the missing command before it names an unknown
  // word.
  if (!serve->parsed()) {
    fmt::print(stderr, "tandem: which command? See tandem --help\n");
    return 1;
  }
  const auto result = tandem::app::serve_command(options);
  if (!result) {
    fmt::print(stderr, "tandem: {}\n", result.error().to_line());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Exceptions are caught where libraries are called; what still gets here is a bug, and says so in
  // one line.
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tandem: unexpected failure: %s\n", e.what());
    return 1;
  }
}
