#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/service/data_service.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "page/step_picture.hpp"
#include "plan/settings/measured_cost.hpp"

namespace evenkeel {

/// What one field's bytes come to over all ranks.
struct FieldFigures {
  std::string name;
  bool changed = false;            ///< whether it travels otherwise than it is brought
  std::int64_t received = 0;       ///< bytes that owners sent or kept
  std::int64_t copied = 0;         ///< bytes of model-parallel copies
  std::int64_t most_received = 0;  ///< by one rank

  friend bool operator==(const FieldFigures&, const FieldFigures&) = default;
};

/// How even an encoder's work is over DP ranks, max over mean.
struct EncoderBalance {
  double before = 1;  ///< if samples went out in source order
  double balanced = 1;
};

/// The shapes that micro-batches were padded to, with micro_batch.shapes.
struct ShapeFigures {
  std::int64_t most = 0;             ///< that there may be
  std::int64_t chosen = 0;           ///< so far, for all passes
  std::set<PackedShape> handed_out;  ///< those that a micro-batch had
  /// Rows added to reach them, over all CP groups; those of empty micro-batches are all added.
  std::int64_t padding = 0;

  /// Of two passes.
  ShapeFigures& operator+=(const ShapeFigures& other);
};

/// One pass over a step's samples, over all ranks.
struct StepFigures {
  std::int64_t step = 0;
  std::string profile;         ///< whose settings it ran under; empty: the job's own
  std::int64_t cap = 0;        ///< tokens of a micro-batch after alignment
  std::int64_t alignment = 1;  ///< tokens
  std::int64_t samples = 0;
  std::int64_t tokens = 0;          ///< true tokens
  std::int64_t aligned_tokens = 0;  ///< rows of all micro-batches, filler left out
  std::int64_t padded_tokens = 0;   ///< rows of one padded batch: samples x the longest aligned length
  bool pads_micro_batches =
      false;  ///< whether aligned_tokens are of samples padded to their micro-batch's width

  std::int64_t micro_batches = 0;              ///< K, of each DP rank
  std::int64_t micro_batches_lower_bound = 0;  ///< the most any DP rank needs at the least
  std::int64_t empty_micro_batches = 0;        ///< over all DP ranks
  std::int64_t widest_micro_batch = 0;         ///< aligned tokens over the CP group
  std::int64_t micro_batches_above_cap = 0;    ///< over all DP ranks; 0 unless a preset asks for another plan

  double dp_max_over_mean_before = 1;     ///< of work, if samples went out in source order
  StepBalance balance;                    ///< of work, as planned; of time where DP ranks have speeds
  std::optional<EncoderBalance> encoder;  ///< where its work is shared out as well
  CostInUse cost;                         ///< that work is counted by
  bool cost_is_measured = false;          ///< whether the configuration asks for it

  ExchangeVolume volume;             ///< over all ranks
  std::vector<FieldFigures> fields;  ///< that travelled, in that order
  std::int64_t column_bytes = 0;     ///< most that columns took at a time so far, on the rank with most
  // Means over ranks add up: over phases and over steps, and they stay below the wall clock.
  PhaseSeconds seconds;          ///< mean over ranks
  PhaseSeconds slowest_seconds;  ///< of each phase by itself, the rank's that took longest
  double waited = 0;             ///< of `seconds`, those that the trainer waited; mean over ranks

  std::optional<SharingSavings> sharing;    ///< with shared prefixes
  std::int64_t tokens_repeated_by_cap = 0;  ///< shared tokens that groups above the cap repeat
  std::int64_t unshared_rows = 0;           ///< what aligned_tokens would be without sharing

  std::optional<ShapeFigures> shapes;  ///< with micro_batch.shapes

  NamedMetrics metrics;  ///< the same under ROLL's and verl's names

  std::shared_ptr<const StepPicture> picture;  ///< rank by rank; nothing unless it was asked for
};

/// How much is gathered of a step.
enum class FiguresDetail : std::uint8_t {
  totals,
  picture,  ///< also what the page shows: of each DP rank, micro-batch and rank
};

/// Collective over the mesh: the figures of a pass that ran under `settings`, on world rank 0 (others get
/// nothing). `detail` is the same on all ranks.
[[nodiscard]] std::optional<StepFigures> gather_figures(const Mesh& mesh, const PlanSettings& settings,
                                                        const Step& step,
                                                        FiguresDetail detail = FiguresDetail::totals);

}  // namespace evenkeel
