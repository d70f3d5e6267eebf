#include "service/state/resume_checks.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "service/equal_on_ranks.hpp"

namespace evenkeel {
namespace {

/// Adds a string to the hash, prefixed with its length, so that ("ab", "c") and ("a", "bc") hash differently.
void add(Fnv1a& hash, std::string_view text) {
  hash.add(static_cast<std::int64_t>(text.size()));
  hash.add(text);
}

void add(Fnv1a& hash, double number) {
  hash.add(std::bit_cast<std::int64_t>(number));
}

// Does not use JSON, since nlohmann::json ends the process if memory runs out.
std::uint64_t hash_of(const ServiceState& state) {
  Fnv1a hash;
  hash.add(state.next_step);
  add(hash, state.job);
  for (const int size : {state.mesh.tp, state.mesh.cp, state.mesh.dp, state.mesh.pp})
    hash.add(std::int64_t{size});
  for (const auto& [path, value] : state.settings) {
    add(hash, path);
    add(hash, value);
  }
  for (const SourceFingerprint& source : state.sources) {
    add(hash, source.name);
    for (const std::int64_t number : {source.samples, source.bytes, static_cast<std::int64_t>(source.digest)})
      hash.add(number);
    hash.add(std::int64_t{source.whole.has_value()});
    hash.add(static_cast<std::int64_t>(source.whole.value_or(0)));
  }
  hash.add(static_cast<std::int64_t>(state.order));
  for (const auto& [profile, cost] : state.costs) {
    add(hash, profile);
    for (const double seconds : {cost.overhead, cost.linear, cost.quadratic}) add(hash, seconds);
    for (const auto& seconds : {cost.inside_node, cost.between_nodes}) {
      hash.add(std::int64_t{seconds.has_value()});
      add(hash, seconds.value_or(0));
    }
    hash.add(cost.observations);
  }
  for (const PackedShape& shape : state.shapes)
    for (const std::int64_t number : {shape.rows, shape.sequences, shape.max_seqlen, shape.cp})
      hash.add(number);
  return hash.value();
}

void require_equal_states(const Communicator& comm, const ServiceState& from) {
  const auto compared_settings = [&] {
    return std::vector<ConfigSetting>{{"the state's next step", std::to_string(from.next_step)},
                                      {"the state's checksum", std::to_string(hash_of(from))}};
  };
  require_equal_on_ranks(comm, run_together(comm, compared_settings),
                         "Resume from the same state on every rank: read it on one rank and broadcast it");
}

}  // namespace

void throw_unchecked_sources(const ServiceState& saved) {
  throw ConfigError(
      std::string(state_to_resume_from),
      "was saved with " + format_plain_count(std::ssize(saved.sources), "source") + " (" +
          join(saved.sources, &SourceFingerprint::name) + "), which " +
          (saved.sources.size() == 1 ? "has" : "have") + " not been checked against this job",
      "Pass a sample stream of the job's sources to DataService::require_same_sources first (in C, call "
      "evenkeel_stream_create), or accept changes when resuming "
      "(accept_changes in C and Python; ChangedJob::accepted in C++)");
}

void require_resumable(const Communicator& comm, const Config& config, const ServiceState& from,
                       ChangedJob changed) {
  require_equal_states(comm, from);
  if (changed == ChangedJob::accepted) return;
  fail_together(comm, try_on_replicated_data([&] {
                  ServiceState now = from;
                  now.settings = list_settings(config);
                  require_same_job(from, now, state_to_resume_from);
                }));
}

}  // namespace evenkeel
