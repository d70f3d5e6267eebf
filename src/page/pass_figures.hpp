#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <numeric>
#include <string>
#include <tuple>
#include <type_traits>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel {

/// Names of the phases of making a step, in the order of the members of PhaseSeconds.
inline constexpr std::array<const char*, 6> phase_names{"read",  "gather",   "plan",
                                                        "agree", "exchange", "pack"};
using PhaseTimes = std::array<double, phase_names.size()>;
[[nodiscard]] inline double sum_of(const PhaseTimes& seconds) noexcept {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

struct SharingSavings;

/// Figures of one pass over a step's samples (such as log_prob or update), aggregated over all ranks.
/// `figures_of_a_pass` lists all members.
struct PassFigures {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;        ///< number of true tokens (without padding)
  std::int64_t loss_tokens = 0;   ///< number of tokens that carry loss
  std::int64_t without_loss = 0;  ///< number of samples without tokens that carry loss
  std::int64_t left_out = 0;  ///< number of samples dropped by batch.without_loss; not included in `samples`
  std::int64_t filled = 0;    ///< number of rows that hold a token; shared rows count once
  std::int64_t rows = 0;      ///< number of rows of all micro-batches, not counting the filler of empty ones
  /// Number of rows if all samples formed one padded batch: samples x the longest aligned length.
  std::int64_t padded_rows = 0;
  std::int64_t unshared_rows = 0;  ///< with shared prefixes, the value that `rows` would have without sharing
  /// Numbers of shared tokens that are repeated, by reason (see repeat_reasons).
  RepeatedTokens repeated{};

  std::int64_t micro_batches = 0;  ///< maximum number of micro-batches on any DP rank (K)
  /// Lower bound on `micro_batches`: the maximum of the DP ranks' lower bounds.
  std::int64_t lower_bound = 0;
  std::int64_t empty = 0;  ///< number of empty micro-batches over all DP ranks
  /// Number of micro-batches with more rows than micro_batch.max_tokens, over all DP ranks; 0 unless a preset
  /// makes such micro-batches.
  std::int64_t above_cap = 0;
  std::int64_t widest = 0;  ///< number of rows of the largest micro-batch of any DP rank

  /// Max/mean ratio of the DP ranks' work if samples were assigned in source order.
  double max_over_mean_before = 1;
  StepBalance balance;  ///< balance of the planned work, or of the planned time if DP ranks have speeds
  /// Like max_over_mean_before, for the encoder's work; used only if this work is also balanced.
  double encoder_before = 1;
  double encoder = 1;  ///< max/mean ratio of the DP ranks' encoder work as planned

  // The members below are zero for a plan that has not been executed. Means over ranks may be summed over
  // phases and steps: the sum does not exceed the wall-clock time.
  PhaseTimes seconds{};       ///< time of each phase; mean over ranks
  PhaseTimes slowest{};       ///< time of the slowest rank in each phase
  double waited = 0;          ///< part of `seconds` during which the trainer waited; mean over ranks
  double longest_waited = 0;  ///< maximum of `waited` over all ranks
  std::int64_t sent_bytes = 0, node_bytes = 0, kept_bytes = 0, copied_bytes = 0;  ///< see ExchangeVolume
  std::int64_t forwarded_bytes = 0, node_messages = 0;
  /// Maximum number of bytes of column memory so far, on the rank with the most.
  std::int64_t peak_bytes = 0;
};

/// Counts the tokens that carry loss and the samples without such tokens, and adds both counts to `figures`.
void add_loss_counts(const LengthTable& table, PassFigures& figures);

/// Rule for combining a figure of several passes into a total.
enum class Adds : std::uint8_t {
  as_sum,   ///< sum over all passes, for counts, bytes and seconds
  as_most,  ///< maximum over all passes
  as_mean,  ///< mean over all passes, for ratios
};

/// Describes one figure of a pass: its accessor, its rule for totals, and its names in outputs. A name is
/// null if the figure does not have its own entry in that output.
template <typename Of>
struct Figure {
  Of of;
  Adds adds;
  const char* report;  ///< JSON pointer in a step of report.json and metrics.jsonl
  const char* page;    ///< key in the totals of report.html
};

template <auto Member>
inline constexpr auto of_balance = [](auto& figures) -> auto& {
  return figures.balance.*Member;
};

inline constexpr std::tuple figures_of_a_pass{
    Figure{&PassFigures::samples, Adds::as_sum, "/samples", "samples"},
    Figure{&PassFigures::tokens, Adds::as_sum, "/tokens", "tokens"},
    Figure{&PassFigures::loss_tokens, Adds::as_sum, "/loss_tokens", "loss_tokens"},
    Figure{&PassFigures::without_loss, Adds::as_sum, "/samples_without_loss", "without_loss"},
    Figure{&PassFigures::left_out, Adds::as_sum, "/dropped_without_loss", "left_out"},
    Figure{&PassFigures::filled, Adds::as_sum, nullptr, "filled"},
    Figure{&PassFigures::rows, Adds::as_sum, "/aligned_tokens", "rows"},
    Figure{&PassFigures::padded_rows, Adds::as_sum, "/padded_tokens", "padded_rows"},
    Figure{&PassFigures::unshared_rows, Adds::as_sum, nullptr, "unshared_rows"},
    Figure{&PassFigures::repeated, Adds::as_sum, nullptr, "repeated"},
    Figure{&PassFigures::micro_batches, Adds::as_sum, "/num_micro_batches", "micro_batches"},
    Figure{&PassFigures::lower_bound, Adds::as_sum, "/micro_batches_lower_bound", "lower_bound"},
    Figure{&PassFigures::empty, Adds::as_sum, "/empty_micro_batches", "empty"},
    Figure{&PassFigures::above_cap, Adds::as_sum, "/micro_batches_above_cap", "above_cap"},
    Figure{&PassFigures::widest, Adds::as_most, "/widest_micro_batch", "widest"},
    Figure{&PassFigures::max_over_mean_before, Adds::as_mean, "/dp_max_over_mean_before", "before"},
    Figure{of_balance<&StepBalance::dp_max_over_mean>, Adds::as_mean, "/balance/dp_max_over_mean", "dp"},
    Figure{of_balance<&StepBalance::micro_batch_max_over_mean>, Adds::as_mean,
           "/balance/micro_batch_max_over_mean", "micro_batch"},
    Figure{of_balance<&StepBalance::step_max_over_mean>, Adds::as_mean, "/balance/step_max_over_mean",
           "each"},
    Figure{&PassFigures::encoder_before, Adds::as_mean, nullptr, nullptr},
    Figure{&PassFigures::encoder, Adds::as_mean, nullptr, nullptr},
    Figure{&PassFigures::seconds, Adds::as_sum, "/seconds", "seconds"},
    Figure{&PassFigures::slowest, Adds::as_sum, "/slowest_seconds", nullptr},
    Figure{&PassFigures::waited, Adds::as_sum, "/waited_seconds", "waited"},
    Figure{&PassFigures::longest_waited, Adds::as_sum, "/longest_waited_seconds", nullptr},
    Figure{&PassFigures::sent_bytes, Adds::as_sum, "/bytes/sent", "sent_bytes"},
    Figure{&PassFigures::node_bytes, Adds::as_sum, "/bytes/between_nodes", "node_bytes"},
    Figure{&PassFigures::kept_bytes, Adds::as_sum, "/bytes/kept", "kept_bytes"},
    Figure{&PassFigures::copied_bytes, Adds::as_sum, "/bytes/copied", "copied_bytes"},
    Figure{&PassFigures::forwarded_bytes, Adds::as_sum, "/bytes/forwarded", nullptr},
    Figure{&PassFigures::node_messages, Adds::as_sum, "/messages_between_nodes", nullptr},
    Figure{&PassFigures::peak_bytes, Adds::as_most, "/column_bytes", "peak_bytes"}};

/// Calls `visit` with each element of figures_of_a_pass.
template <typename Visit>
constexpr void for_each_figure(Visit&& visit) {
  std::apply([&](const auto&... figure) { (visit(figure), ...); }, figures_of_a_pass);
}

[[nodiscard]] inline std::int64_t sum_of(const RepeatedTokens& repeated) noexcept {
  return std::accumulate(repeated.begin(), repeated.end(), std::int64_t{0});
}

/// Formats repeated tokens, such as "10 to keep micro_batch.max_tokens", "12: 10 to keep
/// micro_batch.max_tokens, 2 to keep micro_batch.max_rows", or "0".
[[nodiscard]] std::string describe_repeated_tokens(const RepeatedTokens& repeated);
/// Converts repeated tokens to JSON, with one key per reason, such as {"max_tokens": 10, "max_rows": 2, ...}.
[[nodiscard]] nlohmann::json repeated_json(const RepeatedTokens& repeated);
/// Converts the numbers of tokens and attention scores, with and without sharing, and the repeated tokens to
/// JSON.
[[nodiscard]] nlohmann::json sharing_json(const SharingSavings& savings, const RepeatedTokens& repeated);

/// Totals over the passes of a run.
class PassTotals {
 public:
  void add(const PassFigures& pass);

  [[nodiscard]] std::int64_t passes() const noexcept { return passes_; }
  /// Returns the totals over all passes, with each figure combined by its rule.
  [[nodiscard]] PassFigures total() const;
  /// Returns the maximum of each figure over all passes.
  [[nodiscard]] const PassFigures& maximum() const noexcept { return most_; }

 private:
  std::int64_t passes_ = 0;
  PassFigures sums_;
  PassFigures most_;
};

}  // namespace evenkeel
