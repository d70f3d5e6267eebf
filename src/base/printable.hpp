#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

/// A text that came from outside (a key, a file name, a word of a configuration), safe to show on a terminal
/// and in a log: control characters (C0, DEL, and C1 as UTF-8 writes them) and bytes that are no UTF-8 become
/// \xNN, line ends and tabs \n, \r and \t. All else, other scripts included, stays as it is. O(length).
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace evenkeel
