#pragma once

#include <filesystem>

namespace evenkeel {

/// Checks the structure of an LMDB file. LMDB does not validate its pages, and may crash if they are damaged.
/// This function checks everything that LMDB relies on: both meta pages, each page of each tree, the
/// positions of values, and the lists of free pages. It does not check the content of values, since values
/// have checksums.
///
/// Throws IoError if the file cannot be read or has an invalid page, and describes the first fault. The page
/// number is exact only for faults within a page, not for those of whole tables or lists of free pages. No
/// process may write to the file during the check.
void require_valid_lmdb(const std::filesystem::path& file);

}  // namespace evenkeel
