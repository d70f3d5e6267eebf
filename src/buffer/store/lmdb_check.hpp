#pragma once

#include <filesystem>

namespace evenkeel {

/// Checks a file of LMDB. LMDB trusts its pages, and may crash if they are damaged. This function checks
/// everything that LMDB trusts: both meta pages, each page of each tree, the positions of values, and the
/// lists of free pages. It does not check the content of values, since they have checksums.
///
/// Throws IoError naming the first invalid page, or if the file cannot be read. No process may write to the
/// file at the same time.
void require_valid_lmdb(const std::filesystem::path& file);

}  // namespace evenkeel
