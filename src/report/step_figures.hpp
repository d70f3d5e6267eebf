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

/// Bytes of one field, summed over all ranks.
struct FieldFigures {
  std::string name;
  /// Whether the field is transferred in a format other than that of the samples' column.
  bool changed = false;
  std::int64_t received = 0;  ///< bytes received from owners, including those that an owner kept for itself
  std::int64_t copied = 0;    ///< bytes copied from another rank of the node (FieldVolume::copied)
  std::int64_t max_received = 0;  ///< maximum number of bytes that one rank received

  friend bool operator==(const FieldFigures&, const FieldFigures&) = default;
};

/// Shapes to which micro-batches were padded. Used with micro_batch.shapes.
struct ShapeFigures {
  std::int64_t most = 0;       ///< maximum number of shapes (micro_batch.shapes)
  std::int64_t chosen = 0;     ///< number of shapes chosen so far, for all passes
  std::set<PackedShape> used;  ///< shapes that at least one micro-batch used
  /// Number of rows added to reach the shapes, over all CP groups. All rows of empty micro-batches count as
  /// added.
  std::int64_t padding = 0;

  /// Adds the figures of another pass.
  ShapeFigures& operator+=(const ShapeFigures& other);
};

/// Decision made by balance.strategy: auto, with its reason.
struct StrategyFigures {
  SyncPoint meet = SyncPoint::step;  ///< how often the trainer's ranks synchronize
  std::int64_t steps = 0;
  std::int64_t grids = 0;  ///< number of steps for which grid was chosen
  /// Sums of the steps' planned end times, in units of cost: if all steps used hierarchical, if all steps
  /// used grid, and with the chosen strategies.
  double hierarchical_end = 0;
  double grid_end = 0;
  double chosen_end = 0;

  /// Adds the figures of another pass.
  StrategyFigures& operator+=(const StrategyFigures& other);
};

/// Figures of one pass over a step's samples, over all ranks.
struct StepFigures : PassFigures {
  std::int64_t step = 0;
  std::string profile;         ///< profile of the pass; empty for the job's own settings
  std::int64_t cap = 0;        ///< maximum tokens per micro-batch, after alignment
  std::int64_t alignment = 1;  ///< alignment of sequences, in tokens
  /// Whether micro-batches are padded, so that PassFigures::rows counts every sample with the width of its
  /// micro-batch.
  bool pads_micro_batches = false;

  bool shares_encoder = false;    ///< whether an encoder's work is also balanced
  CostInUse cost;                 ///< cost model of the plan
  bool cost_is_measured = false;  ///< whether the configuration requests measured costs

  std::array<int, phase_names.size()> slowest_ranks{};  ///< for each phase, the rank that took longest

  std::vector<FieldFigures> fields;         ///< transferred fields, in transfer order
  std::optional<SharingSavings> sharing;    ///< present with shared prefixes
  std::optional<ShapeFigures> shapes;       ///< present with micro_batch.shapes
  std::optional<StrategyFigures> strategy;  ///< present with balance.strategy: auto
  NamedMetrics metrics;                     ///< figures of this pass under the names that ROLL and verl use
  /// Figures of the stream when the trainer got the step; present if samples arrive during training.
  std::optional<ArrivalFigures> arrivals;

  std::shared_ptr<const StepPicture> picture;  ///< figures by rank; null unless requested
};

/// Level of detail of a step's figures.
enum class FiguresDetail : std::uint8_t {
  totals,
  picture,  ///< also figures of each DP rank, micro-batch and rank, for the page
};

/// Collective over the mesh: returns, on world rank 0, the figures of a pass that ran under `settings`;
/// nullopt on other ranks. `detail` must be equal on all ranks.
[[nodiscard]] std::optional<StepFigures> gather_figures(const Mesh& mesh, const PlanSettings& settings,
                                                        const Step& step,
                                                        FiguresDetail detail = FiguresDetail::totals);

}  // namespace evenkeel
