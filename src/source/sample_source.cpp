#include "evenkeel/source/sample_source.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "mesh/fail_together.hpp"
#include "service/equal_on_ranks.hpp"
#include "source/dump/dump_source.hpp"
#include "source/files/indexed_source.hpp"
#include "source/files/jsonl_source.hpp"
#include "source/files/sft_source.hpp"
#include "source/files/tensor_source.hpp"
#include "source/synthetic_source.hpp"

namespace evenkeel {
namespace {

SourceKind required_kind(const SourceSettings& config) {
  if (config.kind) return *config.kind;
  throw ConfigError(
      "source.kind", "is not set, so it is unknown where samples come from",
      "Set it in the configuration or with --set source.kind=KIND: jsonl (rollouts, one JSON object per "
      "line, in source.path), safetensors (tensors of samples in source.path), megatron (an indexed "
      "dataset, source.path.bin and .idx), dump (what run --dump wrote), stream (samples that arrive while "
      "the job trains), lengths (a table of lengths in source.path, with synthetic tokens) or synthetic "
      "(generated samples)");
}

// Different kinds of sources communicate differently, so ranks that open different sources could deadlock.
void require_equal_sources(const Communicator& comm, const SourceSettings& source,
                           const NamedFields& fields) {
  const auto settings = [&] {
    Config config;
    config.source = source;
    config.fields = fields;
    // Ignore paths, since copies of a file may have different names on different ranks. Their contents are
    // compared when they are opened.
    if (source.kind != SourceKind::lengths && !source.path.empty()) {
      config.source.path = "a file of its own";
      for (std::size_t i = 0; i < config.source.more_paths.size(); ++i)
        config.source.more_paths[i] = "file " + std::to_string(i + 1);
    }
    return list_settings(config);
  };
  require_equal_on_ranks(comm, run_together(comm, settings),
                         "Give every rank the same source; each reads its own share of it");
}

void require_path(const SourceSettings& config) {
  if (config.path.empty()) {
    throw ConfigError("source.path", "is not set, but this kind of source reads files",
                      "Set it in the configuration or with --set source.path=PATH");
  }
}

/// Throws InputError, on all ranks, if the source does not have any samples.
std::unique_ptr<SampleSource> require_samples(const SourceSettings& config,
                                              std::unique_ptr<SampleSource> source) {
  if (source->num_samples() > 0) return source;
  throw InputError(config.path_text(), "has no samples", "Give a source with at least one sample");
}

std::unique_ptr<SampleSource> make_synthetic_source(const Communicator& comm, const SourceSettings& config) {
  std::unique_ptr<SampleSource> source;
  fail_together(comm, try_on_replicated_data(
                          [&] { source = std::make_unique<SyntheticSource>(config.samples, config.seed); }));
  return source;
}

}  // namespace

std::vector<SourceField> SampleSource::fields() const {
  constexpr std::array first{std::int64_t{0}};
  const RaggedBatch sample = read(first);
  std::vector<SourceField> fields;
  for (const Column& column : sample.fields()) {
    if (column.spec().name != input_ids_field) fields.push_back({column.spec()});
  }
  return fields;
}

std::int64_t longest_sample(const Config& config) {
  // With flexible CP, caps are unknown without the mesh. Planning rejects samples that are too long.
  if (config.mesh.flexible_cp) return std::numeric_limits<std::int32_t>::max();
  const auto cap = [&](const MicroBatchKeys& m) {
    return m.max_tokens_per_rank ? *m.max_tokens_per_rank * config.mesh.cp : m.max_tokens;
  };
  std::int64_t longest = cap(config.micro_batch);
  for (const auto& [name, profile] : config.profiles) longest = std::max(longest, cap(profile.micro_batch));
  return longest;
}

std::unique_ptr<SampleSource> open_source(const Communicator& comm, const SourceSettings& config,
                                          std::int64_t max_tokens, const NamedFields& fields) {
  require_equal_sources(comm, config, fields);
  switch (required_kind(config)) {
    case SourceKind::jsonl:
      require_path(config);
      return require_samples(config, JsonlSource::open(comm, config, fields));
    case SourceKind::lengths:
      require_path(config);
      return require_samples(config, LengthTableSource::open(comm, config.path, config.seed, max_tokens));
    case SourceKind::megatron:
      require_path(config);
      if (const auto prefix = SftSource::prefix_of(comm, config.path))
        return require_samples(config, SftSource::open(comm, *prefix));
      return require_samples(config, IndexedSource::open(comm, config.path));
    case SourceKind::safetensors:
      require_path(config);
      return require_samples(config, TensorSource::open(comm, config));
    case SourceKind::dump:
      require_path(config);
      return require_samples(config, DumpSource::open(comm, config.path));
    case SourceKind::synthetic:
      return make_synthetic_source(comm, config);
    case SourceKind::stream:
      throw ConfigError("source.kind", "stream is not a list of samples: they arrive while the job trains",
                        "Make a SampleStream, or use another kind");
    case SourceKind::embedded:
      break;
  }
  throw ConfigError("source.kind", "embedded means that the embedding program brings samples",
                    "Use another kind");
}

}  // namespace evenkeel
