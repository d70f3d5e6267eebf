#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/prefix/tree_packed.hpp"

namespace evenkeel {

/// Where the prediction of every response token stands in a shared, packed, CP-cut micro-batch. A row in
/// front of a branch predicts a different token for each sample behind it, so a label or a loss weight a row
/// cannot say it; a list of (response token, row) can. It has one entry a response token, sample after
/// sample, as a field of one row per response token has them: entry e's label is response token e, and its
/// loss weight that token's own.
struct PredictionMap {
  std::vector<std::int64_t> offsets{0};  ///< samples + 1: sample i has entries [offsets[i], offsets[i+1])
  std::vector<CpRank> rank;              ///< that holds the row; -1 for a first token that nothing predicts
  std::vector<std::int64_t> row;         ///< local row on that rank; -1 likewise

  /// Entries.
  [[nodiscard]] std::int64_t size() const noexcept { return offsets.back(); }
  friend bool operator==(const PredictionMap&, const PredictionMap&) = default;
};

/// Of all response tokens of a tree's samples, each of which starts with a prompt of this many tokens. Throws
/// InputError when there is not one prompt length a sample, or one is negative or longer than its sample.
/// O(rows + total length of the samples).
[[nodiscard]] PredictionMap predictions(const PackedTreeLayout& layout,
                                        std::span<const std::int64_t> prompt_lengths);
/// Of all suffix tokens of prefix groups; samples are the suffixes, in order.
[[nodiscard]] PredictionMap predictions(const PackedPrefixLayout& layout);

/// The entries whose rows one CP rank holds: what its trainer gathers, logits.index_select(0, rows), and
/// which response token each of them belongs to.
struct LocalPredictions {
  std::vector<std::int64_t> rows;     ///< local rows; one in front of a branch is listed for every sample
  std::vector<std::int64_t> entries;  ///< of the map; rising

  friend bool operator==(const LocalPredictions&, const LocalPredictions&) = default;
};
/// All ranks together list every entry once, but for those that nothing predicts. O(entries).
[[nodiscard]] LocalPredictions predictions_on(const PredictionMap& map, CpRank rank);

/// Consecutive response tokens of one sample that a CP rank predicts from consecutive local rows. The label
/// of a row, but for the last, is the token of the row after it.
struct PredictionRun {
  std::int64_t sample = 0;
  RowRange rows;               ///< local rows that predict, at least one
  std::int64_t next_row = -1;  ///< local row of the last one's label; -1: another rank has it
  std::int64_t halo = -1;      ///< then the label's number in the halo (see derive_labels); -1 otherwise

  friend constexpr bool operator==(const PredictionRun&, const PredictionRun&) = default;
};
/// What predictions_on(predictions(layout, prompt_lengths), rank) lists, as runs in the same order, without
/// going through other ranks' rows. Throws as `predictions` does. O(runs of all samples).
[[nodiscard]] std::vector<PredictionRun> prediction_runs(const PackedTreeLayout& layout,
                                                         std::span<const std::int64_t> prompt_lengths,
                                                         CpRank rank);

/// Labels, one a prediction: the response token itself, out of this rank's rows. `halo` has the tokens that
/// others may have to send: the one after each entry of packed_runs(layout.segments(), rank), then the first
/// one of each segment. Read are only those of runs that end inside their segment, and of segments whose row
/// in front is on this rank while the token is not; with cp 1 none is. Throws InputError when `out` has not
/// one element a prediction, or a run needs a token that is not there.
void derive_labels(std::span<const PredictionRun> runs, std::span<const std::int64_t> local_tokens,
                   std::span<const std::int64_t> halo, std::span<std::int64_t> out);

/// Copies what a rank's rows predict to the response tokens they predict: local rows -> rows of a field of
/// one row per response token. Other rows stay untouched, so that calling it for every rank completes the
/// field. Throws InputError when a list names rows that are not there.
void gather_predictions(const LocalPredictions& predictions, std::size_t row_bytes,
                        std::span<const std::byte> local, std::span<std::byte> responses);

/// The way back of gather_predictions for gradients: adds each response token's row of `width` numbers to the
/// local row that predicted it, in the order of the entries. Throws InputError likewise.
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const float> responses, std::span<float> local);
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const double> responses, std::span<double> local);

}  // namespace evenkeel
