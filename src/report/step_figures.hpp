#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/service/data_service.hpp"
#include "page/pass_figures.hpp"
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

/// What balance.strategy: auto chose, and why.
struct StrategyFigures {
  Meeting meet = Meeting::once_a_step;  ///< of the trainer's ranks
  std::int64_t steps = 0;
  std::int64_t grids = 0;  ///< steps for which it was grid
  /// When steps end, in the units of their cost: as if all were planned in that way, and as they were.
  double hierarchical_end = 0;
  double grid_end = 0;
  double chosen_end = 0;

  /// Of two passes.
  StrategyFigures& operator+=(const StrategyFigures& other);
};

/// One pass over a step's samples, over all ranks.
struct StepFigures : PassFigures {
  std::int64_t step = 0;
  std::string profile;              ///< whose settings it ran under; empty: the job's own
  std::int64_t cap = 0;             ///< tokens of a micro-batch after alignment
  std::int64_t alignment = 1;       ///< tokens
  bool pads_micro_batches = false;  ///< whether `rows` are of samples padded to their micro-batch's width

  bool shares_encoder = false;    ///< whether an encoder's work is shared out as well
  CostInUse cost;                 ///< that work is counted by
  bool cost_is_measured = false;  ///< whether the configuration asks for it

  std::array<int, phase_names.size()> slowest_ranks{};  ///< of each phase, the rank that took longest

  std::vector<FieldFigures> fields;         ///< that travelled, in that order
  std::optional<SharingSavings> sharing;    ///< with shared prefixes
  std::optional<ShapeFigures> shapes;       ///< with micro_batch.shapes
  std::optional<StrategyFigures> strategy;  ///< where the plan decided it
  NamedMetrics metrics;                     ///< the same under ROLL's and verl's names
  std::optional<ArrivalFigures> arrivals;   ///< when the step was handed out, where samples arrive

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
