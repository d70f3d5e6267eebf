#pragma once

#include <span>

#include "evenkeel/mesh/communicator.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// Collective over `comm`: throws IoError on every rank unless all ranks have opened files with the same
/// content. The error names the rank's file, two ranks whose files differ, and whether the sizes or only the
/// contents differ.
///
/// 1. Ranks gather sizes, and digests of 64 sampled blocks: a few words per rank.
/// 2. If all ranks have opened the same inode with the same modification time, comparing these values is
///    sufficient.
/// 3. Otherwise (nodes have their own copies, or the file was replaced while ranks opened it), the ranks that
///    have opened the same copy divide it among themselves and read all of it. The digests of the whole
///    copies are compared.
void require_same_content(const Communicator& comm, const InputFile& file);

/// Calls require_same_content() for several files, in the same order on all ranks. If all ranks have opened
/// the same inodes with equal sizes, modification times and sampled digests, a single gather suffices for all
/// files.
void require_same_contents(const Communicator& comm, std::span<const InputFile* const> files);

/// Collective over `comm`, whose ranks must have opened files with the same content: returns a digest of the
/// whole file. Each rank reads a share of it. Throws the same IoError on every rank.
[[nodiscard]] std::uint64_t content_digest(const Communicator& comm, const InputFile& file);

}  // namespace evenkeel
