#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// Where the prediction of every response token is in a shared, packed, CP-cut micro-batch. The row before a
/// branch predicts a different token for each sample after it, so one label or loss weight a row is not
/// enough; a list of (response token, row) is. It has one entry a response token, sample after sample, like a
/// field with one row per response token: the label of entry e is response token e, and its loss weight is
/// that token's own.
struct PredictionMap {
  std::vector<std::int64_t> offsets{0};  ///< samples + 1: sample i has entries [offsets[i], offsets[i+1])
  std::vector<CpRank> rank;              ///< that holds the row; -1 for a first token, if nothing predicts it
  std::vector<std::int64_t> row;         ///< local row on that rank; -1 likewise

  /// Entries.
  [[nodiscard]] std::int64_t size() const noexcept { return offsets.back(); }
  friend bool operator==(const PredictionMap&, const PredictionMap&) = default;
};

/// For all response tokens of a tree's samples, each of which starts with a prompt of this many tokens.
/// Throws InputError unless there is one prompt length for each sample, not negative and not longer than its
/// sample. O(rows + total length of the samples).
[[nodiscard]] PredictionMap predictions(const PackedTreeLayout& layout,
                                        std::span<const std::int64_t> prompt_lengths);
/// For all suffix tokens of prefix groups; samples are the suffixes, in order.
[[nodiscard]] PredictionMap predictions(const PackedPrefixLayout& layout);

/// The entries whose rows one CP rank holds: what its trainer gathers, logits.index_select(0, rows), and
/// which response token each of them belongs to.
struct LocalPredictions {
  std::vector<std::int64_t> rows;     ///< local rows; the one before a branch is listed for every sample
  std::vector<std::int64_t> entries;  ///< of the map; increasing

  friend bool operator==(const LocalPredictions&, const LocalPredictions&) = default;
};
/// All ranks together list every entry once, except those that nothing predicts. O(entries).
[[nodiscard]] LocalPredictions predictions_on(const PredictionMap& map, CpRank rank);

/// Consecutive response tokens of one sample that a CP rank predicts from consecutive local rows.
struct PredictionRun {
  std::int64_t sample = 0;
  RowRange rows;  ///< local rows that predict, at least one

  friend constexpr bool operator==(const PredictionRun&, const PredictionRun&) = default;
};
/// The list of predictions_on(predictions(layout, prompt_lengths), rank) as runs in the same order, computed
/// without other ranks' rows. With `ahead`, what a module predicts that much further on: response token t
/// from the row of token t - 1 - ahead. Throws as `predictions` does. O(runs of all samples).
[[nodiscard]] std::vector<PredictionRun> prediction_runs(const PackedTreeLayout& layout,
                                                         std::span<const std::int64_t> prompt_lengths,
                                                         CpRank rank, std::int64_t ahead = 0);

/// Labels, one a prediction of prediction_runs(..., ahead): the response token itself, from this rank's rows.
/// `halo` has the tokens that other ranks may have to send, `reach` each time: those after each entry of
/// packed_runs(layout.segments(), rank), then the first ones of each segment. It is read only for runs that
/// end inside their segment, and for first tokens that are not in a run of this rank that begins its segment;
/// with cp 1 not at all. Throws InputError unless `out` has one element for each prediction, and if a token
/// is missing. Precondition: ahead < reach.
void derive_labels(const PackedTreeLayout& layout, std::span<const std::int64_t> prompt_lengths, CpRank rank,
                   std::span<const std::int64_t> local_tokens, std::span<const std::int64_t> halo,
                   std::span<std::int64_t> out, std::int64_t reach = 1, std::int64_t ahead = 0);

/// The tokens `ahead` rows behind each row, `pad` behind the end of its samples and in pad rows: what a
/// module that predicts further tokens embeds. All samples that share a row must have the same one: the tree
/// is of PrefixTree::of_tokens with at least as many ahead. `out` has one element a local row; `halo` as
/// above. Precondition: 1 <= ahead <= reach.
void derive_tokens_ahead(const PackedTreeLayout& layout, CpRank rank,
                         std::span<const std::int64_t> local_tokens, std::span<const std::int64_t> halo,
                         std::int64_t reach, std::int64_t ahead, std::int64_t pad,
                         std::span<std::int64_t> out);

/// Copies a rank's values to the response tokens that its rows predict: local rows -> rows of a field with
/// one row per response token. Other rows do not change, so calling it for every rank completes the field.
/// Throws InputError if a list names rows that do not exist.
void gather_predictions(const LocalPredictions& predictions, std::size_t row_bytes,
                        std::span<const std::byte> local, std::span<std::byte> responses);

/// The reverse of gather_predictions for gradients: adds each response token's row of `width` numbers to the
/// local row that predicted it, in the order of the entries. Throws InputError in the same cases.
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const float> responses, std::span<float> local);
void add_prediction_gradients(const LocalPredictions& predictions, std::int64_t width,
                              std::span<const double> responses, std::span<double> local);

}  // namespace evenkeel
