#include <fmt/format.h>

#include <iostream>
#include <numeric>

#include "cli/commands.hpp"
#include "evenkeel/io/jsonl_writer.hpp"
#include "evenkeel/io/synthetic.hpp"

namespace evenkeel::cli {
namespace {

struct SynthOptions {
  std::filesystem::path out;
  std::int64_t samples = 2048;
  SyntheticSpec spec;
};

constexpr std::int64_t samples_at_a_time = 256;

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
  std::cout << fmt::format("{}: {} samples in groups of {}, {} tokens\n", options.out.string(),
                           options.samples, spec.group_size, tokens);
  return 0;
}

void add_length_options(CLI::App& command, LengthDistribution& lengths, const std::string& what) {
  command.add_option("--" + what + "-median", lengths.median, "Median " + what + " length, in tokens")
      ->capture_default_str();
  command
      .add_option("--" + what + "-sigma", lengths.sigma, "Spread of " + what + " lengths: 1 is a long tail")
      ->capture_default_str();
  command.add_option("--" + what + "-max", lengths.max, "Longest " + what + ", in tokens")
      ->capture_default_str();
}

}  // namespace

void add_synth_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("synth", "Write made-up long-tailed GRPO rollouts as JSON lines");
  auto options = std::make_shared<SynthOptions>();
  command->add_option("--out", options->out, "The file to write, such as rollouts.jsonl")->required();
  command->add_option("--samples", options->samples, "How many samples")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", options->spec.seed, "Equal seeds give equal files")->capture_default_str();
  command->add_option("--group-size", options->spec.group_size, "Responses to each prompt")
      ->capture_default_str();
  command->add_option("--vocab-size", options->spec.vocab_size, "Token ids are below this")
      ->capture_default_str();
  add_length_options(*command, options->spec.prompt_length, "prompt");
  add_length_options(*command, options->spec.response_length, "response");
  command->callback([options, &chosen] { chosen = [options] { return synthesize(*options); }; });
}

}  // namespace evenkeel::cli
