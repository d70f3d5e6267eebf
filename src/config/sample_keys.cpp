#include "config/key_sections.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr Int64 largest_source = Int64{1} << 40;
/// SourceSettings::weight is in thousandths.
constexpr Int64 weight_parts = 1000;
/// Maximum value of batch.delay_outliers.
constexpr Int64 max_steps_delayed = 10000;
constexpr Int64 max_companions = 1 << 16;

/// Returns the spec of source.path, which sets the first path and the additional ones.
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

constexpr std::string_view no_layers = "null";
constexpr std::string_view even_layers = "stage";
/// Highest possible layer number.
constexpr Int64 max_layers = Int64{1} << 20;
constexpr Int64 max_experts = Int64{1} << 20;

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
          "Where samples come from. jsonl: rollouts, one JSON object per line. synthetic: generated "
          "long-tailed rollouts. lengths: a table of lengths, with synthetic tokens. megatron: the documents "
          "of a Megatron-Core indexed dataset. safetensors: ragged or padded tensors. dump: the files that "
          "evenkeel run --dump wrote. stream: samples that arrive while the job trains (section stream). "
          "embedded: the program that embeds Evenkeel. evenkeel run requires this key; a program that embeds "
          "Evenkeel does not."),
      path_key(
          "The file or folder to read, relative to the folder where the job is started. jsonl and "
          "safetensors: a file, a pattern for several files (such as 'rollouts/*.jsonl'), or a list of files "
          "and patterns. lengths: a file. megatron: the name of the files without .bin and .idx. dump: a "
          "folder. stream: the address of a buffer, such as http://127.0.0.1:8710; a spool folder, from "
          "which the job's own buffer takes files; or null for the job's own buffer without a spool."),
      key("source.seed", s, &SourceSettings::seed, Integer<std::uint64_t>{},
          "The seed of synthetic tokens and lengths."),
      key("source.samples", s, &SourceSettings::samples, Integer<Int64>{1, largest_source},
          "Number of samples of a synthetic source."),
      key("source.epochs", s, &SourceSettings::epochs, Integer<Int64>{1, largest_int32},
          "How many times the source is read in each of the batch.epochs epochs; with batch.shuffle, in a "
          "new order each time. A step may contain samples of two consecutive readings."),
      key("source.weight", s, &SourceSettings::weight, Decimal{weight_parts, 1, 1000000 * weight_parts},
          "The source's share if several sources are mixed, relative to the weights of the others, until one "
          "of them has no samples left."),
  };
}

// This entry has no read and write functions, since the loader handles sources. Its value maps names to maps
// of keys of section `source`.
Keys named_source_keys() {
  return {{{"sources", "map", "{}", "names, each with any keys of source",
            "Several sources that are mixed, instead of one. Keys that an entry does not set are those of "
            "section source; source.path must not be set."},
           {},
           {}}};
}

Keys batch_keys() {
  const auto b = &Config::batch;
  return {
      key("batch.global_batch", b, &ScheduleSettings::global_batch, Integer<Int64>{1, largest_int32},
          "Number of samples in one step, over all ranks."),
      key("batch.mini_batches", &Config::mini_batches, &MiniBatchSettings::count,
          Integer<Int64>{1, most_forced_micro_batches},
          "Number of optimizer updates in a step, at most global_batch."),
      key("batch.epochs", b, &ScheduleSettings::epochs, Integer<Int64>{1, largest_int32},
          "How many times the job reads its source or sources. No step contains samples of two epochs."),
      key("batch.shuffle", b, &ScheduleSettings::shuffle, Boolean{},
          "Shuffle the samples again in every epoch."),
      key("batch.seed", b, &ScheduleSettings::seed, Integer<std::uint64_t>{},
          "The seed of all random choices: shuffles, and the split into mini-batches if keep_mini_batch is "
          "false."),
      key("batch.drop_last", b, &ScheduleSettings::drop_last, Boolean{},
          "Skip an epoch's last batch if it is smaller than global_batch."),
      key("batch.mix", &Config::mix, Choice<MixBy>({{"samples", MixBy::samples}, {"tokens", MixBy::tokens}}),
          "The unit of the weights of several sources."),
      key("batch.too_long", &Config::filter, &FilterSettings::too_long,
          Choice<TooLong>({{"error", TooLong::error},
                           {"drop", TooLong::drop},
                           {"truncate", TooLong::truncate},
                           {"split", TooLong::split}}),
          "What happens to samples of more than max_length tokens, which are counted and reported. error: "
          "the job ends with an error, before the first step if max_length is a number, otherwise in the "
          "step that contains such a sample. drop: they are skipped. truncate: only their first max_length "
          "tokens are kept. split: they are split into pieces, each a separate sample."),
      key("batch.empty", &Config::filter, &FilterSettings::empty,
          Choice<EmptySample>(
              {{"keep", EmptySample::keep}, {"error", EmptySample::error}, {"drop", EmptySample::drop}}),
          "What happens to samples without tokens. keep: they are kept, and do not count in a mean over "
          "tokens. error: the job ends with an error before the first step. drop: they are skipped, counted "
          "and reported."),
      key("batch.without_loss", &Config::filter, &FilterSettings::without_loss,
          Choice<WithoutLoss>(
              {{"keep", WithoutLoss::keep}, {"drop", WithoutLoss::drop}, {"error", WithoutLoss::error}}),
          "What happens to samples in which no token carries loss, because the response was cut off or its "
          "loss mask is 0; they are counted and reported. keep: they are kept, but have no effect on the "
          "loss. drop: they are removed from their step, which then has fewer samples. error: a step with "
          "such a sample is an error."),
      key("batch.max_length", &Config::filter, &FilterSettings::max_length,
          OptionalInteger<Int64>{"auto", token_count_format(1, largest_int32)},
          "Maximum number of tokens of a sample for too_long, before alignment. auto: the smallest "
          "micro_batch.max_tokens of the passes over a step, or prefix.max_path_tokens if that is less. auto "
          "cannot be used with drop, truncate or split if it would depend on the mesh (mesh.cp: flexible, "
          "micro_batch.max_tokens_per_rank)."),
      key("batch.keep_mini_batch", &Config::mini_batches, &MiniBatchSettings::keep, Boolean{},
          "true: cut mini-batches first, in the order of the source, and balance each of them over the DP "
          "ranks. false: balance the whole batch, and split each rank's share at random."),
      key("batch.delay_outliers", &Config::delay, &DelaySettings::steps, Integer<Int64>{0, max_steps_delayed},
          "Maximum number of steps that a sample of more than outlier_length tokens waits for others of "
          "similar size, so that DP ranks do not wait for a single one; 0 disables it. This changes which "
          "samples a step has."),
      key("batch.outlier_length", &Config::delay, &DelaySettings::longer_than,
          OptionalInteger<Int64>{"null", token_count_format(1, largest_int32)},
          "Number of tokens above which a sample is an outlier for delay_outliers."),
      key("batch.outliers_per_step", &Config::delay, &DelaySettings::outliers_per_step,
          OptionalInteger<Int64>{"null", {2, max_companions}},
          "With delay_outliers, the number of outliers that share a step, which should be the number of DP "
          "ranks. It is not derived from the mesh, because the mesh must not determine the samples of a "
          "step."),
  };
}

std::string LayersFormat::values() const {
  return std::string(no_layers) + ", " + std::string(even_layers) + ", or [[0, 1], [2, 3], ...]";
}

std::optional<LayerMap> LayersFormat::read(const ConfigValue& value) const {
  if (value.node.IsNull() || plain_text(value.node) == no_layers) return std::nullopt;
  if (is_word(value.node, even_layers)) return LayerMap{};
  const std::string expected = "null, stage, or one list of layers per stage, such as [[0, 1], [2, 3]]";
  if (!value.node.IsSequence() || value.node.size() == 0) throw_wrong_type(value, expected);
  const Integer<Int64> layer{0, max_layers};
  LayerMap map;
  for (const YAML::Node& stage : value.node) {
    if (!stage.IsSequence()) {
      throw ConfigError(value.where, "expected " + expected + "; entry " + std::to_string(map.stages.size()) +
                                         " is " + describe(stage) + ", not a list");
    }
    std::vector<Int64>& layers = map.stages.emplace_back();
    for (const YAML::Node& entry : stage) layers.push_back(layer.read({entry, value.where}));
  }
  return map;
}

std::string LayersFormat::write(const std::optional<LayerMap>& layers) const {
  if (!layers) return std::string(no_layers);
  if (layers->stages.empty()) return std::string(even_layers);
  std::string text;
  for (const std::vector<Int64>& stage : layers->stages) {
    std::vector<std::string> numbers;
    for (const Int64 layer : stage) numbers.push_back(std::to_string(layer));
    text += (text.empty() ? "[[" : ", [") + join(numbers) + "]";
  }
  return text + "]";
}

Keys field_keys() {
  const auto f = &Config::field;
  const Choice<FieldWidth> widths({{"original", FieldWidth::original}, {"narrow", FieldWidth::narrow}});
  return {
      key("field.layers", f, &FieldSettings::layers, LayersFormat{},
          "Which layers of a row each pipeline stage gets, if the first dimension of a row is the layers of "
          "the model. null: rows are delivered whole. stage: layers are split evenly over the virtual "
          "stages, in order. Otherwise, one list of layers per virtual stage, where list v * pp + s is for "
          "part v of pipeline rank s."),
      key("field.stage", f, &FieldSettings::stage,
          Choice<FieldStages>(
              {{"last", FieldStages::last}, {"first", FieldStages::first}, {"all", FieldStages::all}}),
          "The pipeline stages that get the field, if it is not split by layers."),
      key("field.read_as", f, &FieldSettings::read_as,
          OptionalChoice<LineFormat>{Choice<LineFormat>({{"rows", LineFormat::rows},
                                                         {"text", LineFormat::text},
                                                         {"bytes", LineFormat::bytes},
                                                         {"axes", LineFormat::axes},
                                                         {"runs", LineFormat::runs}})},
          "How JSON Lines write the field. rows: a list of any number of rows. text: a text. bytes: bytes in "
          "base64. axes: a list per axis, with a number per token. runs: runs of tokens, as [value, count]. "
          "null: numbers, with the shape of their lists; text is ignored."),
      key("field.at", f, &FieldSettings::at,
          OptionalChoice<RowConvention>{Choice<RowConvention>({{"token", RowConvention::token},
                                                               {"next", RowConvention::next},
                                                               {"response", RowConvention::response}})},
          "Where samples have the value of a token; micro-batches have it at the row that predicts the "
          "token. token: at the token itself. next: at the row that predicts it. response: at its place in "
          "the response. null: rows are not moved; labels and loss_mask with one value per token are then an "
          "error."),
      key("field.wire_dtype", f, &FieldSettings::wire_dtype, widths,
          "The type in which integers are sent. original: the type of the samples. narrow: the smallest "
          "type, starting with uint8 and int8, that can hold every element of the step on all ranks."),
      key("field.dtype", f, &FieldSettings::dtype, widths,
          "The type of integers in micro-batches. original: the type of the samples. narrow: the type in "
          "which they were sent (wire_dtype), which may change from step to step."),
      key("field.share", f, &FieldSettings::share,
          Choice<FieldSharing>({{"none", FieldSharing::none}, {"equal", FieldSharing::equal}}),
          "For fields of kind rows, text and bytes. none: each sample has its own values. equal: values with "
          "equal bytes in samples of one rank are sent to a node once and stored there once, for all ranks "
          "of the node."),
      key("field.cut_by", f, &FieldSettings::cut_by, OptionalFieldName{},
          "For fields of kind rows. null: each context-parallel rank of a sample gets all rows. Otherwise, "
          "the name of another field of kind rows, [rows, 2] of int64, that has the tokens of each row as "
          "[first, after the last]. A rank then gets only the rows that have a token in its chunks, and so "
          "does each piece of a sample that batch.too_long cuts; the other field is cut in the same way."),
      key("field.spread_pads", f, &FieldSettings::spread_pads, Integer<Int64>{0, max_experts},
          "For routes, whose elements are numbers of experts: pad rows are distributed round-robin over this "
          "many experts, so that no expert gets all of them; each context-parallel rank starts at a "
          "different expert. 0: pad rows are zeros."),
      key("field.profiles", f, &FieldSettings::profiles, ProfileNames{},
          "The profiles whose passes get the field; only the pass of an encoder needs pixels, for example. "
          "all: every pass. A pass without a profile gets only the fields with all."),
  };
}

// This entry has no read and write functions, since the loader handles fields. Its value maps names to maps
// of keys of section `field`.
Keys named_field_keys() {
  return {{{"fields", "map", "{}", "names, each with any keys of field",
            "Fields of samples that are not delivered unchanged, such as fields: {routed_experts: {layers: "
            "stage, wire_dtype: narrow}}."},
           {},
           {}}};
}

}  // namespace evenkeel::config_detail
