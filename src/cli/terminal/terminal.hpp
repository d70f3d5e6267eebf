#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text_layout.hpp"

namespace evenkeel::cli {

/// The two streams that people may read.
enum class Stream : std::uint8_t { out, err };

/// What a stream's reader can be shown. The width is COLUMNS where that is set, else the terminal's (under a
/// launcher, that of the launcher on the same node), else 80.
/// Colours are for terminals that know them: never with NO_COLOR or CLICOLOR=0, always with CLICOLOR_FORCE.
/// Under a launcher no stream counts as a terminal: mpirun makes one up for its ranks.
[[nodiscard]] TextStyle style_of(Stream stream);

/// Whether a stream is a terminal on which a line can be drawn again.
[[nodiscard]] bool can_redraw(Stream stream);

/// Say to stderr, in a line, what went wrong or what the user should know.
void tell_error(std::string_view message);
void tell_warning(std::string_view message);
void tell_note(std::string_view message);

}  // namespace evenkeel::cli
