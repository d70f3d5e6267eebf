#include "evenkeel/c/pack.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "c/arrays.hpp"
#include "c/failures.hpp"
#include "c/layouts.hpp"
#include "c/named_arrays.hpp"
#include "evenkeel/pack/padded.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

namespace evenkeel::c {
namespace {

template <typename Bytes>
std::vector<std::span<Bytes>> checked_buffers(const evenkeel_rows* rows, std::int64_t count,
                                              const char* name) {
  require_list(rows, count, name);
  std::vector<std::span<Bytes>> buffers;
  for (std::int64_t i = 0; i < count; ++i) buffers.push_back(bytes_of(rows + i, name));
  return buffers;
}

void require_positive_threads(std::int64_t threads) {
  if (threads < 1) throw InputError("threads", "is " + std::to_string(threads) + "; it must be at least 1");
}

void write_cu_seqlens(const PackedLayout& layout, std::int32_t* cu_seqlens, std::int32_t* padded,
                      std::int32_t* max_seqlen) {
  if (cu_seqlens != nullptr) std::ranges::copy(layout.cu_seqlens(), cu_seqlens);
  std::ranges::copy(layout.cu_seqlens_padded(), padded);
  *max_seqlen = layout.max_seqlen();
}

/// Returns the output array of a function that derives one value per local row of the layout.
template <typename T>
std::span<T> local_values(const PackedLayout& layout, T* first, const char* name) {
  return array_of(first, layout.local_rows(), name);
}

/// Returns, for each run of a rank, the token that follows the run in its sequence, or 0 if the run ends its
/// sequence. `tokens` has the tokens of all ranks.
std::vector<std::int64_t> select_tokens_after_runs(const PackedLayout& layout, CpRank rank,
                                                   std::span<const std::int64_t> tokens) {
  std::vector<std::int64_t> after;
  for (const PackedRun& run : packed_runs(layout, rank)) {
    const std::int64_t next = layout.cu_seqlens()[static_cast<std::size_t>(run.index)] + run.sequence.end;
    const bool ends = run.sequence.end == layout.length(run.index);
    after.push_back(ends ? 0 : tokens[static_cast<std::size_t>(next)]);
  }
  return after;
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_sequence_alignment(int32_t tp, int32_t cp_size, int32_t cp_layout, int64_t extra,
                                            int64_t* alignment) {
  return run_guarded([&] {
    require(alignment, "alignment");
    *alignment = sequence_alignment(tp, cp_group_of(cp_size, cp_layout), extra);
  });
}

evenkeel_status evenkeel_layout_fill(const int64_t* lengths, const int64_t* aligned, int64_t count,
                                     int64_t alignment, int32_t cp_size, int32_t cp_layout,
                                     int32_t* cu_seqlens, int32_t* cu_seqlens_padded, int32_t* max_seqlen) {
  return run_guarded([&] {
    require(cu_seqlens, "cu_seqlens");
    require(cu_seqlens_padded, "cu_seqlens_padded");
    require(max_seqlen, "max_seqlen");
    const std::span<const std::int64_t> values = array_of(lengths, count, "lengths");
    const CpGroup cp = cp_group_of(cp_size, cp_layout);
    write_cu_seqlens(aligned == nullptr
                         ? PackedLayout(values, alignment, cp)
                         : PackedLayout(values, array_of(aligned, count, "aligned"), alignment, cp),
                     cu_seqlens, cu_seqlens_padded, max_seqlen);
  });
}

evenkeel_status evenkeel_layout_pad_to(const evenkeel_layout* layout, int64_t rows,
                                       int32_t* cu_seqlens_padded, int32_t* max_seqlen) {
  return run_guarded([&] {
    require(cu_seqlens_padded, "cu_seqlens_padded");
    require(max_seqlen, "max_seqlen");
    write_cu_seqlens(layout_of(layout).padded_to(rows), nullptr, cu_seqlens_padded, max_seqlen);
  });
}

evenkeel_status evenkeel_layout_runs(const evenkeel_layout* layout, int32_t cp_rank,
                                     evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const PackedLayout of = layout_of(layout);
    const std::vector<PackedRun> runs = packed_runs(of, checked_cp_rank(of.cp(), cp_rank));
    std::vector<std::int64_t> numbers;
    for (const PackedRun& run : runs)
      numbers.insert(numbers.end(), {run.index, run.sequence.begin, run.sequence.end, run.local});
    made.add("runs", std::move(numbers), {std::ssize(runs), 4});
  });
}

evenkeel_status evenkeel_cp_runs(int64_t aligned_length, int32_t cp_size, int32_t cp_layout, int32_t cp_rank,
                                 int64_t* bounds, int64_t* num_runs) {
  return run_guarded([&] {
    require(bounds, "bounds");
    require(num_runs, "num_runs");
    const CpRuns runs = cp_runs(aligned_length, cp_group_of(cp_size, cp_layout), CpRank{cp_rank});
    for (const RowRange& run : runs) {
      *bounds++ = run.begin;
      *bounds++ = run.end;
    }
    *num_runs = std::ssize(runs);
  });
}

evenkeel_status evenkeel_partitioned_indices(const int32_t* cu_seqlens_padded, int64_t count, int32_t cp_size,
                                             int32_t cp_layout, int32_t cp_rank, int64_t* indices) {
  return run_guarded([&] {
    const std::vector<std::int64_t> found =
        partitioned_indices(array_of(cu_seqlens_padded, count, "cu_seqlens_padded"),
                            cp_group_of(cp_size, cp_layout), CpRank{cp_rank});
    std::ranges::copy(found, array_of(indices, std::ssize(found), "indices").begin());
  });
}

evenkeel_status evenkeel_cu_seqlens_on_cp_rank(const int32_t* cu_seqlens, const int32_t* cu_seqlens_padded,
                                               int64_t count, int32_t cp_size, int32_t cp_rank,
                                               int32_t* first, int32_t* second, int32_t* both) {
  return run_guarded([&] {
    const CuSeqlensOnRank found = cu_seqlens_on_cp_rank(
        array_of(cu_seqlens, count, "cu_seqlens"), array_of(cu_seqlens_padded, count, "cu_seqlens_padded"),
        cp_size, CpRank{cp_rank});
    std::ranges::copy(found.first, array_of(first, count, "first").begin());
    std::ranges::copy(found.second, array_of(second, count, "second").begin());
    std::ranges::copy(found.both, array_of(both, count, "both").begin());
  });
}

evenkeel_status evenkeel_pack_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                   const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                   const evenkeel_rows* local, int64_t threads) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    const CpRank rank = checked_cp_rank(of.cp(), cp_rank);
    require_positive_threads(threads);
    pack_rows(of, rank, bytes_of(ragged, "ragged"), bytes_of(pad, "pad"), bytes_of(local, "local"), threads);
  });
}

evenkeel_status evenkeel_pack_sequences(const evenkeel_layout* layout, int32_t cp_rank,
                                        const evenkeel_rows* sequences, int64_t count,
                                        const evenkeel_rows* pad, const evenkeel_rows* local,
                                        int64_t threads) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    const CpRank rank = checked_cp_rank(of.cp(), cp_rank);
    require_positive_threads(threads);
    const auto sources = checked_buffers<const std::byte>(sequences, count, "sequences");
    pack_sequences(of, rank, sources, bytes_of(pad, "pad"), bytes_of(local, "local"), threads);
  });
}

evenkeel_status evenkeel_pack_all_ranks(const evenkeel_layout* layout, const evenkeel_rows* ragged,
                                        const evenkeel_rows* pad, const evenkeel_rows* locals, int64_t count,
                                        int64_t threads) {
  return run_guarded([&] {
    require_positive_threads(threads);
    const auto targets = checked_buffers<std::byte>(locals, count, "locals");
    pack_all_ranks(layout_of(layout), bytes_of(ragged, "ragged"), bytes_of(pad, "pad"), targets, threads);
  });
}

evenkeel_status evenkeel_unpack_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                     const evenkeel_rows* local, const evenkeel_rows* ragged,
                                     int64_t threads) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    const CpRank rank = checked_cp_rank(of.cp(), cp_rank);
    require_positive_threads(threads);
    unpack_rows(of, rank, bytes_of(local, "local"), bytes_of(ragged, "ragged"), threads);
  });
}

evenkeel_status evenkeel_unpack_all_ranks(const evenkeel_layout* layout, const evenkeel_rows* locals,
                                          int64_t count, const evenkeel_rows* ragged, int64_t threads) {
  return run_guarded([&] {
    require_positive_threads(threads);
    const auto sources = checked_buffers<const std::byte>(locals, count, "locals");
    unpack_all_ranks(layout_of(layout), sources, bytes_of(ragged, "ragged"), threads);
  });
}

evenkeel_status evenkeel_fill_pad_rows(const evenkeel_layout* layout, int32_t cp_rank,
                                       const evenkeel_rows* pad, const evenkeel_rows* local) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    fill_pad_rows(of, checked_cp_rank(of.cp(), cp_rank), bytes_of(pad, "pad"), bytes_of(local, "local"));
  });
}

evenkeel_status evenkeel_position_ids(const evenkeel_layout* layout, int32_t cp_rank, int64_t* ids) {
  return run_guarded([&] {
    require(layout, "layout");
    if (layout->tree != nullptr) {
      const PackedTreeLayout of = tree_layout_of(layout);
      derive_position_ids(of, checked_cp_rank(of.segments().cp(), cp_rank),
                          local_values(of.segments(), ids, "ids"));
    } else {
      const PackedLayout of = layout_of(layout);
      derive_position_ids(of, checked_cp_rank(of.cp(), cp_rank), local_values(of, ids, "ids"));
    }
  });
}

evenkeel_status evenkeel_labels(const evenkeel_layout* layout, int32_t cp_rank, const int64_t* tokens,
                                int64_t num_tokens, int64_t label_pad, int64_t* labels) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    const CpRank rank = checked_cp_rank(of.cp(), cp_rank);
    const std::span<const std::int64_t> ragged = array_of(tokens, num_tokens, "tokens");
    if (num_tokens != of.num_tokens())
      throw InputError("tokens", format_there_are(num_tokens, "token") + ", but the layout has " +
                                     std::to_string(of.num_tokens()));
    std::vector<std::int64_t> local(static_cast<std::size_t>(of.local_rows()));
    pack_rows(of, rank, std::as_bytes(ragged), {}, std::as_writable_bytes(std::span(local)));
    derive_labels(of, rank, local, select_tokens_after_runs(of, rank, ragged), label_pad,
                  local_values(of, labels, "labels"));
  });
}

evenkeel_status evenkeel_loss_mask(const evenkeel_layout* layout, int32_t cp_rank, const int64_t* prompts,
                                   int64_t count, float* mask) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    derive_loss_mask(of, checked_cp_rank(of.cp(), cp_rank), array_of(prompts, count, "prompts"),
                     local_values(of, mask, "mask"));
  });
}

evenkeel_status evenkeel_loss_weights(const evenkeel_layout* layout, const double* token_weights,
                                      int64_t count, const uint8_t* mask, int64_t num_rows, float* weights) {
  return run_guarded([&] {
    const PackedLayout of = layout_of(layout);
    derive_loss_weights(of, array_of(token_weights, count, "token_weights"), array_of(mask, num_rows, "mask"),
                        local_values(of, weights, "weights"));
  });
}

evenkeel_status evenkeel_mask_lengths(const evenkeel_mask* mask, int64_t* lengths) {
  return run_guarded([&] {
    const std::vector<std::int64_t> found = lengths_of(mask_of(mask));
    std::ranges::copy(found, array_of(lengths, std::ssize(found), "lengths").begin());
  });
}

evenkeel_status evenkeel_remove_padding(const evenkeel_mask* mask, int64_t row_bytes,
                                        const evenkeel_rows* padded, const evenkeel_rows* ragged) {
  return run_guarded([&] {
    remove_padding(mask_of(mask), checked_row_bytes(row_bytes), bytes_of(padded, "padded"),
                   bytes_of(ragged, "ragged"));
  });
}

evenkeel_status evenkeel_restore_padding(const evenkeel_mask* mask, int64_t row_bytes,
                                         const evenkeel_rows* ragged, const evenkeel_rows* pad,
                                         const evenkeel_rows* padded) {
  return run_guarded([&] {
    restore_padding(mask_of(mask), checked_row_bytes(row_bytes), bytes_of(ragged, "ragged"),
                    bytes_of(pad, "pad"), bytes_of(padded, "padded"));
  });
}

evenkeel_status evenkeel_pad_right(const int64_t* lengths, const int64_t* begins, const int64_t* ends,
                                   int64_t count, int64_t seq, int64_t row_bytes, const evenkeel_rows* ragged,
                                   const evenkeel_rows* pad, const evenkeel_rows* padded) {
  return run_guarded([&] {
    const std::span<const std::int64_t> first = array_of(begins, count, "begins");
    const std::span<const std::int64_t> last = array_of(ends, count, "ends");
    std::vector<RowRange> kept;
    for (std::size_t i = 0; i < first.size(); ++i) kept.push_back({first[i], last[i]});
    pad_right(array_of(lengths, count, "lengths"), kept, seq, checked_row_bytes(row_bytes),
              bytes_of(ragged, "ragged"), bytes_of(pad, "pad"), bytes_of(padded, "padded"));
  });
}

evenkeel_status evenkeel_response_prediction_rows(const int64_t* lengths, const int64_t* prompts,
                                                  int64_t count, int64_t* begins, int64_t* ends) {
  return run_guarded([&] {
    const std::vector<RowRange> rows =
        response_prediction_rows(array_of(lengths, count, "lengths"), array_of(prompts, count, "prompts"));
    std::ranges::transform(rows, array_of(begins, count, "begins").begin(), &RowRange::begin);
    std::ranges::transform(rows, array_of(ends, count, "ends").begin(), &RowRange::end);
  });
}
