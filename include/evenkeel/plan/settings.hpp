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
  sorted_stride,   ///< sorted by ascending length, every dp-th sample (ROLL's dynamic batching)
  none,            ///< contiguous runs in source order
};

/// The order of a DP rank's packed micro-batches. In a grid and in waves, it is the order of whole columns
/// and waves. In a tree of flexible groups, larger groups always come first. Padded and fixed micro-batches
/// ignore it.
enum class MicroBatchOrder : std::uint8_t {
  pipeline,  ///< cheap ones at both ends, when a pipeline fills and drains (verl, ROLL)
  plan,      ///< as the planner made them
  cost,      ///< costliest first
  schedule,  ///< by simulating the pipeline, 1F1B or interleaved; with one stage, the same as `pipeline`
};

/// Another system whose exact partitions are reproduced. Each preset ignores the same settings as its
/// reference. In particular, balanced micro-batches may exceed the cap, as in all of the references.
enum class Preset : std::uint8_t {
  none,          ///< Evenkeel's own planning, which keeps all caps
  mindspeed_rl,  ///< LPT with equal counts over DP ranks; micro-batches by `rearrange_micro_batches`
  roll,          ///< `batch_balance`; load-balanced sequence packing, or dynamic batching when padded
  verl,          ///< `_balance_batch`, by work as in ROLL; micro-batches by `rearrange_micro_batches`
};

/// The points at which the DP ranks of the trainer wait for each other.
enum class SyncPoint : std::uint8_t {
  step,         ///< at the end of each mini-batch, to reduce gradients: plain data parallelism
  micro_batch,  ///< as with FSDP, which gathers parameters, or experts' all-to-all
};

/// The order of planning: whether samples are assigned to DP ranks before or after micro-batches are packed.
/// A value in the configuration.
enum class Strategy : std::uint8_t {
  automatic,     ///< the one that ends a step first under BalanceSettings::meet (choose_strategy)
  hierarchical,  ///< samples are assigned to DP ranks, and each rank packs its own
  grid,          ///< micro-batches are packed from all samples, then laid out over the DP ranks (plan_grid)
};

/// The rule by which several equivalent shares are placed on DP ranks.
enum class PlacementRule : std::uint8_t {
  locality,  ///< the rank that already holds most of the share's tokens (best_placement)
  none,      ///< as numbered by the algorithm
};

/// Costs that follow the times a trainer reports (see MeasuredCostModel).
struct MeasuredCost {
  std::int64_t every = 1;      ///< number of steps from one fit to the next
  std::int64_t window = 4096;  ///< number of reported times that a fit uses: the latest ones of all ranks

  friend bool operator==(const MeasuredCost&, const MeasuredCost&) = default;
};

/// The cost of context parallelism in addition to the work, if groups have different sizes, in the units of
/// the cost (see CommunicationCost). With a measured cost, inside_node and between_nodes are the initial
/// values.
struct CommunicationSettings {
  std::optional<Cost> inside_node;    ///< if unset, 333 / 24576 of a token's cost, as in a 7B model with GQA
  std::optional<Cost> between_nodes;  ///< if unset, 2500 / 24576 of a token's cost
  std::optional<std::int64_t> ranks_per_node;  ///< number of places per node; if unset, 8 / tp, at least 1
  std::int64_t overlap = 1000;  ///< share of attention that hides communication, in thousandths

  friend bool operator==(const CommunicationSettings&, const CommunicationSettings&) = default;
};

/// How many micro-batches a DP rank gets.
enum class CountRule : std::uint8_t {
  fewest,   ///< the minimum with which all DP ranks can manage
  fastest,  ///< a few more if the step is then expected to end earlier (fastest_counts)
};

/// Whether all DP ranks get the same number of micro-batches. A value in the configuration.
enum class EqualCounts : std::uint8_t {
  always,     ///< regardless of the trainer
  automatic,  ///< only if they meet at every micro-batch (BalanceSettings::meet)
};

/// The form of a micro-batch. A value in the configuration.
enum class MicroBatchMode : std::uint8_t {
  packed,  ///< as many sequences as fit under the cap, balanced, back to back
  padded,  ///< sequences of similar length, padded to one length (ROLL's dynamic batching)
  fixed,   ///< a fixed number of sequences, in order (MindSpeed-RL's plain split), back to back
};

/// The work of an encoder of images or sound for a sample, before the model. It depends on the sample's rows
/// in a field.
struct EncoderCost {
  std::string field;        ///< a field of kind `rows`
  CostModel cost{0, 0, 0};  ///< cost of a number of rows, in the units of the model's cost

  friend bool operator==(const EncoderCost&, const EncoderCost&) = default;
};

/// Settings of work and its cost, common to all strategies.
struct BalanceSettings {
  CostModel cost = CostModel::tokens();
  /// Unset if the user has not specified it. In that case, an automatic strategy is hierarchical; with groups
  /// of different sizes, it is refused if both strategies are possible (resolve_strategy).
  std::optional<SyncPoint> meet = std::nullopt;
  PlacementRule placement = PlacementRule::locality;  ///< ignored if a reference is reproduced
  /// Speed of each DP rank, in thousandths of a common unit; empty if all are equal. A group is as fast as
  /// its slowest rank.
  std::vector<std::int64_t> speeds = {};
  /// If set, `cost` is the initial cost, and later steps are balanced by measured costs.
  std::optional<MeasuredCost> measured = std::nullopt;
  /// The constant cost of a micro-batch, used for CountRule::fastest, for groups, and for
  /// Strategy::automatic, which adds it for each micro-batch under both strategies. If unset,
  /// default_overhead() of the cost.
  std::optional<Cost> overhead = std::nullopt;
  CommunicationSettings communication = {};
  /// If set, the encoder's work, which `cost` does not include, is also balanced over DP ranks
  /// (partition_by_two_costs).
  std::optional<EncoderCost> encoder = std::nullopt;
  /// If set, a sample's work is the sum of its elements of this field, and the work of samples that share
  /// prefixes is the sum of theirs. One unit of this work equals the cost of one token under `cost`, which
  /// must be that of tokens.
  std::optional<std::string> cost_field = std::nullopt;

  friend bool operator==(const BalanceSettings&, const BalanceSettings&) = default;
};

/// Limits of a micro-batch, common to all strategies.
struct MicroBatchSettings {
  /// The cap: maximum number of tokens of one micro-batch after alignment, including padding, over its whole
  /// CP group. If groups have different sizes, it counts the tokens of each rank of the group.
  std::int64_t max_tokens = 8192;
  std::optional<std::int64_t> max_samples = std::nullopt;  ///< maximum number of samples of one micro-batch
  std::int64_t min_count = 1;                              ///< minimum number of micro-batches of a DP rank
  /// The number of micro-batches is a multiple of this; if unset, pp if vpp > 1, otherwise 1.
  std::optional<std::int64_t> multiple_of = std::nullopt;
  MicroBatchOrder order = MicroBatchOrder::pipeline;  ///< execution order; see MicroBatchOrder
  /// If set, micro-batches of the whole run have at most this many shapes (see PackedShape). max_samples is
  /// then set, too, since one shape must fit every possible micro-batch.
  std::optional<std::int64_t> shapes = std::nullopt;
  /// Maximum number of rows of a micro-batch's samples in each of these counted fields, over the whole CP
  /// group, as supplied by the samples: neither cut nor shared.
  std::map<std::string, std::int64_t, std::less<>> max_rows = {};

  friend bool operator==(const MicroBatchSettings&, const MicroBatchSettings&) = default;
};

/// How samples are assigned to DP ranks before each rank makes its own micro-batches.
struct AssignmentSettings {
  BalanceAlgorithm algorithm = BalanceAlgorithm::automatic;
  bool equal_count = false;  ///< whether DP ranks get equal numbers of samples, to within one
  bool refine = true;        ///< whether to improve the assignment by moves and swaps

  friend bool operator==(const AssignmentSettings&, const AssignmentSettings&) = default;
};

/// As many sequences as fit under the cap, balanced, back to back.
struct PackedSettings : AssignmentSettings {
  /// If unset, samples are packed into the smallest number of micro-batches that can be found, and the
  /// micro-batches are balanced. If set, they are the bins of this algorithm, which are not balanced.
  std::optional<BinPacking> packing = std::nullopt;
  CountRule count = CountRule::fewest;
  bool allow_grid = true;  ///< with BalanceSettings::meet: use a grid if it ends the step first
  /// Whether each DP rank gets as many micro-batches as it needs itself, subject to min_count and
  /// multiple_of. Requires ranks that meet once per step.
  bool free_counts = false;

  friend bool operator==(const PackedSettings&, const PackedSettings&) = default;
};

/// Sequences of similar length, padded to one length (ROLL's dynamic batching).
struct PaddedSettings : AssignmentSettings {
  std::int64_t length_round = 64;  ///< the padded length is a multiple of this

  friend bool operator==(const PaddedSettings&, const PaddedSettings&) = default;
};

/// A fixed number of sequences, in order (MindSpeed-RL's plain split), back to back.
struct FixedSettings : AssignmentSettings {
  std::int64_t size = 1;  ///< number of samples of a micro-batch; fewer if the cap requires it
  bool shuffle = false;   ///< whether to cut in random order

  friend bool operator==(const FixedSettings&, const FixedSettings&) = default;
};

/// Micro-batches are packed from all samples, then distributed over the DP ranks.
struct GridSettings {
  CountRule count = CountRule::fewest;

  friend bool operator==(const GridSettings&, const GridSettings&) = default;
};

/// Flexible context parallelism: each micro-batch is run by a group of adjacent DP ranks of its own size.
struct ContextGroupSettings {
  int max_size = 1;  ///< maximum size of a group

  /// Returns the possible sizes of a group, ascending.
  [[nodiscard]] std::vector<int> group_sizes() const;

  friend bool operator==(const ContextGroupSettings&, const ContextGroupSettings&) = default;
};

/// Each DP rank has the micro-batches in which it takes part, and ranks do not wait for each other in
/// between.
struct ContextTreeSettings : ContextGroupSettings {};

/// DP ranks meet at every micro-batch and have equal numbers of micro-batches.
struct ContextWavesSettings : ContextGroupSettings {};

/// The exact partitions of another system.
struct ReferenceSettings {
  Preset system = Preset::verl;
  /// AssignmentSettings means the system's own micro-batches. While `algorithm` is automatic, samples are
  /// assigned as the system does.
  std::variant<AssignmentSettings, PaddedSettings, FixedSettings> micro_batches = {};

  friend bool operator==(const ReferenceSettings&, const ReferenceSettings&) = default;
};

/// A strategy, with its own parameters.
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
  EqualCounts equal_counts = EqualCounts::always;
  std::int64_t size = FixedSettings{}.size;
  bool shuffle = false;  ///< see FixedSettings
  std::int64_t length_round = PaddedSettings{}.length_round;
  std::optional<std::int64_t> max_tokens_per_rank = std::nullopt;  ///< if set, max_tokens is derived from it

  friend bool operator==(const MicroBatchKeys&, const MicroBatchKeys&) = default;
};

/// How a step's global batch is cut into mini-batches, one per optimizer update.
struct MiniBatchSettings {
  std::int64_t count = 1;  ///< number of mini-batches of a step
  /// If true, mini-batches are cut first, and each is balanced over the DP ranks separately, so which samples
  /// share an update does not depend on the mesh. If false, the global batch is balanced over the DP ranks,
  /// and then each rank's share is cut at random, as ROLL does.
  bool keep = true;
  bool shuffle = false;  ///< with keep: whether to cut the mini-batches at random instead of in source order

  friend bool operator==(const MiniBatchSettings&, const MiniBatchSettings&) = default;
};

/// The tokens that samples share.
enum class PrefixSharing : std::uint8_t {
  none,     ///< every sample is separate
  prompts,  ///< samples with the same uid share their prompt
  trees,    ///< samples with the same uid share all common prefixes, and prefixes of prefixes
};

/// How a trainer runs the segments of a micro-batch whose samples share prefixes.
enum class SegmentSchedule : std::uint8_t {
  packed,       ///< all segments in one forward and one backward pass
  depth_first,  ///< one path at a time; see DepthFirstSchedule
};

/// The form in which ranks get the samples of a micro-batch. Does not affect its plan.
enum class Delivery : std::uint8_t {
  packed,   ///< aligned, and cut over the ranks of the CP group
  samples,  ///< whole on every rank of the CP group, back to back without pad rows
};

/// All inputs of a plan apart from the length table and the number of the step. Replicated: every rank holds
/// equal settings.
struct PlanSettings {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int vpp = 1;
  CpGroup cp;  ///< group of a DP rank; of size 1 if groups have different sizes
  /// Alignment of each sequence, in tokens; if unset, the alignment that tp and cp need.
  std::optional<std::int64_t> align;
  std::int64_t align_lcm = 1;  ///< least common multiple taken with the alignment
  std::uint64_t seed = 1;      ///< seed of all random draws; every step has its own draws
  MiniBatchSettings mini_batches;
  StrategySettings strategy;
  BalanceSettings balance;
  MicroBatchSettings micro_batch;
  PrefixSharing sharing = PrefixSharing::none;
  /// With shared prefixes: samples share a row only if this many tokens after it are also equal. This is the
  /// maximum number that any pass predicts ahead, since a service has one tree for all passes.
  std::int64_t predict_ahead = 0;
  /// Maximum number of tokens from the root of a tree to a leaf, with shared prefixes. Counts the true tokens
  /// of a sample, without pad rows, so position ids remain below it.
  std::optional<std::int64_t> max_path_tokens = std::nullopt;
  SegmentSchedule schedule = SegmentSchedule::packed;
  /// With the depth-first schedule: maximum number of rows for which a trainer keeps more than keys and
  /// values.
  std::optional<std::int64_t> max_kept_tokens = std::nullopt;
  Delivery delivery = Delivery::packed;
  std::vector<int> dp_of_rank;    ///< the DP rank of each world rank; if empty, shares are not placed
  std::vector<int> node_of_rank;  ///< the node of each world rank; empty if unknown

  /// Returns the strategy's parameters of type `Part`, or those that a reference leaves open; null if there
  /// are none.
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

  /// Returns the alignment in tokens: each sequence's length is rounded up to a multiple of it. Includes
  /// length_round if micro-batches are padded. Throws ConfigError if `align` is not a positive multiple of
  /// the number of chunks of the CP cut, or if align_lcm < 1. If the alignment exceeds 2^31-1, throws
  /// ConfigError or, if `align` is unset, LimitError.
  [[nodiscard]] std::int64_t alignment() const { return alignment(cp.size); }
  /// Returns the alignment of a sequence that is cut over `group_size` ranks.
  [[nodiscard]] std::int64_t alignment(int group_size) const;
  /// Returns the places of one DP rank.
  [[nodiscard]] ContextGroup context_of(DpRank rank) const noexcept {
    return {DataPlace{rank.value() * cp.size}, cp.size};
  }
  /// Returns the maximum number of ranks over which a micro-batch's sequences may be cut.
  [[nodiscard]] int largest_group() const noexcept;
  /// Returns the possible numbers of ranks over which a micro-batch's sequences may be cut, ascending.
  [[nodiscard]] std::vector<int> group_sizes() const;
  /// Returns the cap of a micro-batch on a group of this size, in tokens.
  [[nodiscard]] std::int64_t cap(int group_size) const noexcept {
    return micro_batch.max_tokens * (group_size / cp.size);
  }
  /// Returns the limits of a micro-batch other than those on rows of fields: on tokens, and on samples (at
  /// most `size` for fixed micro-batches).
  [[nodiscard]] BinLimits limits() const noexcept;
  /// Returns the settings' communication cost, including the overhead.
  [[nodiscard]] CommunicationCost communication_cost() const noexcept;

  /// Returns a number m: the number of micro-batches must be a multiple of m.
  [[nodiscard]] std::int64_t count_multiple() const noexcept;

  /// Returns the speeds by which the costs of a plan's micro-batches are divided to get times, one per DP
  /// rank. Empty if speeds are equal or groups have different sizes. In the latter case, a micro-batch's cost
  /// is already the time of the whole group, in units of the fastest rank's work.
  [[nodiscard]] std::span<const std::int64_t> speeds_of_costs() const noexcept;
  /// Returns the speed of a micro-batch's ranks: that of DP rank `rank`, or of the slowest rank of its group.
  /// 1000 if speeds are equal.
  [[nodiscard]] std::int64_t speed_of(DpRank rank, ContextGroup context) const;

  /// Returns the time that work takes on DP rank `rank`, in units of the slowest rank's work. Returns `cost`
  /// if speeds are equal or costs are already times. Precondition: validate() did not throw.
  [[nodiscard]] Cost time_of(Cost cost, std::int64_t rank) const;

  /// Throws ConfigError naming the key of the first setting that is out of range or conflicts with others,
  /// such as sizes below 1, a cap below the alignment, or a number of speeds other than one per DP rank.
  void validate() const;

  friend bool operator==(const PlanSettings&, const PlanSettings&) = default;
};

}  // namespace evenkeel
