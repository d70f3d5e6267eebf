#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "buffer/server.hpp"
#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/progress.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "report/reported_source.hpp"
#include "source/arriving/patience.hpp"
#include "source/feed/feeder.hpp"

namespace evenkeel::cli {
namespace {

namespace fs = std::filesystem;

/// A communicator of only this process, for programs that read sources without MPI.
class OneProcess final : public NonMpiRanks {
 public:
  [[nodiscard]] static Communicator make() { return Communicator(std::make_shared<const OneProcess>()); }

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) const override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const override {
    std::ranges::copy(mine, all.begin());
  }
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const override {
    const auto bytes_of = [&](int values) { return static_cast<std::size_t>(values) * lists.bytes_each; };
    std::copy_n(mine, bytes_of(lists.sizes[0]), all + bytes_of(lists.offsets[0]));
  }
  void all_reduce(std::span<std::int64_t> /*values*/, ReduceOp /*op*/) const override {}
  [[nodiscard]] Communicator duplicate() const override { return make(); }
  [[nodiscard]] Communicator split(int color, int /*key*/) const override {
    return color < 0 ? Communicator() : make();
  }
  [[nodiscard]] Communicator split_by_node() const override { return make(); }
  [[nodiscard]] bool allows_threads() const override { return true; }
  void all_to_all(std::span<const std::byte> /*out*/, std::span<const std::int64_t> /*out_bytes*/,
                  std::span<std::byte> /*in*/, std::span<const std::int64_t> /*in_bytes*/) const override {}
};

struct FeedOptions {
  std::vector<std::string> files;
  std::string kind;
  DeclaredFormats read_as;
  fs::path config;
  std::vector<std::string> overrides;
  FeedSettings to;
  fs::path token_file;
  bool ends = false;
  ProgressStyle progress = ProgressStyle::automatic;
};

/// Returns the configuration of a feeder, whose source is the files on the command line, if there are any.
Config config_of(const FeedOptions& options) {
  if (options.files.empty() && options.config.empty())
    throw ConfigError("feed", "has nothing to read", "Name files, or a configuration with sources: --config");
  std::vector<std::string> settings;
  if (!options.files.empty()) {
    const SourceKind kind = source_kind_of(options.files.front(), options.kind);
    settings.push_back("source.kind=" + source_kind_word(kind));
    const nlohmann::json paths = options.files;
    settings.push_back("source.path=" + (paths.size() == 1 ? paths.front() : paths).dump());
  }
  for (const auto& [name, format] : options.read_as)
    settings.push_back("fields." + name + ".read_as=" + std::string(name_of(format)));
  settings.insert(settings.end(), options.overrides.begin(), options.overrides.end());
  const Config job = options.config.empty() ? parse_config("{}", "the command line", settings)
                                            : load_config(options.config, settings);
  if (!options.files.empty() && !job.sources.empty())
    throw ConfigError("--config", "names a configuration with sources, but FILES are given, too",
                      "Leave one of them out");
  return config_of_feeder(job);
}

std::string default_name(const Config& config) {
  std::string name;
  if (config.sources.empty()) return config.source.path_text();
  for (const auto& [source, settings] : config.sources) name += (name.empty() ? "" : "+") + source;
  return name;
}

void warn_about_skipped_content(const SampleStream& stream) {
  for (const StreamSource& source : stream.sources()) {
    const std::string name = printable(source.name.empty() ? source.path : source.name);
    if (!source.ignored_content.empty())
      spdlog::warn("{}: left out: {}", name, printable(source.ignored_content));
    if (const std::string filtered = describe_filter(source.counts); !filtered.empty())
      spdlog::warn("{}: {}", name, filtered);
  }
}

/// Sends the samples of all steps. While one step is sent, the next one is read.
void send_all(SampleStream& stream, Feeder& feeder, ProgressStyle style) {
  Progress progress(style, stream.num_samples(), "sample");
  const auto read = [&](std::int64_t step) {
    return std::async(std::launch::async, [&stream, step] { return stream.read(step); });
  };
  if (stream.num_steps() == 0) return;
  std::future<RaggedBatch> next = read(0);
  for (std::int64_t step = 0; step < stream.num_steps(); ++step) {
    RaggedBatch samples = next.get();
    if (step + 1 < stream.num_steps()) next = read(step + 1);
    const std::int64_t tokens = samples.num_tokens();
    const std::int64_t size = samples.size();
    feeder.send(std::move(samples));
    progress.advance(tokens, size);
  }
  progress.finish();
}

int feed(FeedOptions options) {
  const Config config = convert_load_errors([&] { return config_of(options); });
  if (!options.token_file.empty()) options.to.token = read_token(options.token_file);
  if (options.to.name.empty()) options.to.name = default_name(config);
  set_up_logging(0, false, "info");
  send_waiting_notes_to([](const std::string& line) { spdlog::warn("{}", line); });
  // Do not use MPI: feeders are independent of each other, and a rank of a job may start one.
  SampleStream stream(OneProcess::make(), config);
  warn_about_skipped_content(stream);
  Feeder feeder(options.to);
  send_all(stream, feeder, options.progress);
  if (options.ends) feeder.end();
  const FeedFigures& sent = feeder.figures();
  std::cout << fmt::format("{}: sent {}, {}; {} new, {} duplicates, {} stale, {} dropped\n",
                           printable(options.to.url), format_count(sent.samples(), "sample"),
                           format_count(sent.tokens, "token"), sent.accepted, sent.duplicates, sent.stale,
                           sent.dropped);
  return 0;
}

void add_source_options(CLI::App& command, const std::shared_ptr<FeedOptions>& options) {
  command.add_option("FILES", options->files,
                     "What to read: files, quoted patterns, or the folder of a dump");
  command
      .add_option("--from", options->kind,
                  "The format, as in source.kind, if the first name does not imply it")
      ->type_name("KIND")
      ->transform(one_of(source_kind_words()));
  add_read_as_option(command, options->read_as);
  command
      .add_option("--config", options->config,
                  "A job's configuration, of which source, sources, batch and fields are used")
      ->type_name("FILE");
  command
      .add_option("--set", options->overrides,
                  "Set one of its keys, such as batch.shuffle=true or batch.too_long=drop; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_buffer_options(CLI::App& command, const std::shared_ptr<FeedOptions>& options) {
  command.add_option("--to", options->to.url, "The address of the buffer, such as http://127.0.0.1:8710")
      ->type_name("URL")
      ->required();
  command
      .add_option("--name", options->to.name,
                  "Prefix of the uids of groups; by default the path, or the names of the sources")
      ->type_name("TEXT");
  command
      .add_option("--sample-version", options->to.version,
                  "The version of samples that do not have one; by default the buffer's latest")
      ->type_name("NUMBER")
      ->check(whole_number(0));
  command.add_flag("--end", options->ends,
                   "Tell the buffer at the end that no more samples will come from any producer");
  command.add_option("--token-file", options->token_file, "A file with the buffer's token")
      ->type_name("FILE");
  command.add_option("--ca", options->to.ca, "Certificates (PEM) to trust for https")->type_name("FILE");
  command
      .add_option("--patience", options->to.patience,
                  "Seconds to retry while the buffer is full or unreachable; by default forever")
      ->type_name("SECONDS")
      ->check(positive_number());
}

}  // namespace

void add_feed_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "feed", "Read samples from files and send them to a buffer, from which a job takes them");
  auto options = std::make_shared<FeedOptions>();
  add_source_options(*command, options);
  add_buffer_options(*command, options);
  add_progress_option(*command, options->progress);
  command->footer(
      "A feeder that is started again sends the same samples under the same keys, and the buffer takes each\n"
      "of them once.\n"
      "\n"
      "Examples:\n"
      "  evenkeel feed rollouts.jsonl --to http://127.0.0.1:8710 --end\n"
      "  evenkeel feed 'shards/*.jsonl.gz' --to http://10.0.0.5:8710 --set batch.shuffle=true\n"
      "  evenkeel feed --config job.yaml --to https://buffer:8710 --token-file token --ca ca.pem");
  command->callback([options, &chosen] { chosen = [options] { return feed(*options); }; });
}

}  // namespace evenkeel::cli
