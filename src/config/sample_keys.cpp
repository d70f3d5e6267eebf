#include "config/key_sections.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr Int64 largest_source = Int64{1} << 40;
/// SourceSettings::weight is in thousandths.
constexpr Int64 weight_parts = 1000;
/// All samples of so many steps are arranged together.
constexpr Int64 most_steps_delayed = 10000;
constexpr Int64 most_companions = 1 << 16;

/// Sets the first path and the further ones.
KeySpec path_key(std::string meaning) {
  const SourcePaths format;
  return {
      {"source.path", format.type(), format.write({}), format.values(), std::move(meaning)},
      [=](const ConfigValue& value, Config& config) {
        SourcePaths::value_type paths = format.read(value);
        config.source.path = paths.empty() ? std::filesystem::path() : paths.front();
        config.source.more_paths.assign(paths.begin() + (paths.empty() ? 0 : 1), paths.end());
      },
      [=](const Config& config) {
        return format.write(config.source.path.empty() ? SourcePaths::value_type{} : config.source.paths());
      }};
}

}  // namespace

Keys source_keys() {
  const auto s = &Config::source;
  const OptionalChoice<SourceKind> kinds{Choice<SourceKind>({{"jsonl", SourceKind::jsonl},
                                                             {"synthetic", SourceKind::synthetic},
                                                             {"lengths", SourceKind::lengths},
                                                             {"megatron", SourceKind::megatron},
                                                             {"safetensors", SourceKind::safetensors},
                                                             {"dump", SourceKind::dump},
                                                             {"stream", SourceKind::stream},
                                                             {"embedded", SourceKind::embedded}})};
  return {
      key("source.kind", s, &SourceSettings::kind, kinds,
          "Where samples come from: rollouts, one JSON object a line; made-up long-tailed rollouts; a table "
          "of lengths with made-up tokens; the documents of a Megatron-Core indexed dataset; ragged or "
          "padded "
          "tensors of safetensors files; what evenkeel run --dump wrote; samples "
          "that arrive while the job trains (section stream); or the program that embeds Evenkeel. evenkeel "
          "run requires it; a program that embeds Evenkeel does not."),
      path_key(
          "The file of lengths, the file of jsonl and safetensors, a pattern that names several (such "
          "as 'rollouts/*.jsonl') or a list of files and patterns, the name of megatron's files without .bin "
          "and .idx, or the folder "
          "of dump, relative to the folder where the job is started; the address of a stream's buffer, such "
          "as http://127.0.0.1:8710; the folder of a spool, from which the job's own buffer takes files; or "
          "null for the job's own buffer without a spool."),
      key("source.seed", s, &SourceSettings::seed, Integer<std::uint64_t>{},
          "Seed of made-up tokens and lengths."),
      key("source.samples", s, &SourceSettings::samples, Integer<Int64>{1, largest_source},
          "How many samples a synthetic source has."),
      key("source.epochs", s, &SourceSettings::epochs, Integer<Int64>{1, largest_int32},
          "How many times the source is read in one epoch of batch.epochs, in a new order each time if there "
          "is a shuffle; steps continue from one to the next."),
      key("source.weight", s, &SourceSettings::weight, Decimal{weight_parts, 1, 1000000 * weight_parts},
          "The source's share among several, relative to the others' weights, until one runs out."),
  };
}

// Read and written by the loader: an entry's value is a map of the keys of source.
Keys named_source_keys() {
  return {
      {{"sources", "map", "{}", "names, each with any keys of source",
        "Several sources that are mixed, instead of one, each with its differences from source; source.path "
        "is then not set."},
       {},
       {}}};
}

Keys batch_keys() {
  const auto b = &Config::batch;
  return {
      key("batch.global_batch", b, &ScheduleSettings::global_batch, Integer<Int64>{1, largest_int32},
          "Samples of one step over all ranks."),
      key("batch.mini_batches", &Config::mini_batches, &MiniBatchSettings::count,
          Integer<Int64>{1, most_forced_micro_batches},
          "Optimizer updates in a step; at most its samples, global_batch."),
      key("batch.epochs", b, &ScheduleSettings::epochs, Integer<Int64>{1, largest_int32},
          "How many times the job reads its source or sources. Steps end with each epoch."),
      key("batch.shuffle", b, &ScheduleSettings::shuffle, Boolean{},
          "Shuffle the samples again in every epoch."),
      key("batch.seed", b, &ScheduleSettings::seed, Integer<std::uint64_t>{},
          "Seed of all random draws: shuffles, and mini-batches that are not kept."),
      key("batch.drop_last", b, &ScheduleSettings::drop_last, Boolean{},
          "Leave out an epoch's last batch if it is smaller than global_batch."),
      key("batch.mix", &Config::mix, Choice<MixBy>({{"samples", MixBy::samples}, {"tokens", MixBy::tokens}}),
          "What the weights of several sources are shares of."),
      key("batch.too_long", &Config::filter, &FilterSettings::too_long,
          Choice<TooLong>({{"error", TooLong::error},
                           {"drop", TooLong::drop},
                           {"truncate", TooLong::truncate},
                           {"split", TooLong::split}}),
          "What happens to samples of more than max_length tokens: they are an error, before the first step "
          "if "
          "max_length is a number and else in the step that has one; they are left out; their first tokens "
          "are kept; or they become pieces, each a sample of its own. "
          "Counted "
          "and reported."),
      key("batch.empty", &Config::filter, &FilterSettings::empty,
          Choice<EmptySample>(
              {{"keep", EmptySample::keep}, {"error", EmptySample::error}, {"drop", EmptySample::drop}}),
          "What happens to samples without any token: they are kept, and do not count in a mean over tokens; "
          "they "
          "are an error before the first step; or they are left out, counted and reported."),
      key("batch.without_loss", &Config::filter, &FilterSettings::without_loss,
          Choice<WithoutLoss>(
              {{"keep", WithoutLoss::keep}, {"drop", WithoutLoss::drop}, {"error", WithoutLoss::error}}),
          "What happens to samples in which no token carries loss, since the response was cut off or its "
          "loss "
          "mask is 0: they are kept and train nothing; they are left out of their step, which then has fewer "
          "samples; or the step that has one is an error. Counted and reported."),
      key("batch.max_length", &Config::filter, &FilterSettings::max_length,
          OptionalInteger<Int64>{"auto", tokens(1, largest_int32)},
          "The most tokens of a sample for too_long, before alignment; auto is the smallest "
          "micro_batch.max_tokens of the passes over a step, or prefix.max_path_tokens if that is less, and "
          "is refused for too_long if it depends on "
          "the mesh (mesh.cp: flexible, micro_batch.max_tokens_per_rank)."),
      key("batch.keep_mini_batch", &Config::mini_batches, &MiniBatchSettings::keep, Boolean{},
          "Cut mini-batches first, in the order of the source, and balance each over the DP ranks; otherwise "
          "balance the whole batch and cut each rank's share at random."),
      key("batch.delay_outliers", &Config::delay, &DelaySettings::steps,
          Integer<Int64>{0, most_steps_delayed},
          "The most steps that a sample of more than outlier_length tokens waits for others of similar size, "
          "which keeps DP ranks from waiting for a single one; 0: none waits. It changes which samples a "
          "step has."),
      key("batch.outlier_length", &Config::delay, &DelaySettings::longer_than,
          OptionalInteger<Int64>{"null", tokens(1, largest_int32)},
          "Tokens above which a sample is an outlier for delay_outliers."),
      key("batch.outlier_companions", &Config::delay, &DelaySettings::companions,
          OptionalInteger<Int64>{"null", {2, most_companions}},
          "How many outliers share a step with delay_outliers: as many as there are DP ranks. It is not "
          "taken from the mesh, since the mesh must not decide what a step has."),
  };
}

}  // namespace evenkeel::config_detail
