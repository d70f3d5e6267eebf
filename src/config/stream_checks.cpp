#include "config/stream_checks.hpp"

#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel::config_detail {
namespace {

void require_redis_for_its_keys(const ArrivalSettings& stream) {
  const ArrivalSettings defaults;
  const std::pair<const char*, bool> of_redis[] = {
      {"name", stream.name != defaults.name}, {"redis_password_file", !stream.redis_password_file.empty()}};
  if (stream.store != "lmdb" && stream.store != "memory") return;
  for (const auto& [key, is_set] : of_redis) {
    if (is_set)
      throw ConfigError(std::string("stream.") + key, "is about a Redis, and stream.store is " + stream.store,
                        "Leave it out, or set stream.store: redis://HOST");
  }
}

/// What a job says of a buffer of its own goes with no other.
void require_valid_buffer(const Config& config) {
  const ArrivalSettings& stream = config.stream;
  const ArrivalSettings defaults;
  if (config.source.names_buffer()) {
    const std::pair<const char*, bool> own[] = {{"listen", stream.listen != defaults.listen},
                                                {"dir", !stream.dir.empty()},
                                                {"store", stream.store != defaults.store},
                                                {"name", stream.name != defaults.name},
                                                {"redis_password_file", !stream.redis_password_file.empty()},
                                                {"capacity", stream.capacity != defaults.capacity}};
    for (const auto& [key, is_set] : own) {
      if (is_set)
        throw ConfigError(std::string("stream.") + key,
                          "is of the job's own buffer, and source.path names another",
                          "Leave out one of them");
    }
    return;
  }
  if (!stream.ca_file.empty())
    throw ConfigError("stream.ca_file", "is for a buffer at https, and source.path names none",
                      "Leave it out");
  if (!config.source.path.empty() && stream.store == "memory") {
    throw ConfigError("stream.store",
                      "is memory, which loses samples with the job, and those of the folder source.path are "
                      "removed from there once the buffer has them",
                      "Set it to lmdb, with stream.dir");
  }
  if (stream.store != "lmdb" && !stream.dir.empty())
    throw ConfigError("stream.dir", "is a folder, and stream.store: " + stream.store + " needs none",
                      "Leave it out, or set stream.store: lmdb");
  require_redis_for_its_keys(stream);
  if (stream.store == "lmdb" && stream.dir.empty()) {
    throw ConfigError(
        "stream.dir", "is not set, and the job's own buffer keeps samples there",
        "Set it to a folder, set source.path to the address of another buffer, or set stream.store: "
        "memory");
  }
}

void require_valid_groups(const Config& config) {
  const ArrivalSettings& stream = config.stream;
  const std::int64_t size = stream.group_size.value_or(1);
  if (config.batch.global_batch % size != 0) {
    throw ConfigError("batch.global_batch",
                      "is " + std::to_string(config.batch.global_batch) + ", and groups of " +
                          std::to_string(size) + " samples (stream.group_size) do not fill it",
                      "Set it to a multiple of stream.group_size");
  }
  if (stream.group_size && stream.min_group.value_or(1) > size) {
    throw ConfigError("stream.min_group", "is more than stream.group_size, which is " + std::to_string(size),
                      "Lower it");
  }
}

}  // namespace

void require_valid_stream(const Config& config, const std::string& file) {
  const bool is_stream = config.sources.empty() && config.source.kind == SourceKind::stream;
  try {
    if (!is_stream) {
      if (config.stream != ArrivalSettings{})
        throw ConfigError("stream", "says what becomes of samples that arrive, and source.kind is not stream",
                          "Set source.kind: stream, or leave the section out");
      return;
    }
    Choices choices;
    choices.are_samples_awaited = true;
    choices.batch = config.batch;
    choices.filter = config.filter;
    choices.delay = config.delay;
    choices.source_epochs = config.source.epochs;
    require_together(choices);
    require_valid_buffer(config);
    require_valid_groups(config);
  } catch (const ConfigError& error) {
    throw ConfigError(file + error.report().where, error.report().message, error.report().hint);
  }
}

}  // namespace evenkeel::config_detail
