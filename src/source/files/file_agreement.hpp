#pragma once

#include <span>

#include "evenkeel/mesh/communicator.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

/// Collective over `comm`: throws the same IoError on every rank unless all have the same bytes open. It
/// names the file, two ranks that see it differently, and in what they do: sizes, or content of one size.
///
/// Sizes and digests of 64 places are compared first, in one gather of a few words a rank. Where all ranks
/// have the same inode of the same time open, that is it. Where they have not (every node has a copy of its
/// own, or the file was put in place anew while ranks opened it), the ranks of each copy read all of it
/// between them, and digests of the whole are compared.
void require_same_content(const Communicator& comm, const InputFile& file);

/// Collective over `comm`: the same of several files, in the same order on all ranks. Where all ranks have
/// the same inodes open, and see them alike, that is one gather for all of them.
void require_same_contents(const Communicator& comm, std::span<const InputFile* const> files);

/// Collective over `comm`, all of whose ranks have the same bytes open: a digest of the whole file, of which
/// each rank reads its share. Throws the same IoError on every rank.
[[nodiscard]] std::uint64_t content_digest(const Communicator& comm, const InputFile& file);

}  // namespace evenkeel
