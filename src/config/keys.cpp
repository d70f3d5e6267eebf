#include "config/keys.hpp"

#include <array>
#include <iterator>

#include "config/key_sections.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/exchange_words.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr int largest_axis = 1 << 20;
/// Upper limit of exchange.prefetch, since each prefetched step takes the memory of a whole step.
constexpr Int64 max_prefetched = 16;
/// Upper limit of micro_batch.shapes, since the state of a job contains all of its shapes.
constexpr Int64 max_shapes = 256;
constexpr Int64 max_tokens_ahead = 16;
constexpr Int64 longest_watch = 86'400;  // one day, in seconds
/// BalanceSettings::speeds are in thousandths.
constexpr Int64 speed_parts = 1000;

/// Returns the spec of mesh.cp: a number of ranks, or `flexible` if groups of different sizes may run
/// micro-batches.
KeySpec cp_key(std::string meaning) {
  const OptionalInteger<int> format{"flexible", {1, largest_axis}};
  const auto write = [=](const Config& config) {
    return format.write(config.mesh.flexible_cp ? std::nullopt : std::optional<int>(config.mesh.cp));
  };
  return {{"mesh.cp", format.type(), write(Config{}), format.values(), std::move(meaning)},
          [=](const ConfigValue& value, Config& config) {
            const std::optional<int> size = format.read(value);
            config.mesh.cp = size.value_or(1);
            config.mesh.flexible_cp = !size;
          },
          write};
}

/// Returns the spec of micro_batch.max_tokens. This key and max_tokens_per_rank set the same cap;
/// whichever is set last wins. If neither is set (max_tokens: auto, max_tokens_per_rank: null), the cap is 0
/// tokens, which planning rejects.
KeySpec max_tokens_key(std::string meaning) {
  const OptionalInteger<Int64> format{"auto", token_count_format(1, largest_int32)};
  const auto write = [=](const Config& config) {
    const MicroBatchKeys& m = config.micro_batch;
    return format.write(m.max_tokens_per_rank ? std::nullopt : std::optional<Int64>(m.max_tokens));
  };
  return {{"micro_batch.max_tokens", format.type(), write(Config{}), format.values(), std::move(meaning)},
          [=](const ConfigValue& value, Config& config) {
            MicroBatchKeys& m = config.micro_batch;
            const std::optional<Int64> tokens = format.read(value);
            if (!tokens && m.max_tokens_per_rank) return;
            m.max_tokens = tokens.value_or(0);
            m.max_tokens_per_rank.reset();
          },
          write};
}

KeySpec max_tokens_per_rank_key(std::string meaning) {
  const OptionalInteger<Int64> format{"null", token_count_format(1, largest_int32)};
  const auto write = [=](const Config& config) {
    return format.write(config.micro_batch.max_tokens_per_rank);
  };
  return {{"micro_batch.max_tokens_per_rank", format.type(), write(Config{}), format.values(),
           std::move(meaning)},
          [=](const ConfigValue& value, Config& config) {
            MicroBatchKeys& m = config.micro_batch;
            const std::optional<Int64> tokens = format.read(value);
            if (!tokens && !m.max_tokens_per_rank) return;
            m.max_tokens = tokens ? MicroBatchKeys{}.max_tokens : 0;
            m.max_tokens_per_rank = tokens;
          },
          write};
}

KeySpec cost_key(std::string meaning) {
  const CostFormat format;
  const auto write = [=](const Config& config) {
    return format.write(
        {config.balance.cost, config.balance.measured, config.balance.encoder, config.balance.cost_field});
  };
  return {{"balance.cost", format.type(), write(Config{}), format.values(), std::move(meaning)},
          [=](const ConfigValue& value, Config& config) {
            const ConfiguredCost cost = format.read(value);
            config.balance.cost = cost.model;
            config.balance.measured = cost.measured;
            config.balance.encoder = cost.encoder;
            config.balance.cost_field = cost.field;
          },
          write};
}

Keys mesh_keys() {
  const auto m = &Config::mesh;
  const Integer<int> axis{1, largest_axis};
  return {
      key("mesh.tp", m, &MeshSettings::tp, axis,
          "Number of tensor-parallel ranks, which all get the same tensors."),
      cp_key("Number of context-parallel ranks, each of which gets its part of every sequence. flexible: "
             "each micro-batch gets its own group of neighboring DP ranks, whose size is a power of two; "
             "mesh.dp is then the number of ranks divided by tp and pp, and balance.meet specifies where the "
             "trainer's ranks wait for each other."),
      key("mesh.max_cp", m, &MeshSettings::max_cp, OptionalInteger<int>{"auto", axis},
          "With cp: flexible, the maximum number of ranks in a micro-batch's group, a power of two; auto is "
          "the largest possible number."),
      key("mesh.pp", m, &MeshSettings::pp, axis, "Number of pipeline stages."),
      key("mesh.vpp", m, &MeshSettings::vpp, axis,
          "Number of virtual stages per pipeline rank (interleaved schedule)."),
      key("mesh.dp", m, &MeshSettings::dp, OptionalInteger<int>{"auto", axis},
          "Number of data-parallel ranks; auto uses all ranks: ranks / (tp * cp * pp)."),
      key("mesh.order", m, &MeshSettings::order, AxisOrder{},
          "The order in which ranks are assigned to the grid, fastest axis first."),
  };
}

Keys balance_keys() {
  const auto b = &Config::balance;
  const Choice<BalanceAlgorithm> algorithms({{"auto", BalanceAlgorithm::automatic},
                                             {"karmarkar-karp", BalanceAlgorithm::karmarkar_karp},
                                             {"lpt", BalanceAlgorithm::lpt},
                                             {"sorted-stride", BalanceAlgorithm::sorted_stride},
                                             {"none", BalanceAlgorithm::none}});
  const Choice<Preset> presets({{"none", Preset::none},
                                {"mindspeed-rl", Preset::mindspeed_rl},
                                {"roll", Preset::roll},
                                {"verl", Preset::verl}});
  const Decimal speed{speed_parts, 1, 1000 * speed_parts};
  const Choice<PlacementRule> placements(
      {{"locality", PlacementRule::locality}, {"none", PlacementRule::none}});
  const Choice<Strategy> strategies(
      {{"auto", Strategy::automatic}, {"hierarchical", Strategy::hierarchical}, {"grid", Strategy::grid}});
  const Choice<std::optional<SyncPoint>> meetings(
      {{"auto", std::nullopt}, {"step", SyncPoint::step}, {"micro-batch", SyncPoint::micro_batch}});
  return {
      key("balance.algorithm", b, &BalanceKeys::algorithm, algorithms,
          "How samples are assigned to DP ranks. auto: the best algorithm for the number of samples. "
          "karmarkar-karp: largest differencing. lpt: longest first. sorted-stride: every dp-th sample in "
          "ascending order of length. none: contiguous runs in source order."),
      cost_key("The work of a sample of s tokens. tokens: s. flops-7b: 24576 s + s^2. model: computed from "
               "the shape of a model. linear and quadratic: linear s + quadratic s^2. measured: the same "
               "formula, whose coefficients are fitted every few steps to the latest times that the trainer "
               "reports, starting from an initial cost (tokens). encoder: the work of an encoder for the "
               "rows of a field, which is balanced over DP ranks as well (linear and quadratic, in the units "
               "of the model's cost). field: the sum of a sample's elements of that field, which must be "
               "integers of at least 0, in units of a token's work."),
      key("balance.speeds", b, &BalanceKeys::speeds, DecimalList{"equal", speed},
          "The relative speed of each DP rank, as one number per rank; 0.5 is half as fast as 1. Work is "
          "assigned so that all ranks finish at the same time. With mesh.cp: flexible, a group is as fast as "
          "its slowest rank."),
      key("balance.equal_count", b, &BalanceKeys::equal_count, Boolean{},
          "Give DP ranks equal numbers of samples, up to a difference of one; with prefix.share, equal "
          "numbers of groups, or of the parts into which the cap splits groups."),
      key("balance.refine", b, &BalanceKeys::refine, Boolean{},
          "Improve the assignment of the algorithm by moving and swapping samples."),
      key("balance.strategy", b, &BalanceKeys::strategy, strategies,
          "hierarchical: assign samples to DP ranks first, and pack the samples of each rank. grid: pack the "
          "whole step first, and assign its micro-batches to the DP ranks, for ranks that wait for each "
          "other at every micro-batch. auto: plan every step in both ways and use the plan that ends first "
          "according to balance.meet; if balance.meet is not set, auto is hierarchical. With prefix.share, a "
          "grid cuts trees into more parts to equalize work, and repeats the tokens that these parts share."),
      key("balance.meet", b, &BalanceKeys::meet, meetings,
          "Where the trainer's DP ranks wait for each other: once per step, as in plain data parallelism "
          "(DDP, Megatron), or at every micro-batch (FSDP, experts' all-to-all)."),
      key("balance.placement", b, &BalanceKeys::placement, placements,
          "Which DP rank gets which share of the samples. locality: the rank that already holds most of the "
          "share's tokens, so that fewer tokens are sent. none: the rank that the algorithm chose, which is "
          "always the case with presets."),
      key("balance.overhead", b, &BalanceKeys::overhead,
          OptionalInteger<Int64>{"auto", {0, (Int64{1} << 53) - 1}},
          "The constant cost of a micro-batch, in the units of balance.cost; auto is the work of 256 tokens, "
          "or the measured overhead. It is used by micro_batch.count: fastest, mesh.cp: flexible, and "
          "balance.strategy: auto, which adds it to the time of each micro-batch in both plans."),
      key("balance.communication", b, &BalanceKeys::communication, CommunicationFormat{},
          "With mesh.cp: flexible, the cost of passing one token's keys and values to the next rank (in the "
          "units of balance.cost), in groups inside a node and in groups of several nodes; the number of "
          "places (ranks divided by tp and pp) per node; and the fraction of attention, 0 to 1, that hides "
          "this communication. auto is 333 and 2500 (a token costs 24576 in a 7B model with grouped "
          "queries), 8 / tp places, and 1. With a measured cost, the two costs are initial values."),
      key("balance.preset", b, &BalanceKeys::preset, presets,
          "Reproduce another system's exact partitions. Presets do not keep the cap; the report counts the "
          "micro-batches above it."),
  };
}

Keys micro_batch_keys() {
  const auto m = &Config::micro_batch;
  const OptionalInteger<Int64> most_samples{"null", {1, largest_int32}};
  const OptionalInteger<Int64> multiple{"auto", {1, most_forced_micro_batches}};
  const Choice<MicroBatchMode> modes({{"packed", MicroBatchMode::packed},
                                      {"padded", MicroBatchMode::padded},
                                      {"fixed", MicroBatchMode::fixed}});
  const Choice<MicroBatchOrder> orders({{"pipeline", MicroBatchOrder::pipeline},
                                        {"plan", MicroBatchOrder::plan},
                                        {"cost", MicroBatchOrder::cost},
                                        {"schedule", MicroBatchOrder::schedule}});
  const Choice<std::optional<BinPacking>> packings(
      {{"auto", std::nullopt},
       {"first-fit-decreasing", BinPacking::first_fit_decreasing},
       {"best-fit-decreasing", BinPacking::best_fit_decreasing},
       {"modified-first-fit-decreasing", BinPacking::modified_first_fit_decreasing}});
  const Choice<CountRule> counts({{"fewest", CountRule::fewest}, {"fastest", CountRule::fastest}});
  const Choice<EqualCounts> equal_counts({{"always", EqualCounts::always}, {"auto", EqualCounts::automatic}});
  return {
      key("micro_batch.mode", m, &MicroBatchKeys::mode, modes,
          "packed: as many sequences as the cap allows, balanced and concatenated. padded: sequences of "
          "similar length, padded to one length. fixed: a fixed number of sequences in their order, "
          "concatenated."),
      max_tokens_key("The cap: the maximum number of tokens of one micro-batch after alignment, over its "
                     "whole CP group; auto if max_tokens_per_rank is set."),
      max_tokens_per_rank_key(
          "The cap in tokens per rank, instead of max_tokens: a micro-batch on a CP group may have cp times "
          "as many tokens. It is required with mesh.cp: flexible."),
      key("micro_batch.max_samples", m, &MicroBatchKeys::max_samples, most_samples,
          "Maximum number of samples in one micro-batch; null for no limit."),
      key("micro_batch.max_rows", m, &MicroBatchKeys::max_rows, RowCapsFormat{},
          "Maximum number of rows that the samples of one micro-batch may have in each of these fields, such "
          "as {patches: 16384} for the memory of an encoder. It applies in addition to max_tokens, and "
          "counts rows over the whole CP group, no matter how many of them each rank gets."),
      key("micro_batch.min_count", m, &MicroBatchKeys::min_count,
          Integer<Int64>{1, most_forced_micro_batches},
          "Minimum number of micro-batches of a DP rank in each mini-batch, including empty ones."),
      key("micro_batch.multiple_of", m, &MicroBatchKeys::multiple_of, multiple,
          "The number of micro-batches is a multiple of this; auto is pp if vpp > 1, otherwise 1."),
      key("micro_batch.size", m, &MicroBatchKeys::size, Integer<Int64>{1, largest_int32},
          "Number of samples in a fixed micro-batch; it has fewer if the cap requires it, or if samples that "
          "share prefixes would be separated."),
      key("micro_batch.length_round", m, &MicroBatchKeys::length_round,
          token_count_format(1, largest_multiple),
          "A padded micro-batch's length is rounded up to a multiple of this and of the alignment."),
      key("micro_batch.order", m, &MicroBatchKeys::order, orders,
          "The order of a DP rank's packed micro-batches. pipeline: cheap ones at both ends. plan: as "
          "planned. cost: the most expensive first. schedule: the best order found by simulating the "
          "pipeline (1F1B, or interleaved with vpp > 1); with pp 1, it is the same as pipeline. With cp: "
          "flexible and strategy: hierarchical, larger groups always come first. In a grid, whole columns "
          "are ordered by their longest micro-batch, and with cp: flexible, whole waves."),
      key("micro_batch.packing", m, &MicroBatchKeys::packing, packings,
          "How packed micro-batches are made. auto: as few as can be found, with balanced work. Otherwise, "
          "they are exactly the bins that the named algorithm makes of the aligned lengths, without "
          "balancing."),
      key("micro_batch.count", m, &MicroBatchKeys::count, counts,
          "How many micro-batches a DP rank gets. fewest: the smallest number that is enough for all ranks. "
          "fastest: up to seven multiples of multiple_of more, if ranks that wait for each other at every "
          "micro-batch are then expected to end earlier. The cap holds in both cases."),
      key("micro_batch.equal_counts", m, &MicroBatchKeys::equal_counts, equal_counts,
          "Whether DP ranks get equal numbers of micro-batches. always: they do. auto: only with "
          "balance.meet: micro-batch; with balance.meet: step, each rank gets as many as it needs, at least "
          "one."),
      key("micro_batch.shapes", m, &MicroBatchKeys::shapes, OptionalInteger<Int64>{"null", {1, max_shapes}},
          "Maximum number of shapes (rows, sequences, max_seqlen and, with mesh.cp: flexible, ranks of the "
          "group) to which micro-batches of the whole run are padded, for CUDA graphs and batch-invariant "
          "kernels. It must be the same in all profiles. null: each micro-batch has its own shape. Without "
          "max_samples, a shape has up to the cap divided by the alignment as its number of sequences."),
      key("micro_batch.shuffle", m, &MicroBatchKeys::shuffle, Boolean{},
          "Shuffle a DP rank's samples before they are divided into fixed micro-batches."),
  };
}

Keys pack_keys() {
  const auto p = &Config::pack;
  const OptionalInteger<Int64> align{"auto", token_count_format(1, largest_int32)};
  const Choice<Delivery> deliveries({{"packed", Delivery::packed}, {"samples", Delivery::samples}});
  const Choice<CpLayout> layouts({{"zigzag", CpLayout::zigzag}, {"contiguous", CpLayout::contiguous}});
  return {
      key("pack.deliver", p, &PackSettings::deliver, deliveries,
          "packed: the samples of a micro-batch are aligned and cut over the CP ranks. samples: every CP "
          "rank gets whole samples without pad rows, for frameworks that pack and cut samples themselves. "
          "Plans are the same in both cases, and count the alignment."),
      key("pack.cp_layout", p, &PackSettings::cp_layout, layouts,
          "How a sequence is split over CP ranks. zigzag: into 2 * cp chunks, of which rank r gets r and 2 * "
          "cp - 1 - r (ring attention). contiguous: into cp chunks in order (Ulysses)."),
      key("pack.align", p, &PackSettings::align, align,
          "Each sequence's length is rounded up to a multiple of this; auto is the smallest alignment that "
          "tp and cp allow."),
      key("pack.align_lcm", p, &PackSettings::align_lcm, token_count_format(1, largest_int32),
          "The alignment is the least common multiple of pack.align and this; FP8 kernels need 16 or 32."),
      key("pack.pad_token", p, &PackSettings::pad_token, Integer<Int64>{0, largest_int32},
          "The token in pad slots."),
      key("pack.label_pad", p, &PackSettings::label_pad, Integer<Int64>{smallest_int32, largest_int32},
          "The label in pad slots and at the end of each sequence."),
      key("pack.predict_ahead", p, &PackSettings::predict_ahead, Integer<Int64>{0, max_tokens_ahead},
          "How many tokens after the label are also predicted (multi-token prediction). For each k from 1 to "
          "this number, micro-batches have input_ids@k, labels@k, loss_mask@k and loss_weights@k."),
      key("pack.padding_mask", p, &PackSettings::padding_mask, Boolean{},
          "Add the tensor padding_mask, true in pad rows."),
  };
}

Keys prefix_keys() {
  const Choice<PrefixSharing> sharing(
      {{"false", PrefixSharing::none}, {"true", PrefixSharing::prompts}, {"tree", PrefixSharing::trees}});
  const OptionalInteger<Int64> cap{"null", token_count_format(1, largest_int32)};
  const Choice<SegmentSchedule> schedules(
      {{"packed", SegmentSchedule::packed}, {"dfs", SegmentSchedule::depth_first}});
  return {
      {{"prefix.share", sharing.type(), sharing.write(Config{}.prefix), sharing.values(),
        "What samples with the same uid share, so that it is sent and computed only once. false: nothing. "
        "true: their prompt. tree: every prefix that some of them have in common."},
       [=](const ConfigValue& value, Config& config) { config.prefix = sharing.read(value); },
       [=](const Config& config) { return sharing.write(config.prefix); }},
      {{"prefix.max_path_tokens", cap.type(), cap.write(Config{}.max_path_tokens), cap.values(),
        "Maximum number of tokens from the root of a tree to a leaf, before alignment: the limit of "
        "attention and positions, while micro_batch.max_tokens is the limit of memory. A path is a sample "
        "with its prompt; a longer path is an error, unless batch.too_long handles it. null: samples may be "
        "as long as a micro-batch."},
       [=](const ConfigValue& value, Config& config) { config.max_path_tokens = cap.read(value); },
       [=](const Config& config) { return cap.write(config.max_path_tokens); }},
      {{"prefix.schedule", schedules.type(), schedules.write(Config{}.segment_schedule), schedules.values(),
        "How the trainer runs a micro-batch's segments. packed: all at once. dfs: depth first, with one path "
        "in memory at a time; each micro-batch then contains the schedule."},
       [=](const ConfigValue& value, Config& config) { config.segment_schedule = schedules.read(value); },
       [=](const Config& config) { return schedules.write(config.segment_schedule); }},
      {{"prefix.max_kept_tokens", cap.type(), cap.write(Config{}.max_kept_tokens), cap.values(),
        "With schedule: dfs, the maximum number of tokens, including alignment, for which all activations "
        "(not only keys and values) are kept at the same time. If a path has more, tokens at the top of its "
        "tree are computed twice. null: the activations of all tokens of a path are kept."},
       [=](const ConfigValue& value, Config& config) { config.max_kept_tokens = cap.read(value); },
       [=](const Config& config) { return cap.write(config.max_kept_tokens); }},
  };
}

Keys loss_keys() {
  const auto l = &Config::loss;
  const Choice<LossAggregation> aggregations(
      {{"token-mean", LossAggregation::token_mean},
       {"token-sum", LossAggregation::token_sum},
       {"seq-mean-token-sum", LossAggregation::seq_mean_token_sum},
       {"seq-mean-token-mean", LossAggregation::seq_mean_token_mean},
       {"seq-mean-token-sum-norm", LossAggregation::seq_mean_token_sum_norm},
       {"prompt-mean", LossAggregation::prompt_mean},
       {"mindspeed-rl", LossAggregation::mindspeed_rl}});
  const Choice<Reduction> reductions({{"sum", Reduction::sum}, {"mean", Reduction::mean}});
  const Choice<FullyMasked> masked({{"count", FullyMasked::count}, {"skip", FullyMasked::skip}});
  return {
      key("loss.aggregation", l, &LossSettings::aggregation, aggregations,
          "How the losses of all tokens of a step are aggregated, no matter how the step is split; "
          "mindspeed-rl is that system's own rule, which depends on the split."),
      key("loss.micro_batches", l, &LossSettings::micro_batches, reductions,
          "How the trainer reduces the losses of a rank's micro-batches."),
      key("loss.dp_ranks", l, &LossSettings::dp_ranks, reductions,
          "How the trainer reduces the losses of DP ranks."),
      key("loss.fully_masked", l, &LossSettings::fully_masked, masked,
          "Whether samples without loss tokens count in means over samples and prompts (count) or not "
          "(skip)."),
      key("loss.norm_length", l, &LossSettings::norm_length, token_count_format(1, largest_int32),
          "The fixed length that seq-mean-token-sum-norm divides by."),
  };
}

// This entry has no read and write functions, since the loader handles profiles. Its value maps names to maps
// of sections.
Keys profile_keys() {
  return {{{"profiles", "map", "{}", "names, each with any keys of balance, micro_batch, pack and loss",
            "Settings for one kind of pass, such as log_prob or update, that replace the job's settings in "
            "this pass."},
           {},
           {}}};
}

Keys exchange_keys() {
  const Choice<ExchangePath> paths({{"auto", ExchangePath::automatic},
                                    {"shared-memory", ExchangePath::shared_memory},
                                    {"point-to-point", ExchangePath::point_to_point},
                                    {"alltoallv", ExchangePath::alltoallv}});
  const Choice<TensorParallelCopies> copies(
      {{"own", TensorParallelCopies::own}, {"shared", TensorParallelCopies::shared}});
  const Choice<NodeAggregation> aggregation({{"auto", NodeAggregation::automatic},
                                             {"always", NodeAggregation::always},
                                             {"never", NodeAggregation::never}});
  return {
      key("exchange.path", &Config::exchange, &ExchangeSettings::path, paths,
          "How tokens are sent. auto: in the best of the following ways. shared-memory: copied once from the "
          "owner's memory inside a node, and in messages between nodes. point-to-point: in one message per "
          "pair of ranks. alltoallv: in one collective call."),
      key("exchange.tp_copies", &Config::exchange, &ExchangeSettings::tp_copies, copies,
          "own: each tensor-parallel rank has its own copy of the tensors. shared: tensor-parallel ranks of "
          "one place and node all read the tensors of the first of them, so that there is one copy in "
          "memory, which trainers must not modify."),
      key("exchange.aggregate", &Config::exchange, &ExchangeSettings::aggregate, aggregation,
          "Whether ranks of a node send their data for another node through one of them, in one message. "
          "auto: if their messages are small, on average at most " +
              std::to_string(small_message_bytes) +
              " bytes. always: whenever the data fits into that rank's memory. never: each rank sends its "
              "own messages."),
      key("exchange.prefetch", &Config::exchange, &ExchangeSettings::prefetch,
          Integer<Int64>{0, max_prefetched},
          "Number of steps that are made ahead of the trainer, by a thread if MPI permits threads. Each of "
          "them takes the memory of a step."),
  };
}

Keys watchdog_keys() {
  return {
      key("watchdog.seconds", &Config::watchdog, &JobWatchdogSettings::seconds,
          Integer<Int64>{0, longest_watch},
          "If `evenkeel run` cannot continue because a rank is stopped, disconnected or missing, the job "
          "ends within this many seconds, with a message that names the rank; 0 disables this."),
  };
}

Keys all_keys() {
  Keys all;
  for (Keys (*section)() : {mesh_keys, source_keys, named_source_keys, stream_keys, batch_keys, field_keys,
                            named_field_keys, balance_keys, micro_batch_keys, pack_keys, prefix_keys,
                            loss_keys, profile_keys, exchange_keys, watchdog_keys}) {
    std::ranges::move(section(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<const KeySpec> key_specs() {
  static const Keys table = all_keys();
  return table;
}

std::string_view section_of(std::string_view path) {
  return path.substr(0, path.find('.'));
}

bool is_profile_section(std::string_view section) {
  constexpr std::array<std::string_view, 4> sections{"balance", "micro_batch", "pack", "loss"};
  return std::ranges::find(sections, section) != sections.end();
}

std::string_view section_meaning(std::string_view section) {
  constexpr std::pair<std::string_view, std::string_view> meanings[] = {
      {"mesh", "The process grid."},
      {"source", "Where samples come from."},
      {"sources", "Several sources that are mixed, by name."},
      {"stream", "Samples that arrive while the job trains (source.kind: stream)."},
      {"batch", "What one step takes from the source."},
      {"field", "Defaults for the fields that `fields` names."},
      {"fields", "Fields of the samples, by name, and how each of them is delivered."},
      {"balance", "How samples are assigned to data-parallel ranks."},
      {"micro_batch", "How a data-parallel rank's samples are split into micro-batches."},
      {"pack", "What a micro-batch's tensors look like."},
      {"prefix", "Samples that share prefixes, such as their prompt."},
      {"loss", "How the trainer reduces the loss, which determines the loss weights."},
      {"profiles", "Settings for one kind of pass over a step's samples, by name."},
      {"exchange", "How tokens are sent from their owners to the trainer's ranks."},
      {"watchdog", "When a job ends whose ranks cannot continue."},
  };
  const auto* found =
      std::ranges::find(meanings, section, &std::pair<std::string_view, std::string_view>::first);
  EVENKEEL_PRECONDITION(cheap, found != std::end(meanings), section);
  return found->second;
}

}  // namespace evenkeel::config_detail
