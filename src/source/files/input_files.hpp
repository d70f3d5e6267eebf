#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {

using InputFiles = std::vector<std::unique_ptr<const InputFile>>;

[[nodiscard]] std::vector<const InputFile*> pointers_to(const InputFiles& files);

/// Local: the files that a path or a pattern names, as files_of_pattern() finds them on rank 0.
[[nodiscard]] std::vector<std::filesystem::path> files_matching(const std::filesystem::path& pattern);

/// Collective over `comm`: the files that a path or a pattern names. A name that is there is taken as it
/// stands, and each rank takes its own, since nodes may have copies that are called otherwise. A pattern of
/// glob(7) (`*`, `?`, `[...]`) is expanded by rank 0 for all, sorted by bytes. Throws the same IoError on
/// every rank where a pattern matches nothing, or only folders.
[[nodiscard]] std::vector<std::filesystem::path> files_of_pattern(const Communicator& comm,
                                                                  const std::filesystem::path& pattern);
/// The files of all paths of a source, in order. Also throws an InputError if two paths name the same file.
[[nodiscard]] std::vector<std::filesystem::path> files_of_source(const Communicator& comm,
                                                                 const SourceSettings& settings);

/// Collective over `comm`: opens these files on every rank, and makes sure that all have the same bytes open.
/// Throws the same error on every rank.
[[nodiscard]] InputFiles open_files(const Communicator& comm,
                                    const std::vector<std::filesystem::path>& paths);

/// Collective over `comm`: puts in place of each packed file (gzip, zstd) what it holds, in a nameless file
/// in the folder for temporary files ($TMPDIR), under the name of the packed one. A node unpacks each file
/// once: its ranks share the files, and all of them read what comes out. Throws the same error on every rank.
void unpack_on_nodes(const Communicator& comm, InputFiles& files);

/// Local: what a packed file holds, unpacked likewise, and the file itself where it is not packed.
[[nodiscard]] std::unique_ptr<const InputFile> unpacked(std::unique_ptr<const InputFile> file);

/// Files of so many bytes in all are read whole for a fingerprint, which takes a core some seconds at most;
/// ranks share that.
inline constexpr std::int64_t most_bytes_compared_whole = std::int64_t{8} << 30;

/// Collective over `comm`, all of whose ranks have the same files open: the fingerprint of a source of these
/// files. `whole`: its digest is of all of each. Else it is of 64 places of each, and beside it stands one of
/// all, unless they have more than most_bytes_compared_whole.
[[nodiscard]] SourceFingerprint fingerprint_of(const Communicator& comm,
                                               std::span<const InputFile* const> files,
                                               const std::string& name, std::int64_t samples, bool whole);

}  // namespace evenkeel
