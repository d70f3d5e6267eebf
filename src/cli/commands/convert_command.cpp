#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "cli/commands/commands.hpp"
#include "cli/launcher.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/files/output_file.hpp"
#include "io/samples/sample_writer.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  fs::path from;
  fs::path to;
  std::string from_kind;
  std::string to_kind;
  DeclaredFormats declared;
  std::vector<std::string> drop;
  std::int64_t shard_samples = 0;  // maximum number of samples per file; 0 for a single file
  std::int64_t vocab_size = 0;     // size of the tokenizer's vocabulary; 0 if unknown
  bool overwrite = false;
  ProgressStyle progress = ProgressStyle::automatic;
};

constexpr std::int64_t samples_at_once = 256;
constexpr std::int64_t tokens_per_batch = std::int64_t{1} << 20;

constexpr std::array formats{
    std::pair{"jsonl", SampleFormat::jsonl}, std::pair{"safetensors", SampleFormat::safetensors},
    std::pair{"megatron", SampleFormat::megatron}, std::pair{"lengths", SampleFormat::lengths}};

template <typename Table>
std::vector<std::string> list_words(const Table& table) {
  std::vector<std::string> words;
  for (const auto& entry : table) words.emplace_back(entry.first);
  return words;
}

template <typename Table>
auto find_value(const Table& table, const std::string& word) {
  return std::ranges::find(table, word, [](const auto& entry) { return std::string(entry.first); })->second;
}

SampleFormat format_of(const ConvertOptions& options) {
  if (!options.to_kind.empty()) return find_value(formats, options.to_kind);
  if (const auto format = evenkeel::format_of(options.to)) return *format;
  throw ConfigError(options.to.string(), "has a name that does not imply a format",
                    "Use a name that ends in .jsonl, .safetensors, .idx or .csv, or set --to to one of " +
                        fmt::format("{}", fmt::join(list_words(formats), ", ")));
}

/// Returns the name of a shard of the file: NAME-00000.ENDING.
fs::path shard_path(const fs::path& path, std::int64_t number) {
  return path.parent_path() /
         fmt::format("{}-{:05}{}", path.stem().string(), number, path.extension().string());
}

void require_unused_name(SampleFormat format, const fs::path& path, bool overwrite) {
  for (const fs::path& file : files_of(format, path)) {
    if (overwrite || !is_name_taken(file)) continue;
    throw IoError(file.string(), "already exists", "Give another name, or --overwrite");
  }
}

/// Returns the positions of the samples to read and write in one block: adjacent samples from `first` on.
std::vector<std::int64_t> next_block(const SampleSource& source, std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> positions;
  std::int64_t tokens = 0;
  for (std::int64_t p = first; p < std::min(end, first + samples_at_once); ++p) {
    tokens += source.tokens_in(p);
    if (!positions.empty() && tokens > tokens_per_batch) break;
    positions.push_back(p);
  }
  return positions;
}

void print_ignored_content(const SampleSource& source, const ConvertOptions& options) {
  if (const std::string left = source.ignored_content(); !left.empty())
    print_note(printable(options.from.string()) + ": not read: " + printable(left));
  if (const std::string open = source.undecided_fields(); !open.empty())
    print_note(printable(options.from.string()) +
               ": all prompts are empty, so these fields are read as one row per token: " + printable(open));
}

/// Throws InputError for a word given to --drop that is neither a field of the samples nor a keyword.
void require_known_fields(const std::vector<std::string>& drop, const RaggedBatch& batch) {
  constexpr std::array<std::string_view, 3> words{"all", "uid", "prompt_lengths"};
  for (const std::string& name : drop) {
    if (batch.find(name) != nullptr || std::ranges::count(words, name) > 0) continue;
    std::vector<std::string> fields;
    for (const Column& column : batch.fields()) fields.push_back(column.spec().name);
    throw InputError("--drop", "names '" + name + "', which is not a field of the samples",
                     fmt::format("Name one of {}, or uid, prompt_lengths or all", fmt::join(fields, ", ")));
  }
}

void write_all(const SampleSource& source, SampleFormat format, const ConvertOptions& options,
               std::int64_t& tokens) {
  const std::int64_t samples = source.num_samples();
  const std::int64_t shard = options.shard_samples > 0 ? options.shard_samples : samples;
  const auto path_of = [&](std::int64_t number) {
    return options.shard_samples > 0 ? shard_path(options.to, number) : options.to;
  };
  for (std::int64_t number = 0; number * shard < samples; ++number)
    require_unused_name(format, path_of(number), options.overwrite);
  const DroppedFields dropped(options.drop.begin(), options.drop.end());
  const IndexedDType dtype = options.vocab_size > 0 ? optimal_dtype(options.vocab_size) : IndexedDType::int32;
  Progress progress(options.progress, samples, "sample");
  for (std::int64_t number = 0; number * shard < samples; ++number) {
    const std::int64_t end = std::min(samples, (number + 1) * shard);
    const auto writer = make_sample_writer(format, path_of(number), dropped, dtype);
    for (std::int64_t first = number * shard; first < end;) {
      const std::vector<std::int64_t> positions = next_block(source, first, end);
      const RaggedBatch batch = source.read(positions);
      if (first == 0) require_known_fields(options.drop, batch);
      writer->write(batch, source.uids(positions));
      tokens += batch.num_tokens();
      first += batch.size();
      progress.advance(batch.num_tokens(), batch.size());
    }
    writer->close();
  }
}

NamedFields formats_of_fields(const ConvertOptions& options, SourceKind kind) {
  NamedFields fields;
  for (const auto& [name, format] : options.declared) fields[name].read_as = format;
  if (fields.empty() || kind == SourceKind::jsonl) return fields;
  throw ConfigError("--read-as",
                    "declares formats of JSON lines, but " + printable(options.from.string()) + " has none",
                    "Leave it out");
}

int convert(const ConvertOptions& options) {
  SourceSettings settings;
  settings.kind = source_kind_of(options.from, options.from_kind);
  settings.path = options.from;
  const NamedFields fields = formats_of_fields(options, *settings.kind);
  const SampleFormat format = format_of(options);
  const boost::mpi::environment environment(boost::mpi::threading::single, false);
  const boost::mpi::communicator world;
  set_up_logging(world.rank(), false, "info");
  const auto launched = launched_processes();
  if (const int processes = launched ? launched->number : world.size(); processes > 1) {
    throw ConfigError("convert", fmt::format("runs in one process, but was started in {}", processes),
                      "Start it without a launcher such as mpirun or srun");
  }
  const auto source = open_source(world, settings, any_length, fields);
  print_ignored_content(*source, options);
  std::int64_t tokens = 0;
  write_all(*source, format, options, tokens);
  std::cout << fmt::format("{}: {}, {}\n", printable(options.to.string()),
                           format_count(source->num_samples(), "sample"), format_count(tokens, "token"));
  return 0;
}

}  // namespace

void add_convert_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "convert",
      "Write samples in another format: the same samples in the same order, and nothing is lost silently");
  auto options = std::make_shared<ConvertOptions>();
  command
      ->add_option("INPUT", options->from, "What to read: a file, a quoted pattern, or the folder of a dump")
      ->required();
  command->add_option("OUTPUT", options->to, "The file to write; its extension implies the format")
      ->required();
  command
      ->add_option("--from", options->from_kind,
                   "The format of INPUT, as in source.kind, if its name does not imply it")
      ->type_name("KIND")
      ->transform(one_of(source_kind_words()));
  add_read_as_option(*command, options->declared);
  command->add_option("--to", options->to_kind, "The format of OUTPUT, if its name does not imply it")
      ->type_name("KIND")
      ->transform(one_of(list_words(formats)));
  command
      ->add_option("--drop", options->drop,
                   "What OUTPUT may lose: fields, prompt_lengths, uid, input_ids (for lengths), or all that "
                   "it cannot hold")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option(
          "--shard-samples", options->shard_samples,
          "Write files of this many samples each; for rollouts.jsonl these are rollouts-00000.jsonl, ...")
      ->type_name("COUNT")
      ->check(whole_number(1));
  command
      ->add_option("--vocab-size", options->vocab_size,
                   "Store megatron's tokens in two bytes if this is below 65500")
      ->type_name("COUNT")
      ->check(whole_number(1));
  command->add_flag("--overwrite", options->overwrite, "Replace OUTPUT if it exists");
  add_progress_option(*command, options->progress);
  command->footer(
      "Examples:\n"
      "  evenkeel convert rollouts.jsonl rollouts.safetensors\n"
      "  evenkeel convert 'shards/*.jsonl.gz' batch.safetensors\n"
      "  evenkeel convert rollouts.jsonl tokens.idx --drop all");
  command->callback([options, &chosen] { chosen = [options] { return convert(*options); }; });
}

}  // namespace evenkeel::cli
