#include "cli/inspect/reading_note.hpp"

#include <system_error>

#include "base/printable.hpp"
#include "base/text_layout.hpp"

namespace evenkeel::cli {

std::string reading_note(const std::string& name, std::span<const std::filesystem::path> files) {
  std::int64_t bytes = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;  // what cannot be looked at is told when it is opened
    const std::uintmax_t size = std::filesystem::file_size(file, unknown);
    if (!unknown) bytes += static_cast<std::int64_t>(size);
  }
  if (bytes < least_noted_bytes) return {};
  return "reading " + printable(name) + " (" + bytes_text(bytes) + ")";
}

}  // namespace evenkeel::cli
