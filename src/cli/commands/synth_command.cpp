#include <fmt/format.h>

#include <iostream>
#include <limits>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "cli/commands/commands.hpp"
#include "cli/option_values.hpp"
#include "io/jsonl/writer.hpp"
#include "io/samples/synthetic.hpp"

namespace evenkeel::cli {
namespace {

struct SynthOptions {
  std::filesystem::path out;
  std::int64_t samples = 2048;
  SyntheticSpec spec;
};

constexpr std::int64_t samples_at_a_time = 256;
// Must equal the limits checked by validate().
constexpr std::int64_t most_samples = std::int64_t{1} << 40;
constexpr std::int64_t largest_group = std::int64_t{1} << 20;
constexpr int most_sigma = 10;
constexpr std::int64_t longest = std::int64_t{1} << 40;

int synthesize(SynthOptions options) {
  SyntheticSpec& spec = options.spec;
  spec.prompts = (options.samples + spec.group_size - 1) / spec.group_size;
  validate(spec);
  JsonlWriter writer(options.out);
  std::int64_t tokens = 0;
  for (std::int64_t first = 0; first < options.samples; first += samples_at_a_time) {
    std::vector<SampleId> ids;
    for (std::int64_t id = first; id < std::min(first + samples_at_a_time, options.samples); ++id)
      ids.emplace_back(id);
    const RaggedBatch batch = synthetic_samples(spec, ids);
    tokens += batch.num_tokens();
    writer.write(batch);
  }
  writer.close();
  std::cout << fmt::format("{}: {} in groups of {}, {}\n", printable(options.out.string()),
                           format_count(options.samples, "sample"), spec.group_size,
                           format_count(tokens, "token"));
  return 0;
}

void add_length_options(CLI::App& command, LengthDistribution& lengths, const std::string& what) {
  command.add_option("--" + what + "-median", lengths.median, "Median " + what + " length, in tokens")
      ->type_name("TOKENS")
      ->transform(token_count_transform())
      ->check(positive_number())
      ->capture_default_str();
  command
      .add_option("--" + what + "-sigma", lengths.sigma, "Spread of " + what + " lengths: 1 is a long tail")
      ->type_name("NUMBER")
      ->check(decimal_number(most_sigma))
      ->capture_default_str();
  command.add_option("--" + what + "-max", lengths.max, "Longest " + what + ", in tokens")
      ->type_name("TOKENS")
      ->transform(token_count_transform())
      ->check(whole_number(lengths.min, longest))
      ->capture_default_str();
}

void add_count_option(CLI::App& command, const char* name, std::int64_t& number, const char* about,
                      std::int64_t most) {
  command.add_option(name, number, about)
      ->type_name("COUNT")
      ->check(whole_number(1, most))
      ->capture_default_str();
}

}  // namespace

void add_synth_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("synth", "Write synthetic long-tailed GRPO rollouts as JSON Lines");
  auto options = std::make_shared<SynthOptions>();
  command->add_option("--out", options->out, "The file to write, such as rollouts.jsonl")
      ->type_name("FILE")
      ->required();
  add_count_option(*command, "--samples", options->samples, "How many samples", most_samples);
  command->add_option("--seed", options->spec.seed, "Equal seeds give equal files")
      ->type_name("NUMBER")
      ->check(seed_number())
      ->capture_default_str();
  add_count_option(*command, "--group-size", options->spec.group_size, "Responses to each prompt",
                   largest_group);
  add_count_option(*command, "--vocab-size", options->spec.vocab_size, "Token ids are below this",
                   std::numeric_limits<std::int64_t>::max());
  add_length_options(*command, options->spec.prompt_length, "prompt");
  add_length_options(*command, options->spec.response_length, "response");
  command->footer(
      "Examples:\n"
      "  evenkeel synth --samples 4096 --out rollouts.jsonl\n"
      "  evenkeel synth --samples 512 --group-size 16 --response-median 4k --response-sigma 0.5 --out "
      "long.jsonl");
  command->callback([options, &chosen] { chosen = [options] { return synthesize(*options); }; });
}

}  // namespace evenkeel::cli
