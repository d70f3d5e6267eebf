#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// How the bytes of a file are packed.
enum class Packing : std::uint8_t { none, gzip, zstd };

/// Told from the first bytes, whatever the file is called: no text starts as packed files do. Throws IoError.
[[nodiscard]] Packing packing_of(const InputFile& file);

/// Hands all that a packed file holds to `take`, in order, in blocks of at most 1 MiB: all members of a gzip
/// file, all frames of a zstd file, one after the other. Checksums are compared where there are any. Memory:
/// 2 MiB, and for zstd the window that the file asks for, at most 128 MiB.
///
/// Throws InputError that names the file and about where in it: damaged, cut off, followed by anything else,
/// or of a larger window. Throws IoError, and what `take` throws. Precondition: packing is not `none`.
void unpack(const InputFile& file, Packing packing, const std::function<void(std::span<const char>)>& take);

}  // namespace evenkeel
