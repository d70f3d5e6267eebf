#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel::cli {

/// Validators of an option's value. Their errors state what is wrong and which values are allowed.

/// Accepts a decimal integer in [least, most].
[[nodiscard]] CLI::Validator whole_number(std::int64_t least,
                                          std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// Accepts a decimal integer below 2^64.
[[nodiscard]] CLI::Validator seed_number();
/// Accept a decimal number, with or without a fraction and an exponent: any number, a number above 0, or a
/// number in [0, most].
[[nodiscard]] CLI::Validator decimal_number();
[[nodiscard]] CLI::Validator positive_number();
[[nodiscard]] CLI::Validator decimal_number(int most);
/// Converts a number of tokens with a unit to one without, such as 32k to 32768. Does not change other
/// strings, which the option's check then accepts or rejects.
[[nodiscard]] CLI::Validator token_count_transform();
/// Accepts one of these words in any case, and converts it to lowercase.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> words);

/// Makes every option of `app` and its subcommands reject empty values and values that look like options, and
/// every flag reject values.
void reject_options_as_values(CLI::App& app);

/// Adds --read-as NAME=FORMAT,... to a command that reads JSON Lines. The option declares the formats of
/// fields whose format cannot be inferred from the lines, like fields.NAME.read_as in a configuration. The
/// formats are stored in `declared`, which must outlive the command.
void add_read_as_option(CLI::App& command, DeclaredFormats& declared);

/// Returns the values of source.kind for sources that are read from files.
[[nodiscard]] std::vector<std::string> source_kind_words();

/// Returns the value of source.kind for a kind of source. Precondition: the source is read from files.
[[nodiscard]] std::string source_kind_word(SourceKind kind);

/// Returns the kind of the source at `path`: `word` if it is not empty, dump if `path` is a folder, otherwise
/// the kind implied by the file's name. Throws ConfigError if the name does not imply one.
[[nodiscard]] SourceKind source_kind_of(const std::filesystem::path& path, const std::string& word);

}  // namespace evenkeel::cli
