#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// Compression format of a file.
enum class Packing : std::uint8_t { none, gzip, zstd };

/// Detects the compression format from the magic number at the start of the file; text files never start with
/// such a number. Ignores the file name. Throws IoError if the file cannot be read.
[[nodiscard]] Packing detect_packing(const InputFile& file);

/// Decompresses a file and passes its content to `take`, in order, in blocks of at most 1 MiB: all members of
/// a gzip file, or all frames of a zstd file, concatenated. Verifies checksums, if present. Memory: 2 MiB,
/// plus, for zstd, the window that the file requires, which may have at most 128 MiB.
///
/// Throws InputError naming the file and the approximate position if the file is damaged or truncated, is
/// followed by other data, or requires a larger window. Throws IoError if the file cannot be read, and
/// propagates exceptions from `take`. Precondition: `packing` is not `none`.
void unpack(const InputFile& file, Packing packing, const std::function<void(std::span<const char>)>& take);

}  // namespace evenkeel
