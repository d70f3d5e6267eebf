#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/base/grid.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {

/// How samples are assigned to DP ranks.
enum class BalanceAlgorithm : std::uint8_t {
  automatic,       ///< the best one for the number of samples and ranks
  karmarkar_karp,  ///< largest differencing method
  lpt,             ///< longest processing time first
  sorted_stride,   ///< ascending by length, every dp-th sample (ROLL's dynamic batching)
  none,            ///< contiguous runs in source order
};

/// The order of a DP rank's micro-batches.
enum class MicroBatchOrder : std::uint8_t {
  pipeline,  ///< cheap ones at both ends, where a pipeline fills and drains (verl, ROLL)
  plan,      ///< as the planner made them
  cost,      ///< costliest first
  schedule,  ///< by simulating the pipeline, 1F1B or interleaved; with one stage: like `pipeline`
};

/// Another system whose exact partitions are reproduced. Each ignores what its reference ignores, including
/// the cap of a balanced micro-batch: none of the references keeps it.
enum class Preset : std::uint8_t {
  none,          ///< Evenkeel's own planning, which keeps its promises
  mindspeed_rl,  ///< LPT with equal counts over DP ranks; micro-batches by `rearrange_micro_batches`
  roll,          ///< `batch_balance`; load-balanced sequence packing, or dynamic batching when padded
  verl,          ///< `batch_balance` by work; micro-batches by `rearrange_micro_batches`
};

/// Where the DP ranks of the trainer wait for each other.
enum class Meeting : std::uint8_t {
  once_a_step,        ///< at the end of each mini-batch, to reduce gradients: plain data parallelism
  every_micro_batch,  ///< FSDP, which gathers parameters, and experts' all-to-all
};

/// Which comes first: assigning to DP ranks, or packing micro-batches. A word of the configuration.
enum class Strategy : std::uint8_t {
  automatic,     ///< whichever ends a step first by BalanceSettings::meet (choose_strategy)
  hierarchical,  ///< samples are assigned to DP ranks, and each rank packs its own
  grid,          ///< micro-batches are packed from all samples, then laid out over the DP ranks (plan_grid)
};

/// Which DP rank gets which of several equivalent shares.
enum class PlacementRule : std::uint8_t {
  locality,  ///< the one that already holds most of its tokens (best_placement)
  none,      ///< as the algorithm numbers them
};

/// Costs that follow the times a trainer reports (see MeasuredCostModel).
struct MeasuredCost {
  std::int64_t every = 1;      ///< steps from one fit to the next
  std::int64_t window = 4096;  ///< times that a fit uses, the latest of all ranks

  friend bool operator==(const MeasuredCost&, const MeasuredCost&) = default;
};

/// What context parallelism costs in addition to the work, if micro-batches have groups of their own sizes;
/// in the units of the cost (see CommunicationCost). With a measured cost, inside_node and between_nodes are
/// the initial values.
struct CommunicationSettings {
  std::optional<Cost> inside_node;    ///< unset: 333 of the 24576 that a token costs in a 7B model with GQA
  std::optional<Cost> between_nodes;  ///< unset: 2500 of them
  std::optional<std::int64_t> ranks_per_node;  ///< places of a node; unset: 8 / tp
  std::int64_t overlap = 1000;                 ///< thousandths of attention that hide it

  friend bool operator==(const CommunicationSettings&, const CommunicationSettings&) = default;
};

/// How many micro-batches a DP rank gets.
enum class CountRule : std::uint8_t {
  fewest,   ///< as few as all DP ranks can manage with
  fastest,  ///< a few more if the step should then end earlier (fastest_counts)
};

/// What one micro-batch is. A word of the configuration.
enum class MicroBatchMode : std::uint8_t {
  packed,  ///< as many sequences as the cap holds, balanced, back to back
  padded,  ///< sequences of similar length, padded to one length (ROLL's dynamic batching)
  fixed,   ///< a fixed number of sequences, in order (MindSpeed-RL's plain split), back to back
};

/// The work of an encoder of images or sound for a sample, before the model: it depends on the sample's rows
/// in a field.
struct EncoderCost {
  std::string field;        ///< of kind `rows`
  CostModel cost{0, 0, 0};  ///< of that many rows, in the units of the model's cost

  friend bool operator==(const EncoderCost&, const EncoderCost&) = default;
};

/// What work costs, whatever the strategy.
struct BalanceSettings {
  CostModel cost = CostModel::tokens();
  /// Unset: nobody said. A strategy that is automatic is then hierarchical, and groups of different sizes are
  /// refused.
  std::optional<Meeting> meet = std::nullopt;
  PlacementRule placement = PlacementRule::locality;  ///< ignored when a reference is reproduced
  /// How fast each DP rank works, in thousandths of any one unit; empty: all equal. A group is as fast as its
  /// slowest rank.
  std::vector<std::int64_t> speeds = {};
  /// Set: `cost` is the initial cost, and later steps are balanced by measured costs.
  std::optional<MeasuredCost> measured = std::nullopt;
  /// The constant cost of a micro-batch, for CountRule::fastest, for groups, and for Strategy::automatic,
  /// which adds it for each micro-batch of both ways; unset: default_overhead of the cost.
  std::optional<Cost> overhead = std::nullopt;
  CommunicationSettings communication = {};
  /// Set: the encoder's work, which `cost` does not include, is balanced over DP ranks as well
  /// (partition_by_two_costs).
  std::optional<EncoderCost> encoder = std::nullopt;
  /// Set: a sample's work is what its elements of this field add up to, and that of samples that share
  /// prefixes is the sum of theirs. One unit of it is what `cost`, that of tokens, says a token costs.
  std::optional<std::string> cost_field = std::nullopt;

  friend bool operator==(const BalanceSettings&, const BalanceSettings&) = default;
};

/// What a micro-batch may hold, whatever the strategy.
struct MicroBatchSettings {
  /// The cap: tokens of one micro-batch after alignment, including padding, over its whole CP group. If
  /// micro-batches have groups of their own sizes: tokens of each rank of the group.
  std::int64_t max_tokens = 8192;
  std::optional<std::int64_t> max_samples = std::nullopt;  ///< most samples of one micro-batch
  std::int64_t min_count = 1;                              ///< fewest micro-batches of a DP rank
  /// The count is a multiple of it; unset: pp when vpp > 1, else 1.
  std::optional<std::int64_t> multiple_of = std::nullopt;
  MicroBatchOrder order = MicroBatchOrder::pipeline;  ///< of packed micro-batches
  /// Set: micro-batches of the whole run have at most this many shapes (see PackedShape). Then max_samples is
  /// set, too: one shape must fit every possible micro-batch.
  std::optional<std::int64_t> shapes = std::nullopt;
  /// Most rows of a micro-batch's samples in each of these counted fields, over the whole CP group, as the
  /// samples bring them: neither cut nor shared.
  std::map<std::string, std::int64_t, std::less<>> max_rows = {};

  friend bool operator==(const MicroBatchSettings&, const MicroBatchSettings&) = default;
};

/// How samples are assigned to DP ranks before each rank makes its own micro-batches.
struct AssignmentSettings {
  BalanceAlgorithm algorithm = BalanceAlgorithm::automatic;
  bool equal_count = false;  ///< DP ranks get equal numbers of samples, to within one
  bool refine = true;        ///< then improve the assignment by moves and swaps

  friend bool operator==(const AssignmentSettings&, const AssignmentSettings&) = default;
};

/// As many sequences as the cap holds, balanced, back to back.
struct PackedSettings : AssignmentSettings {
  /// Unset: as few as can be found, balanced. Set: the bins of that algorithm, which are not balanced.
  std::optional<BinPacking> packing = std::nullopt;
  CountRule count = CountRule::fewest;
  bool or_grid = true;  ///< if BalanceSettings::meet is set: or as a grid, whichever ends a step first

  friend bool operator==(const PackedSettings&, const PackedSettings&) = default;
};

/// Sequences of similar length, padded to one length (ROLL's dynamic batching).
struct PaddedSettings : AssignmentSettings {
  std::int64_t length_round = 64;  ///< the length is a multiple of it

  friend bool operator==(const PaddedSettings&, const PaddedSettings&) = default;
};

/// A fixed number of sequences, in order (MindSpeed-RL's plain split), back to back.
struct FixedSettings : AssignmentSettings {
  std::int64_t size = 1;  ///< samples of a micro-batch, fewer if the cap requires it
  bool shuffle = false;   ///< cut in random order

  friend bool operator==(const FixedSettings&, const FixedSettings&) = default;
};

/// Micro-batches are packed from all samples, then laid out over the DP ranks.
struct GridSettings {
  friend bool operator==(const GridSettings&, const GridSettings&) = default;
};

/// Flexible context parallelism: each micro-batch is run by a group of its own size of neighboring DP ranks.
struct ContextGroupSettings {
  int max_size = 1;  ///< of a group

  /// Sizes that a group may have, ascending.
  [[nodiscard]] std::vector<int> group_sizes() const;

  friend bool operator==(const ContextGroupSettings&, const ContextGroupSettings&) = default;
};

/// DP ranks have as many micro-batches as they take part in, and do not wait for each other in between.
struct ContextTreeSettings : ContextGroupSettings {};

/// DP ranks meet at every micro-batch, and have equal numbers of them.
struct ContextWavesSettings : ContextGroupSettings {};

/// The exact partitions of another system.
struct ReferenceSettings {
  Preset system = Preset::verl;
  /// AssignmentSettings: the system's own micro-batches. While `algorithm` is automatic, the system's own
  /// assignment.
  std::variant<AssignmentSettings, PaddedSettings, FixedSettings> micro_batches = {};

  friend bool operator==(const ReferenceSettings&, const ReferenceSettings&) = default;
};

/// A strategy with the parameters that it alone has.
using StrategySettings = std::variant<PackedSettings, PaddedSettings, FixedSettings, GridSettings,
                                      ContextTreeSettings, ContextWavesSettings, ReferenceSettings>;

/// The section `balance` of a configuration, from which Config::plan_settings() makes a strategy.
struct BalanceKeys : BalanceSettings, AssignmentSettings {
  Preset preset = Preset::none;
  Strategy strategy = Strategy::automatic;

  friend bool operator==(const BalanceKeys&, const BalanceKeys&) = default;
};

/// The section `micro_batch`.
struct MicroBatchKeys : MicroBatchSettings {
  MicroBatchMode mode = MicroBatchMode::packed;
  std::optional<BinPacking> packing = std::nullopt;
  CountRule count = CountRule::fewest;
  std::int64_t size = FixedSettings{}.size;
  bool shuffle = false;  ///< of FixedSettings
  std::int64_t length_round = PaddedSettings{}.length_round;
  std::optional<std::int64_t> max_tokens_per_rank = std::nullopt;  ///< set: max_tokens follows from it

  friend bool operator==(const MicroBatchKeys&, const MicroBatchKeys&) = default;
};

/// How a step's global batch is cut into mini-batches, one for each optimizer update.
struct MiniBatchSettings {
  std::int64_t count = 1;  ///< mini-batches of a step
  /// True: mini-batches are cut first, and each is balanced over the DP ranks on its own, so that which
  /// samples share an update does not depend on the mesh. False: the global batch is balanced over the DP
  /// ranks, then each rank's share is cut at random, as ROLL does.
  bool keep = true;
  bool shuffle = false;  ///< with keep: cut the mini-batches at random rather than in source order

  friend bool operator==(const MiniBatchSettings&, const MiniBatchSettings&) = default;
};

/// Which tokens samples share.
enum class PrefixSharing : std::uint8_t {
  none,     ///< every sample stands alone
  prompts,  ///< samples with the same uid share their prompt
  trees,    ///< samples with the same uid share all common prefixes, and prefixes of prefixes
};

/// How a trainer runs the segments of a micro-batch whose samples share prefixes.
enum class SegmentSchedule : std::uint8_t {
  packed,       ///< all of them in one forward and one backward pass
  depth_first,  ///< one path at a time, see DepthFirstSchedule
};

/// Everything a plan depends on besides the length table and the number of the step. Replicated: every rank
/// holds equal settings.
struct PlanSettings {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int vpp = 1;
  CpGroup cp;  ///< of a DP rank; of size 1 if micro-batches have groups of their own sizes
  std::optional<std::int64_t> align;  ///< alignment of each sequence, in tokens; unset: what tp and cp need
  std::int64_t align_lcm = 1;         ///< least common multiple taken with the alignment
  std::uint64_t seed = 1;             ///< of all random draws; every step has its own
  MiniBatchSettings mini_batches;
  StrategySettings strategy;
  BalanceSettings balance;
  MicroBatchSettings micro_batch;
  PrefixSharing sharing = PrefixSharing::none;
  /// With shared prefixes: samples share a row only if the tokens behind it, as many as this, are equal, too:
  /// the most that any pass predicts ahead. A service has one tree for all passes.
  std::int64_t predict_ahead = 0;
  /// Most tokens from the root of a tree to a leaf, with shared prefixes: the true tokens of a sample,
  /// without pad rows, so that no position id reaches it.
  std::optional<std::int64_t> max_path_tokens = std::nullopt;
  SegmentSchedule schedule = SegmentSchedule::packed;
  /// The most rows of which a trainer keeps more than keys and values, depth first.
  std::optional<std::int64_t> max_kept_tokens = std::nullopt;
  std::vector<int> dp_of_rank;    ///< the DP rank of each world rank; empty: no placement
  std::vector<int> node_of_rank;  ///< the node of each world rank; empty: unknown

  /// The parameters of type `Part` of the strategy, or of what a reference leaves to choose; null if it has
  /// none.
  template <class Part>
  [[nodiscard]] const Part* find() const noexcept {
    const auto part_of = []<class Own>(const Own& own) -> const Part* {
      if constexpr (std::is_base_of_v<Part, Own>) return &own;
      return nullptr;
    };
    const auto* reference = std::get_if<ReferenceSettings>(&strategy);
    return reference != nullptr ? std::visit(part_of, reference->micro_batches)
                                : std::visit(part_of, strategy);
  }

  /// Each sequence's length is rounded up to a multiple of this many tokens, including length_round if
  /// micro-batches are padded. Throws ConfigError if `align` is not a multiple of what the CP cut needs.
  [[nodiscard]] std::int64_t alignment() const { return alignment(cp.size); }
  /// The same for a sequence that is cut over `group_size` ranks.
  [[nodiscard]] std::int64_t alignment(int group_size) const;
  /// The places of one DP rank.
  [[nodiscard]] ContextGroup context_of(DpRank rank) const noexcept {
    return {DataPlace{rank.value() * cp.size}, cp.size};
  }
  /// The most ranks that a micro-batch's sequences may be cut over.
  [[nodiscard]] int largest_group() const noexcept;
  /// The numbers of ranks that they may be cut over, ascending.
  [[nodiscard]] std::vector<int> group_sizes() const;
  /// The cap of a micro-batch on a group of that size, in tokens.
  [[nodiscard]] std::int64_t cap(int group_size) const noexcept {
    return micro_batch.max_tokens * (group_size / cp.size);
  }
  /// What a micro-batch may hold beside rows of fields: tokens, and samples, at most `size` in a fixed one.
  [[nodiscard]] BinLimits limits() const noexcept;
  /// The settings' communication cost, with the overhead.
  [[nodiscard]] CommunicationCost communication_cost() const noexcept;

  /// The number of micro-batches must be a multiple of this.
  [[nodiscard]] std::int64_t count_multiple() const noexcept;

  /// The speeds by which the costs of a plan's micro-batches are divided to get times, one for each DP rank;
  /// none if they are equal, or if micro-batches have groups of their own sizes: then such a cost is a time
  /// already, that of the whole group, in units of the fastest rank's work.
  [[nodiscard]] std::span<const std::int64_t> speeds_of_costs() const noexcept;
  /// The speed of a micro-batch's ranks: of DP rank `rank`, or of the slowest rank of its group. 1000 if
  /// speeds are equal.
  [[nodiscard]] std::int64_t speed_of(DpRank rank, ContextGroup context) const;

  /// The time that work takes on DP rank `rank`, in units of the slowest rank's work: `cost` if speeds are
  /// equal, and if it is a time already. Precondition: validate() did not throw.
  [[nodiscard]] Cost time_of(Cost cost, std::int64_t rank) const;

  /// Throws ConfigError that names the key of the first setting that is out of range or conflicts with
  /// others: sizes below 1, a cap below the alignment, other than one speed for each DP rank.
  void validate() const;

  friend bool operator==(const PlanSettings&, const PlanSettings&) = default;
};

}  // namespace evenkeel
