#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel::cli {

/// The two streams that people may read.
enum class Stream : std::uint8_t { out, err };

/// Whether a stream's reader can be shown colors: on terminals that know them, never with NO_COLOR or
/// CLICOLOR=0, always with CLICOLOR_FORCE. Under a launcher no stream counts as a terminal, since mpirun
/// makes one up for its ranks.
[[nodiscard]] bool is_colored(Stream stream);

/// Whether a stream is a terminal on which a line can be drawn again.
[[nodiscard]] bool can_redraw(Stream stream);

/// Say to stderr, in a line, what went wrong or what the user should know.
void tell_error(std::string_view message);
void tell_warning(std::string_view message);
void tell_note(std::string_view message);

}  // namespace evenkeel::cli
