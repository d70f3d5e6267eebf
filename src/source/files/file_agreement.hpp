#pragma once

#include <span>

#include "evenkeel/mesh/communicator.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// Collective over `comm`: throws the same IoError on every rank unless all ranks have opened files with
/// the same content. The error names the file, two ranks that see it differently, and the difference: sizes,
/// or content of the same size.
///
/// 1. Ranks gather sizes and digests of 64 places, a few words per rank.
/// 2. If all ranks have opened the same inode with the same modification time, this is sufficient.
/// 3. Otherwise (nodes have their own copies, or the file was replaced while ranks opened it), the ranks that
///    have opened the same copy read all of it, each rank a share. The digests of the whole copies are
///    compared.
void require_same_content(const Communicator& comm, const InputFile& file);

/// Calls require_same_content() for several files, in the same order on all ranks. If all ranks have opened
/// the same inodes with equal sampled digests, one gather is enough for all files.
void require_same_contents(const Communicator& comm, std::span<const InputFile* const> files);

/// Collective over `comm`, whose ranks must have opened files with the same content: returns a digest of the
/// whole file. Each rank reads a share of it. Throws the same IoError on every rank.
[[nodiscard]] std::uint64_t content_digest(const Communicator& comm, const InputFile& file);

}  // namespace evenkeel
