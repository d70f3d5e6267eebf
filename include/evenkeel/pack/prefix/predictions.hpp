#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// The place of the prediction of every response token in a shared, packed, CP-cut micro-batch. The row
/// before a branch predicts a different token for each sample after it, so one label or loss weight per row
/// is not enough. Instead, there is a list of (response token, row). Like a field with one row per response
/// token, it has one entry per response token, sample after sample: the label of entry e is response token e,
/// and its loss weight is that token's weight.
struct PredictionMap {
  std::vector<std::int64_t> offsets{0};  ///< samples + 1: sample i has entries [offsets[i], offsets[i+1])
  std::vector<CpRank> rank;       ///< rank that holds the row; -1 for a first token that is not predicted
  std::vector<std::int64_t> row;  ///< local row on that rank; -1 for a first token that is not predicted

  /// Returns the number of entries.
  [[nodiscard]] std::int64_t size() const noexcept { return offsets.back(); }
  friend bool operator==(const PredictionMap&, const PredictionMap&) = default;
};

/// Returns the predictions of all response tokens of a tree's samples, each of which starts with a prompt of
/// the given length. Throws InputError unless there is one prompt length per sample, which is not negative
/// and not longer than the sample. O(rows + total length of the samples).
[[nodiscard]] PredictionMap predictions(const PackedTreeLayout& layout,
                                        std::span<const std::int64_t> prompt_lengths);
/// Returns the predictions of all suffix tokens of prefix groups; samples are the suffixes, in order.
[[nodiscard]] PredictionMap predictions(const PackedPrefixLayout& layout);

/// The entries whose rows one CP rank holds: the rows that its trainer gathers with logits.index_select(0,
/// rows), and the response token to which each of them belongs.
struct LocalPredictions {
  std::vector<std::int64_t> rows;     ///< local rows; the row before a branch is listed once per sample
  std::vector<std::int64_t> entries;  ///< entries of the map, in ascending order

  friend bool operator==(const LocalPredictions&, const LocalPredictions&) = default;
};
/// Returns the entries of one CP rank. All ranks together list every entry once, except those that are not
/// predicted. O(entries).
[[nodiscard]] LocalPredictions predictions_on(const PredictionMap& map, CpRank rank);

/// Consecutive response tokens of one sample that a CP rank predicts from consecutive local rows.
struct PredictionRun {
  std::int64_t sample = 0;
  RowRange rows;  ///< predicting local rows, at least one

  friend constexpr bool operator==(const PredictionRun&, const PredictionRun&) = default;
};
/// Returns the list of predictions_on(predictions(layout, prompt_lengths), rank) as runs in the same order,
/// computed without other ranks' rows. With `ahead`, returns the predictions of a module that predicts that
/// much further ahead: response token t from the row of token t - 1 - ahead. Throws the errors of
/// predictions(). O(runs of all samples).
[[nodiscard]] std::vector<PredictionRun> prediction_runs(const PackedTreeLayout& layout,
                                                         std::span<const std::int64_t> prompt_lengths,
                                                         CpRank rank, std::int64_t ahead = 0);

/// Derives labels, one per prediction of prediction_runs(..., ahead): the response token itself, from this
/// rank's rows. `halo` contains tokens that other ranks may have to send, in groups of `reach`: those after
/// each entry of packed_runs(layout.segments(), rank), then the first ones of each segment. It is read only
/// for runs that end inside their segment, and for first tokens of segments that this rank does not hold;
/// with cp 1, it is not read at all. Throws InputError unless `out` has one element per prediction, and if a
/// token is missing. Precondition: ahead < reach.
void derive_labels(const PackedTreeLayout& layout, std::span<const std::int64_t> prompt_lengths, CpRank rank,
                   std::span<const std::int64_t> local_tokens, std::span<const std::int64_t> halo,
                   std::span<std::int64_t> out, std::int64_t reach = 1, std::int64_t ahead = 0);

/// Derives the tokens that a module that predicts further tokens embeds: the token `ahead` rows after each
/// row, and `pad` after the end of its samples and in pad rows. All samples that share a row must have the
/// same such token, so the tree must be made by PrefixTree::from_tokens with at least the same `ahead`. `out`
/// has one element per local row; see derive_labels() for `halo`. Precondition: 1 <= ahead <= reach.
void derive_tokens_ahead(const PackedTreeLayout& layout, CpRank rank,
                         std::span<const std::int64_t> local_tokens, std::span<const std::int64_t> halo,
                         std::int64_t reach, std::int64_t ahead, std::int64_t pad,
                         std::span<std::int64_t> out);

/// Copies a rank's values from its local rows to the response tokens that these rows predict, in a field with
/// one row per response token. Other rows do not change, so calling it for every rank completes the field.
/// Throws InputError if a list contains rows that do not exist.
void gather_predictions(const LocalPredictions& predictions, std::size_t row_bytes,
                        std::span<const std::byte> local, std::span<std::byte> responses);

/// Backward pass of gather_predictions(): adds each response token's row of `width` numbers to the local row
/// that predicted it, in the order of the entries. Throws InputError in the same cases.
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const float> responses, std::span<float> local);
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const double> responses, std::span<double> local);

}  // namespace evenkeel
