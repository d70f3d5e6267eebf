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

[[nodiscard]] std::vector<const InputFile*> file_pointers(const InputFiles& files);

/// Local: returns the files on this rank that match a pattern, or the path itself if it exists or is not a
/// pattern. Throws IoError if a pattern does not match any file.
[[nodiscard]] std::vector<std::filesystem::path> files_matching(const std::filesystem::path& pattern);

/// Collective over `comm`: returns the files that a path or pattern names. If the path exists on rank 0 or is
/// not a pattern, every rank uses its own path unchanged, since nodes may have copies with different names.
/// Otherwise, rank 0 expands the glob(7) pattern (`*`, `?`, `[...]`) for all ranks; files are sorted by the
/// bytes of their names. Throws the same IoError on every rank if a pattern does not match any file.
[[nodiscard]] std::vector<std::filesystem::path> files_of_pattern(const Communicator& comm,
                                                                  const std::filesystem::path& pattern);
/// Collective over `comm`: calls files_of_pattern() for all paths of a source, in order. Also throws
/// InputError if a file occurs twice.
[[nodiscard]] std::vector<std::filesystem::path> files_of_source(const Communicator& comm,
                                                                 const SourceSettings& settings);

/// Collective over `comm`: opens these files on every rank, and checks that their content is the same on all
/// ranks. Throws IoError on every rank if a file cannot be opened or its content differs.
[[nodiscard]] InputFiles open_files(const Communicator& comm,
                                    const std::vector<std::filesystem::path>& paths);

/// Collective over `comm`: replaces each compressed file (gzip, zstd) with a decompressed copy: an unlinked
/// file in the folder for temporary files ($TMPDIR, by default /tmp). Errors still use the compressed file's
/// name. Each node decompresses each file once: the node's ranks divide the files among themselves, and all
/// of them read the copies. Throws the same error on every rank.
void unpack_on_nodes(const Communicator& comm, InputFiles& files);

/// Local: replaces a compressed file with a decompressed copy, as unpack_on_nodes() does. Returns the file
/// itself if it is not compressed.
[[nodiscard]] std::unique_ptr<const InputFile> unpack_file(std::unique_ptr<const InputFile> file);

/// Maximum total size in bytes of files that are read completely for a fingerprint. A single core reads this
/// many bytes in a few seconds, and ranks share the work.
inline constexpr std::int64_t max_bytes_compared_whole = std::int64_t{8} << 30;

/// Collective over `comm`, whose ranks must have opened the same files: returns the fingerprint of a source
/// of these files, with its name and number of samples. If `whole` is true, the digest covers the complete
/// files. Otherwise, it covers 64 sampled blocks of each file, and a second digest covers the complete files,
/// unless they have more than max_bytes_compared_whole bytes in total.
[[nodiscard]] SourceFingerprint fingerprint_of(const Communicator& comm,
                                               std::span<const InputFile* const> files,
                                               const std::string& name, std::int64_t samples, bool whole);

}  // namespace evenkeel
