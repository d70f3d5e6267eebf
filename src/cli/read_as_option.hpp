#pragma once

#include <CLI/CLI.hpp>

#include "io/jsonl/schema.hpp"

namespace evenkeel::cli {

/// Adds --read-as NAME=FORMAT,... to a command that reads JSON lines: how they write fields where they do not
/// tell, as fields.NAME.read_as says it in a configuration. `told` gets it, and outlives the command.
void add_read_as_option(CLI::App& command, ToldFormats& told);

}  // namespace evenkeel::cli
