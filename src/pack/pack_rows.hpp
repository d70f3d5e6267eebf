#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "pack/packed_walk.hpp"

namespace evenkeel {

/// The copy kernels: bytes of ragged rows <-> bytes of one CP rank's packed rows. They know rows of
/// `row_bytes` bytes and nothing of dtypes, so they serve every field and trailing shape. All are local and
/// deterministic; work is proportional to the bytes written; ranges must not overlap. Calls that write some
/// megabytes store past the caches.
///
/// `ragged` holds the sequences' true rows back to back (num_tokens * row_bytes bytes); `local` holds one CP
/// rank's rows (local_rows * row_bytes bytes). Wrong sizes throw InputError.
///
/// `threads` is the most threads that share a call's sequences, the caller among them, where a rank has cores
/// to spare: one for each MiB at most. They start and end with the call; bytes do not depend on them.

/// Ragged rows -> the packed, cut rows of CP rank `rank`. Pad rows are filled with `pad_row` (row_bytes
/// bytes; empty means zeros).
void pack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> ragged,
               std::span<const std::byte> pad_row, std::span<std::byte> local, std::int64_t threads = 1);

/// The same from rows that stand apart: `sequences` has those of each sequence of the layout. Throws
/// InputError for another number of sequences, or one with other than its length * row_bytes bytes.
void pack_sequences(const PackedLayout& layout, CpRank rank,
                    std::span<const std::span<const std::byte>> sequences, std::span<const std::byte> pad_row,
                    std::span<std::byte> local, std::int64_t threads = 1);

/// The same as pack_rows for all CP ranks at once, one buffer a rank: the ragged rows are read once, front to
/// back, which is faster than reading every rank's chunks out of them in turn. Throws InputError unless there
/// are cp.size buffers of local_rows * row_bytes bytes each.
void pack_all_ranks(const PackedLayout& layout, std::span<const std::byte> ragged,
                    std::span<const std::byte> pad_row, std::span<const std::span<std::byte>> locals,
                    std::int64_t threads = 1);

/// The inverse on one rank: its packed rows -> its share of the ragged rows; rows of other CP ranks stay
/// untouched, so that calling it for every rank merges and unpacks.
void unpack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> local,
                 std::span<std::byte> ragged, std::int64_t threads = 1);

/// The inverse over all CP ranks at once: merges and unpacks. The ragged rows are written once, front to
/// back. Throws InputError as pack_all_ranks does.
void unpack_all_ranks(const PackedLayout& layout, std::span<const std::span<const std::byte>> locals,
                      std::span<std::byte> ragged, std::int64_t threads = 1);

/// Fills only the pad rows of `local`, leaving true rows alone: for buffers that an exchange fills.
void fill_pad_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> pad_row,
                   std::span<std::byte> local);

/// Calls work(sequences) for consecutive parts of a layout's sequences, of about equal rows, on as many
/// threads, this one among them; the sequences of all parts are those of the layout. `bytes` is what all
/// parts copy: a thread is worth its start from a MiB on. Returns when all are done; throws what any of them
/// threw, InputError for less than one thread, std::system_error when no thread can be had.
void share_sequences(const PackedLayout& layout, std::int64_t threads, std::size_t bytes,
                     const std::function<void(SequenceRange)>& work);

}  // namespace evenkeel
