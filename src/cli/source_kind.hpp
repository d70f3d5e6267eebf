#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"

namespace evenkeel::cli {

/// The words of source.kind for sources in files.
[[nodiscard]] std::vector<std::string> source_kind_words();

/// The word of such a kind.
[[nodiscard]] std::string word_of(SourceKind kind);

/// The kind of source at `path`: `word`, if it is not empty, else what the name implies. Throws ConfigError
/// if the name does not imply a kind.
[[nodiscard]] SourceKind source_kind_of(const std::filesystem::path& path, const std::string& word);

}  // namespace evenkeel::cli
