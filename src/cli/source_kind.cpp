#include "cli/source_kind.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kinds{std::pair{"jsonl", SourceKind::jsonl},
                           std::pair{"safetensors", SourceKind::safetensors},
                           std::pair{"megatron", SourceKind::megatron},
                           std::pair{"lengths", SourceKind::lengths}, std::pair{"dump", SourceKind::dump}};

}  // namespace

std::vector<std::string> source_kind_words() {
  std::vector<std::string> words;
  for (const auto& entry : kinds) words.emplace_back(entry.first);
  return words;
}

std::string word_of(SourceKind kind) {
  return std::ranges::find(kinds, kind, [](const auto& entry) { return entry.second; })->first;
}

SourceKind source_kind_of(const fs::path& path, const std::string& word) {
  if (!word.empty())
    return std::ranges::find(kinds, word, [](const auto& kind) { return std::string(kind.first); })->second;
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return SourceKind::dump;
  fs::path name = path;
  if (name.extension() == ".gz" || name.extension() == ".zst") name.replace_extension();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl") return SourceKind::jsonl;
  if (ending == ".safetensors") return SourceKind::safetensors;
  if (ending == ".idx" || ending == ".bin") return SourceKind::megatron;
  throw ConfigError(path.string(), "has a name that does not imply its format",
                    ending == ".csv"
                        ? "A length table has no tokens; --from lengths makes them up"
                        : fmt::format("Name the format: --from {}", fmt::join(source_kind_words(), ", ")));
}

}  // namespace evenkeel::cli
