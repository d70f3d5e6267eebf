#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "pack/packed_walk.hpp"

namespace evenkeel {

/// Copy kernels between the bytes of ragged rows and the bytes of one CP rank's packed rows. They copy rows
/// of `row_bytes` bytes without knowing the dtype, so they work for every field and trailing shape. All
/// functions are local and deterministic. Their work is proportional to the bytes written. Ranges must not
/// overlap. Calls that write several megabytes bypass the caches.
///
/// `ragged` has the true rows of all sequences, concatenated (num_tokens * row_bytes bytes); `local` has one
/// CP rank's rows (local_rows * row_bytes bytes). Wrong sizes throw InputError.
///
/// `threads` is the maximum number of threads, including the calling thread, that share the sequences of a
/// call. Use values above 1 only on ranks with spare cores. A call uses at most one thread per MiB. Threads
/// start and end with the call, and do not affect the result.

/// Copies ragged rows to the packed rows of CP rank `rank`. Fills pad rows with `pad_row` (row_bytes bytes;
/// empty means zeros).
void pack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> ragged,
               std::span<const std::byte> pad_row, std::span<std::byte> local, std::int64_t threads = 1);

/// Same as pack_rows(), but reads each sequence from its own buffer. Throws InputError if the number of
/// sequences differs from the layout's, or if a sequence does not have (its length * row_bytes) bytes.
void pack_sequences(const PackedLayout& layout, CpRank rank,
                    std::span<const std::span<const std::byte>> sequences, std::span<const std::byte> pad_row,
                    std::span<std::byte> local, std::int64_t threads = 1);

/// Same as pack_rows(), for all CP ranks at once, with one buffer per rank. Reads the ragged rows once, from
/// front to back, which is faster than reading each rank's chunks in turn. Throws InputError unless there are
/// cp.size buffers of (local_rows * row_bytes) bytes each.
void pack_all_ranks(const PackedLayout& layout, std::span<const std::byte> ragged,
                    std::span<const std::byte> pad_row, std::span<const std::span<std::byte>> locals,
                    std::int64_t threads = 1);

/// Copies a rank's packed rows to its share of the ragged rows, the inverse of pack_rows. Rows of other CP
/// ranks do not change, so calling this for every rank merges and unpacks the rows of all ranks.
void unpack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> local,
                 std::span<std::byte> ragged, std::int64_t threads = 1);

/// Merges and unpacks the rows of all CP ranks at once, the inverse of pack_all_ranks(). Writes the ragged
/// rows once, from front to back. Throws InputError unless there are cp.size buffers of (local_rows *
/// row_bytes) bytes each.
void unpack_all_ranks(const PackedLayout& layout, std::span<const std::span<const std::byte>> locals,
                      std::span<std::byte> ragged, std::int64_t threads = 1);

/// Fills only the pad rows of `local` and leaves true rows unchanged. Used for buffers whose true rows an
/// exchange fills.
void fill_pad_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> pad_row,
                   std::span<std::byte> local);

/// Divides a layout's sequences into consecutive parts with about the same number of rows, and calls
/// work(sequences) for each part, on at most `threads` threads, including the calling thread. `bytes` is the
/// number of bytes that all parts copy together. Each thread gets at least one MiB of them; for less,
/// starting a thread would not be worthwhile. Returns when all threads are done. Rethrows an exception of any
/// thread; throws InputError if `threads` is below 1, and std::system_error if a thread cannot be started.
void share_sequences(const PackedLayout& layout, std::int64_t threads, std::size_t bytes,
                     const std::function<void(SequenceRange)>& work);

}  // namespace evenkeel
