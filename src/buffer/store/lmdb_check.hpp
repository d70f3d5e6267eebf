#pragma once

#include <filesystem>

namespace evenkeel {

/// Checks a file of LMDB, which trusts its pages and may crash on damaged ones. Checks everything that LMDB
/// trusts: both meta pages, each page of each tree, the positions of values, and the lists of free pages. The
/// content of values is not checked, since values have checksums.
///
/// Throws IoError naming the first invalid page, or if the file cannot be read. No process may write the file
/// at the same time.
void require_valid_lmdb(const std::filesystem::path& file);

}  // namespace evenkeel
