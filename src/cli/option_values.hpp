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

/// Checks of an option's value, which say in a sentence what is wrong and what is allowed.

/// Decimal digits of a number in [least, most].
[[nodiscard]] CLI::Validator whole_number(std::int64_t least,
                                          std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// Decimal digits of a number below 2^64.
[[nodiscard]] CLI::Validator seed_number();
/// A decimal number, with or without a fraction and an exponent: any, above 0, or in [0, most].
[[nodiscard]] CLI::Validator decimal_number();
[[nodiscard]] CLI::Validator positive_number();
[[nodiscard]] CLI::Validator decimal_number(int most);
/// In a number of tokens, carries the unit out, so that 32k comes out as 32768, and leaves all else to the
/// option's check.
[[nodiscard]] CLI::Validator token_unit();
/// One of these words, in small or capital letters; small ones come out.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> words);

/// For every option of `app` and its subcommands: what looks like an option is not taken for a value, an
/// empty text neither, and a flag takes none.
void refuse_options_as_values(CLI::App& app);

/// Adds --read-as NAME=FORMAT,... to a command that reads JSON lines: how they write fields where they do not
/// tell, as fields.NAME.read_as says it in a configuration. `told` gets it, and outlives the command.
void add_read_as_option(CLI::App& command, ToldFormats& told);

/// The words of source.kind for sources in files.
[[nodiscard]] std::vector<std::string> source_kind_words();

/// The word of such a kind.
[[nodiscard]] std::string word_of(SourceKind kind);

/// The kind of source at `path`: `word`, if it is not empty, else what the name implies. Throws ConfigError
/// if the name does not imply a kind.
[[nodiscard]] SourceKind source_kind_of(const std::filesystem::path& path, const std::string& word);

}  // namespace evenkeel::cli
