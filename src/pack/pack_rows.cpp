#include "pack/pack_rows.hpp"

#include <algorithm>
#include <deque>
#include <future>
#include <string>
#include <vector>

#include "base/run_copy.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/packed_walk.hpp"
#include "pack/row_writer.hpp"

namespace evenkeel {
namespace {

std::size_t row_bytes_of(const PackedLayout& layout, std::size_t local_bytes) {
  const auto rows = static_cast<std::size_t>(layout.local_rows());
  if (rows == 0 ? local_bytes == 0 : local_bytes % rows == 0) return rows == 0 ? 0 : local_bytes / rows;
  throw InputError("packed rows", format_plain_count(static_cast<std::int64_t>(local_bytes), "byte") +
                                      " cannot be divided into " +
                                      format_plain_count(static_cast<std::int64_t>(rows), "row") +
                                      " of equal size");
}

/// Checks the sizes of the buffers and returns the bytes of one row.
std::size_t checked_row_bytes(const PackedLayout& layout, std::size_t ragged_bytes, std::size_t local_bytes) {
  const std::size_t row_bytes = row_bytes_of(layout, local_bytes);
  require_bytes(ragged_bytes, static_cast<std::size_t>(layout.num_tokens()) * row_bytes, "ragged rows");
  return row_bytes;
}

/// Same as checked_row_bytes(), for the buffers of all CP ranks.
template <typename Byte>
std::size_t checked_row_bytes_of_all(const PackedLayout& layout, std::size_t ragged_bytes,
                                     std::span<const std::span<Byte>> locals) {
  const auto ranks = static_cast<std::size_t>(layout.cp().size);
  if (locals.size() != ranks) {
    throw InputError("packed rows", "there are buffers for " +
                                        format_plain_count(std::ssize(locals), "context-parallel rank") +
                                        ", but the number of ranks is " + std::to_string(ranks));
  }
  for (const std::span<Byte> local : locals) {
    require_bytes(local.size(), locals.front().size(), "packed rows of a context-parallel rank");
  }
  return checked_row_bytes(layout, ragged_bytes, locals.front().size());
}

/// Returns the byte offset of a run's first row in the ragged rows.
std::size_t ragged_offset(const PackedLayout& layout, const PackedRun& run, std::size_t row_bytes) {
  const std::int64_t row = layout.cu_seqlens()[static_cast<std::size_t>(run.index)] + run.sequence.begin;
  return static_cast<std::size_t>(row) * row_bytes;
}

/// Returns the byte offset in a rank's packed rows at which the first of `sequences` begins, or the size of
/// these rows if the range begins after the last sequence.
std::size_t local_offset(const PackedLayout& layout, SequenceRange sequences, std::size_t row_bytes) {
  const bool none = sequences.begin == layout.size();
  return bytes_of(none ? layout.local_rows() : layout.local_range(sequences.begin).begin, row_bytes);
}

void require_matching_sequences(const PackedLayout& layout,
                                std::span<const std::span<const std::byte>> sequences,
                                std::size_t row_bytes) {
  if (std::ssize(sequences) != layout.size()) {
    throw InputError("sequences", format_there_are(std::ssize(sequences), "sequence") +
                                      ", but the layout has " + std::to_string(layout.size()));
  }
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const std::size_t bytes = sequences[static_cast<std::size_t>(i)].size();
    if (bytes == bytes_of(layout.length(i), row_bytes)) continue;
    throw InputError("sequence " + std::to_string(i),
                     "has " + format_plain_count(static_cast<std::int64_t>(bytes), "byte") +
                         "; it must have " + format_plain_count(layout.length(i), "row") + " of " +
                         format_plain_count(static_cast<std::int64_t>(row_bytes), "byte"));
  }
}

/// Fills the packed rows `local` of CP rank `rank`. source_of(run) must return the address of the source of
/// the run's first row.
template <typename SourceOf>
void pack_from(const PackedLayout& layout, CpRank rank, std::size_t row_bytes, SourceOf source_of,
               Sources sources, std::span<const std::byte> pad_row, std::span<std::byte> local,
               std::int64_t threads) {
  if (local.empty()) return;
  const RowFill fill(pad_row, row_bytes);
  process_sequences_in_parallel(layout, threads, local.size(), [&](SequenceRange part) {
    RowWriter writer(local.data() + local_offset(layout, part, row_bytes), local.size(), fill, sources);
    walk_packed_rows(
        layout, rank, part,
        [&](const PackedRun& run) { writer.copy(source_of(run), bytes_of(run.sequence.size(), row_bytes)); },
        [&](RowRange pad) { writer.pad(pad.size()); });
  });
}

std::int64_t num_useful_threads(std::int64_t threads, std::size_t bytes) {
  if (threads < 1) throw InputError("threads", "is " + std::to_string(threads) + "; it must be at least 1");
  constexpr std::size_t least_bytes = std::size_t{1} << 20;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes / least_bytes), 1, threads);
}

/// Returns the first sequence that begins at or after row num_rows / parts * part. If part == parts, returns
/// the number of sequences.
std::int64_t first_sequence_of_part(const PackedLayout& layout, std::int64_t part, std::int64_t parts) {
  if (part == parts) return layout.size();
  const std::int64_t row = layout.cu_seqlens_padded().back() / parts * part;
  return std::ranges::lower_bound(layout.cu_seqlens_padded(), row) - layout.cu_seqlens_padded().begin();
}

}  // namespace

void pack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> ragged,
               std::span<const std::byte> pad_row, std::span<std::byte> local, std::int64_t threads) {
  const std::size_t row_bytes = checked_row_bytes(layout, ragged.size(), local.size());
  const Sources sources = layout.cp().size == 1 ? Sources::consecutive : Sources::scattered;
  const auto source_of = [&](const PackedRun& run) {
    return ragged.data() + ragged_offset(layout, run, row_bytes);
  };
  pack_from(layout, rank, row_bytes, source_of, sources, pad_row, local, threads);
}

void pack_sequences(const PackedLayout& layout, CpRank rank,
                    std::span<const std::span<const std::byte>> sequences, std::span<const std::byte> pad_row,
                    std::span<std::byte> local, std::int64_t threads) {
  const std::size_t row_bytes = row_bytes_of(layout, local.size());
  require_matching_sequences(layout, sequences, row_bytes);
  const auto source_of = [&](const PackedRun& run) {
    return sequences[static_cast<std::size_t>(run.index)].data() + bytes_of(run.sequence.begin, row_bytes);
  };
  pack_from(layout, rank, row_bytes, source_of, Sources::scattered, pad_row, local, threads);
}

void pack_all_ranks(const PackedLayout& layout, std::span<const std::byte> ragged,
                    std::span<const std::byte> pad_row, std::span<const std::span<std::byte>> locals,
                    std::int64_t threads) {
  const std::size_t row_bytes = checked_row_bytes_of_all(layout, ragged.size(), locals);
  if (locals.front().empty()) return;
  const RowFill fill(pad_row, row_bytes);
  const std::size_t bytes = locals.size() * locals.front().size();
  process_sequences_in_parallel(layout, threads, bytes, [&](SequenceRange part) {
    std::deque<RowWriter> writers;  // a deque, since writers cannot be moved
    for (const std::span<std::byte> local : locals) {
      writers.emplace_back(local.data() + local_offset(layout, part, row_bytes), bytes, fill,
                           Sources::consecutive);
    }
    walk_all_ranks(
        layout, part,
        [&](CpRank rank, const PackedRun& run) {
          writers[rank.index()].copy(ragged.data() + ragged_offset(layout, run, row_bytes),
                                     bytes_of(run.sequence.size(), row_bytes));
        },
        [&](CpRank rank, RowRange pad) { writers[rank.index()].pad(pad.size()); });
  });
}

void unpack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> local,
                 std::span<std::byte> ragged, std::int64_t threads) {
  const std::size_t row_bytes = checked_row_bytes(layout, ragged.size(), local.size());
  if (ragged.empty()) return;
  process_sequences_in_parallel(layout, threads, local.size(), [&](SequenceRange part) {
    RunCopier copy(local.size());
    walk_packed_rows(
        layout, rank, part,
        [&](const PackedRun& run) {
          copy(ragged.data() + ragged_offset(layout, run, row_bytes),
               local.data() + bytes_of(run.local, row_bytes), bytes_of(run.sequence.size(), row_bytes));
        },
        do_nothing);
  });
}

void unpack_all_ranks(const PackedLayout& layout, std::span<const std::span<const std::byte>> locals,
                      std::span<std::byte> ragged, std::int64_t threads) {
  const std::size_t row_bytes = checked_row_bytes_of_all(layout, ragged.size(), locals);
  if (ragged.empty()) return;
  const RowFill no_fill({}, row_bytes);
  process_sequences_in_parallel(layout, threads, ragged.size(), [&](SequenceRange part) {
    const std::size_t first = bytes_of(layout.cu_seqlens()[static_cast<std::size_t>(part.begin)], row_bytes);
    RowWriter writer(ragged.data() + first, ragged.size(), no_fill, Sources::consecutive);
    walk_all_ranks(
        layout, part,
        [&](CpRank rank, const PackedRun& run) {
          writer.copy(locals[rank.index()].data() + bytes_of(run.local, row_bytes),
                      bytes_of(run.sequence.size(), row_bytes));
        },
        do_nothing);
  });
}

void fill_pad_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> pad_row,
                   std::span<std::byte> local) {
  const std::size_t row_bytes = row_bytes_of(layout, local.size());
  if (local.empty()) return;
  const RowFill fill(pad_row, row_bytes);
  walk_packed_rows(layout, rank, do_nothing,
                   [&](RowRange pad) { fill(local.data() + bytes_of(pad.begin, row_bytes), pad.size()); });
}

void process_sequences_in_parallel(const PackedLayout& layout, std::int64_t threads, std::size_t bytes,
                                   const std::function<void(SequenceRange)>& work) {
  const std::int64_t parts = num_useful_threads(threads, bytes);
  std::vector<std::future<void>> others;
  for (std::int64_t part = 1; part < parts; ++part) {
    const SequenceRange sequences{first_sequence_of_part(layout, part, parts),
                                  first_sequence_of_part(layout, part + 1, parts)};
    others.push_back(std::async(std::launch::async, [&work, sequences] { work(sequences); }));
  }
  work({0, first_sequence_of_part(layout, 1, parts)});
  for (std::future<void>& other : others) other.get();
}

}  // namespace evenkeel
