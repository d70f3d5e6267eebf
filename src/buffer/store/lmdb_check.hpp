#pragma once

#include <cstdint>
#include <filesystem>

namespace evenkeel {

/// LMDB trusts the pages of its file, and may crash on a damaged one. This looks at all that it trusts: both
/// of the pages with which it begins, each page of each tree, where values begin, and which pages are free.
/// What values hold is not looked at: they have checksums.
///
/// Throws IoError that names the first page that is wrong, and if the file cannot be read. Nobody may write
/// it meanwhile.
void require_sound_lmdb(const std::filesystem::path& file);

}  // namespace evenkeel
