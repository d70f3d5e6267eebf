#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "cli/terminal/terminal.hpp"

namespace evenkeel::cli {

/// Files of fewer bytes are read before anybody wonders.
inline constexpr std::int64_t least_noted_bytes = std::int64_t{256} << 20;

/// "reading rollouts.jsonl (1.5 GiB)" of files that together take seconds to read, so that nobody takes the
/// program for hung; empty for less. `name` stands for them.
[[nodiscard]] std::string reading_note(const std::string& name, std::span<const std::filesystem::path> files);

/// Tells that on standard error.
inline void note_reading(const std::string& name, std::span<const std::filesystem::path> files) {
  if (const std::string note = reading_note(name, files); !note.empty()) tell_note(note);
}

}  // namespace evenkeel::cli
