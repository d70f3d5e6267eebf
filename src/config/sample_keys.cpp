#include "config/key_sections.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr Int64 largest_source = Int64{1} << 40;
/// SourceSettings::weight is in thousandths.
constexpr Int64 weight_parts = 1000;
/// Maximum number of steps whose samples are arranged together.
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
/// Maximum number of a layer within a row.
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
          "Where samples come from: rollouts, one JSON object per line; synthetic long-tailed rollouts; a "
          "table of lengths with synthetic tokens; the documents of a Megatron-Core indexed dataset; ragged "
          "or padded tensors in safetensors files; a dump of evenkeel run --dump; samples that arrive while "
          "the job trains (section stream); or the program that embeds Evenkeel. evenkeel run requires it; a "
          "program that embeds Evenkeel does not."),
      path_key("The file of lengths, the file of jsonl and safetensors, a pattern for several (such as "
               "'rollouts/*.jsonl') or a list of files and patterns, the name of megatron's files without "
               ".bin and .idx, or the folder of dump, relative to the folder where the job is started; the "
               "address of a stream's buffer, such as http://127.0.0.1:8710; the folder of a spool, from "
               "which the job's own buffer takes files; or null for the job's own buffer without a spool."),
      key("source.seed", s, &SourceSettings::seed, Integer<std::uint64_t>{},
          "Seed of synthetic tokens and lengths."),
      key("source.samples", s, &SourceSettings::samples, Integer<Int64>{1, largest_source},
          "How many samples a synthetic source has."),
      key("source.epochs", s, &SourceSettings::epochs, Integer<Int64>{1, largest_int32},
          "How many times the source is read in one epoch of batch.epochs, in a new order each time if there "
          "is a shuffle; steps continue from one to the next."),
      key("source.weight", s, &SourceSettings::weight, Decimal{weight_parts, 1, 1000000 * weight_parts},
          "The source's share among several, relative to the others' weights, until one runs out."),
  };
}

// The loader, not this entry, reads and writes sources. An entry's value is a map of the keys of section
// source.
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
          "Number of samples in one step, over all ranks."),
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
          "Skip an epoch's last batch if it is smaller than global_batch."),
      key("batch.mix", &Config::mix, Choice<MixBy>({{"samples", MixBy::samples}, {"tokens", MixBy::tokens}}),
          "The unit of the weights of several sources."),
      key("batch.too_long", &Config::filter, &FilterSettings::too_long,
          Choice<TooLong>({{"error", TooLong::error},
                           {"drop", TooLong::drop},
                           {"truncate", TooLong::truncate},
                           {"split", TooLong::split}}),
          "What happens to samples of more than max_length tokens: they are an error, before the first step "
          "if max_length is a number, otherwise in the step that contains one; they are skipped; their first "
          "tokens are kept; or they are split into pieces, each a separate sample. Counted and reported."),
      key("batch.empty", &Config::filter, &FilterSettings::empty,
          Choice<EmptySample>(
              {{"keep", EmptySample::keep}, {"error", EmptySample::error}, {"drop", EmptySample::drop}}),
          "What happens to samples without any token: they are kept, and do not count in a mean over tokens; "
          "they are an error before the first step; or they are skipped, counted and reported."),
      key("batch.without_loss", &Config::filter, &FilterSettings::without_loss,
          Choice<WithoutLoss>(
              {{"keep", WithoutLoss::keep}, {"drop", WithoutLoss::drop}, {"error", WithoutLoss::error}}),
          "What happens to samples in which no token carries loss, because the response was cut off or its "
          "loss mask is 0: they are kept but have no effect on the loss; they are removed from their step, "
          "which then has fewer samples; or a step with one is an error. Counted and reported."),
      key("batch.max_length", &Config::filter, &FilterSettings::max_length,
          OptionalInteger<Int64>{"auto", tokens(1, largest_int32)},
          "Maximum number of tokens of a sample for too_long, before alignment; auto is the smallest "
          "micro_batch.max_tokens of the passes over a step, or prefix.max_path_tokens if that is less, and "
          "is refused for too_long if it depends on the mesh (mesh.cp: flexible, "
          "micro_batch.max_tokens_per_rank)."),
      key("batch.keep_mini_batch", &Config::mini_batches, &MiniBatchSettings::keep, Boolean{},
          "Cut mini-batches first, in the order of the source, and balance each over the DP ranks; otherwise "
          "balance the whole batch and split each rank's share at random."),
      key("batch.delay_outliers", &Config::delay, &DelaySettings::steps, Integer<Int64>{0, max_steps_delayed},
          "Maximum number of steps that a sample of more than outlier_length tokens waits for others of "
          "similar size, so that DP ranks do not wait for a single one; 0 disables it. This changes which "
          "samples a step has."),
      key("batch.outlier_length", &Config::delay, &DelaySettings::longer_than,
          OptionalInteger<Int64>{"null", tokens(1, largest_int32)},
          "Number of tokens above which a sample is an outlier for delay_outliers."),
      key("batch.outlier_companions", &Config::delay, &DelaySettings::companions,
          OptionalInteger<Int64>{"null", {2, max_companions}},
          "How many outliers share a step with delay_outliers: as many as there are DP ranks. It is not "
          "derived from the mesh, because the mesh must not determine the samples of a step."),
  };
}

std::string LayersFormat::values() const {
  return std::string(no_layers) + ", " + std::string(even_layers) + ", or [[0, 1], [2, 3], ...]";
}

std::optional<LayerMap> LayersFormat::read(const ConfigValue& value) const {
  if (value.node.IsNull() || plain_text(value.node) == no_layers) return std::nullopt;
  if (is_word(value.node, even_layers)) return LayerMap{};
  const std::string expected = "null, stage or a list of layers for each stage";
  if (!value.node.IsSequence() || value.node.size() == 0) throw_wrong_type(value, expected);
  const Integer<Int64> layer{0, max_layers};
  LayerMap map;
  for (const YAML::Node& stage : value.node) {
    if (!stage.IsSequence()) throw_wrong_type({stage, value.where}, expected);
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
  const Choice<FieldWidth> widths({{"as-brought", FieldWidth::as_brought}, {"narrow", FieldWidth::narrow}});
  return {
      key("field.layers", f, &FieldSettings::layers, LayersFormat{},
          "null: rows are whole. Otherwise the first dimension of a row is layers of the model, and each "
          "pipeline stage gets its own: stage splits them evenly over the virtual stages, in order; or a "
          "list for each virtual stage, with list v * pp + s for part v of pipeline rank s."),
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
          "How JSON Lines write the field: a list of any number of rows, a text, bytes in base64, a list for "
          "each axis with a number per token, or runs of tokens as [value, count]. null: numbers, with the "
          "shape of their lists; text is ignored."),
      key("field.at", f, &FieldSettings::at,
          OptionalChoice<RowConvention>{Choice<RowConvention>({{"token", RowConvention::token},
                                                               {"next", RowConvention::next},
                                                               {"response", RowConvention::response}})},
          "Where samples have the value of a token, which steps have at the row that predicts it. token: at "
          "the token. next: at the row that predicts it. response: at its place in the response. null: rows "
          "are delivered where they are; labels and loss_mask with one value per token are then refused."),
      key("field.wire", f, &FieldSettings::wire, widths,
          "The type in which integers are sent: that of the samples, or the smallest type, from uint8 and "
          "int8 up, that holds every element of the step over all ranks."),
      key("field.hand_out", f, &FieldSettings::hand_out, widths,
          "The type in micro-batches: that of the samples, or that of wire, which may change from step to "
          "step."),
      key("field.share", f, &FieldSettings::share,
          Choice<FieldSharing>({{"none", FieldSharing::none}, {"equal", FieldSharing::equal}}),
          "For rows, text and bytes. none: each sample has its own. equal: values with equal bytes in "
          "samples of one rank are sent to a node once and stored there once, for all its ranks."),
      key("field.cut_by", f, &FieldSettings::cut_by, OptionalFieldName{},
          "For rows. null: each context-parallel rank of a sample has all of them. Otherwise another field "
          "of rows, [rows, 2] of int64, has each row's tokens, [first, after the last], and a rank gets only "
          "the rows with a token in its chunks, as do pieces of samples that batch.too_long cuts; that field "
          "is cut in the same way."),
      key("field.spread_pads", f, &FieldSettings::spread_pads, Integer<Int64>{0, max_experts},
          "For routes, whose elements are numbers of experts: pad rows are distributed round-robin over this "
          "many experts, so that no expert gets all of them; each context-parallel rank starts at a "
          "different expert. 0: they are zeros."),
      key("field.profiles", f, &FieldSettings::profiles, ProfileNames{},
          "The profiles whose passes get the field, such as pixels for an encoder's pass. "
          "all: every pass. A pass without a profile gets only fields that go to all."),
  };
}

// The loader, not this entry, reads and writes fields. An entry's value is a map of the keys of section
// field.
Keys named_field_keys() {
  return {{{"fields", "map", "{}", "names, each with any keys of field",
            "Fields of samples that are not delivered unchanged, such as fields: {routed_experts: {layers: "
            "stage, wire: narrow}}."},
           {},
           {}}};
}

}  // namespace evenkeel::config_detail
