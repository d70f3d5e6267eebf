#include "config/key_sections.hpp"

#include <string>
#include <utility>

#include "base/text/host_port.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/settings/checks.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel::config_detail {

Keys stream_keys() {
  const auto s = &Config::stream;
  return {
      key("stream.listen", s, &ArrivalSettings::listen, Address{},
          "The address at which producers reach the job's own buffer, on the machine of the first rank that "
          "reads. Addresses other than the loopback require token_file."),
      key("stream.dir", s, &ArrivalSettings::dir, FilePath{},
          "The folder in which the job's own buffer stores samples; it is required if store is lmdb."),
      key("stream.store", s, &ArrivalSettings::store, StoreName{},
          "Where the job's own buffer stores samples. lmdb: in dir. redis://HOST: in a Redis server, which "
          "other buffers can share. memory: in memory, which loses them when the job ends for any reason."),
      key("stream.name", s, &ArrivalSettings::name, BufferName{},
          "With Redis, the name of the job's own buffer, since one Redis server may have several buffers."),
      key("stream.redis_password_file", s, &ArrivalSettings::redis_password_file, FilePath{},
          "A file whose first line is the password of the Redis server; only its owner may read it."),
      key("stream.capacity", s, &ArrivalSettings::capacity, ByteCount{Int64{1} << 20, Int64{1} << 50},
          "Maximum number of bytes in the job's own buffer; if it is full, producers wait."),
      key("stream.token_file", s, &ArrivalSettings::token_file, FilePath{},
          "A file whose first line is the token that the buffer's server requires; only its owner may read "
          "it."),
      key("stream.ca_file", s, &ArrivalSettings::ca_file, FilePath{},
          "Certificates (PEM) to trust for a buffer at https, instead of the system's."),
      key("stream.group_size", s, &ArrivalSettings::group_size,
          OptionalInteger<Int64>{"auto", {1, max_in_group}},
          "Number of samples in a complete group; auto is the buffer's number, which is 1 for the job's own "
          "buffer. A step has batch.global_batch samples, in whole groups."),
      key("stream.min_group", s, &ArrivalSettings::min_group,
          OptionalInteger<Int64>{"auto", {1, max_in_group}},
          "Minimum number of samples that a group must have to be trained if it was closed before it was "
          "complete; auto is the buffer's number, which is group_size for the job's own buffer."),
      key("stream.deadline", s, &ArrivalSettings::deadline, OptionalSeconds{"auto"},
          "A group is closed this many seconds after its first sample; auto is the buffer's setting, which "
          "is never for the job's own buffer."),
      key("stream.ticket_deadline", s, &ArrivalSettings::ticket_deadline, OptionalSeconds{"auto"},
          "Seconds after which a ticket expires if no group was started with it; auto is the buffer's "
          "setting, which is 600 for the job's own buffer."),
      key("stream.max_staleness", s, &ArrivalSettings::max_staleness,
          OptionalInteger<Int64>{"auto", {0, Int64{1} << 30}},
          "Maximum number of versions that a sample may be behind when its step is formed; auto is the "
          "buffer's setting, which is no limit for the job's own buffer."),
      key("stream.on_stale", s, &ArrivalSettings::on_stale,
          Choice<std::optional<OnStale>>({{"auto", std::nullopt},
                                          {"wait", OnStale::wait},
                                          {"drop", OnStale::drop},
                                          {"mask", OnStale::mask}}),
          "What limits staleness. wait: fewer tickets for new groups are granted, so that samples do not "
          "become stale. drop: stale samples are dropped. mask: stale samples are trained with a loss mask "
          "of 0. auto: the buffer's setting, which is wait for the job's own buffer."),
      key("stream.late_fields", s, &ArrivalSettings::late_fields, FieldNames{},
          "Fields that producers add to samples after they are stored. The job's own buffer gives it a "
          "sample "
          "only once the sample has all of these fields."),
      key("stream.take_over", s, &ArrivalSettings::take_over, Boolean{},
          "Whether the job takes over the buffer from another running job, which then ends with an error; "
          "evenkeel run --resume always does. Otherwise, the job waits up to ten seconds for the other job "
          "to end, and then ends with an error."),
      key("stream.patience", s, &ArrivalSettings::patience, OptionalSeconds{"null"},
          "Seconds that a step waits without a new sample, or for a buffer that does not respond, before the "
          "job ends with an error. null: it waits forever."),
      key("stream.look_ahead", s, &ArrivalSettings::look_ahead, Integer<Int64>{0, max_ahead},
          "Number of steps to look ahead when a step is formed from waiting groups, so that this step and "
          "the following ones take less time; 0 is first come, first served. No group waits more than this "
          "many steps beyond its turn."),
      key("stream.version", s, &ArrivalSettings::versions_by_trainer,
          Choice<bool>({{"step", false}, {"trainer", true}}),
          "The version of the policy. step: the number of the step that is being formed, because each step "
          "makes a new version. trainer: the version that the trainer published, which must embed Evenkeel."),
  };
}

namespace {

void reject_redis_keys_without_redis(const ArrivalSettings& stream) {
  const ArrivalSettings defaults;
  const std::pair<const char*, bool> of_redis[] = {
      {"name", stream.name != defaults.name}, {"redis_password_file", !stream.redis_password_file.empty()}};
  if (stream.store != "lmdb" && stream.store != "memory") return;
  for (const auto& [key, is_set] : of_redis) {
    if (is_set)
      throw ConfigError(std::string("stream.") + key,
                        "applies only to Redis, but stream.store is " + stream.store,
                        "Leave it out, or set stream.store: redis://HOST");
  }
}

/// Throws ConfigError if settings of the job's own buffer conflict or are missing, or if one of these
/// settings is used although source.path refers to another buffer.
void require_valid_buffer(const Config& config) {
  const ArrivalSettings& stream = config.stream;
  const ArrivalSettings defaults;
  if (!stream.ca_file.empty() && !config.source.path.string().starts_with("https://")) {
    throw ConfigError("stream.ca_file",
                      "is only used with an https buffer, but source.path is not an https address",
                      "Leave it out");
  }
  if (config.source.names_buffer()) {
    const std::pair<const char*, bool> own[] = {{"listen", stream.listen != defaults.listen},
                                                {"dir", !stream.dir.empty()},
                                                {"store", stream.store != defaults.store},
                                                {"name", stream.name != defaults.name},
                                                {"redis_password_file", !stream.redis_password_file.empty()},
                                                {"capacity", stream.capacity != defaults.capacity},
                                                {"late_fields", !stream.late_fields.empty()}};
    for (const auto& [key, is_set] : own) {
      if (is_set)
        throw ConfigError(std::string("stream.") + key,
                          "applies only to the job's own buffer, but source.path names another buffer",
                          "Leave out one of them");
    }
    return;
  }
  if (const auto listen = parse_host_port(stream.listen);
      listen && !is_loopback(listen->host) && stream.token_file.empty()) {
    throw ConfigError(
        "stream.listen",
        "is " + stream.listen + ", which other machines can reach, but stream.token_file is not set",
        "Set stream.token_file to a file with a token, or listen on 127.0.0.1");
  }
  if (!config.source.path.empty() && stream.store == "memory") {
    throw ConfigError("stream.store",
                      "is memory, which loses samples when the job ends, but files in the folder source.path "
                      "are removed once the buffer has read them",
                      "Set it to lmdb, with stream.dir");
  }
  if (stream.store != "lmdb" && !stream.dir.empty())
    throw ConfigError("stream.dir", "is set, but stream.store: " + stream.store + " does not use a folder",
                      "Leave it out, or set stream.store: lmdb");
  reject_redis_keys_without_redis(stream);
  if (stream.store == "lmdb" && stream.dir.empty()) {
    throw ConfigError(
        "stream.dir", "is not set, but the job's own buffer stores its samples there",
        config.source.path.empty()
            ? "Set it to a folder, set source.path to the address of another buffer, or set stream.store: "
              "memory"
            : "Set it to a folder");
  }
}

void require_valid_groups(const Config& config) {
  const ArrivalSettings& stream = config.stream;
  const std::int64_t size = stream.group_size.value_or(1);
  if (config.batch.global_batch % size != 0) {
    throw ConfigError("batch.global_batch",
                      "is " + std::to_string(config.batch.global_batch) +
                          ", which is not a multiple of stream.group_size, " + std::to_string(size),
                      "Set it to a multiple of stream.group_size");
  }
  if (stream.group_size && stream.min_group.value_or(1) > size) {
    throw ConfigError("stream.min_group",
                      "is " + std::to_string(*stream.min_group) + ", above stream.group_size, which is " +
                          std::to_string(size),
                      "Lower it");
  }
}

}  // namespace

void require_valid_stream(const Config& config, const std::string& file) {
  const bool is_stream = config.sources.empty() && config.source.kind == SourceKind::stream;
  try {
    if (!is_stream) {
      if (config.stream != ArrivalSettings{})
        throw ConfigError("stream",
                          std::string("has settings for samples that arrive, but ") +
                              (config.sources.empty() ? "source.kind is not stream"
                                                      : "the section sources replaces the stream"),
                          "Set source.kind: stream without sources, or leave the section out");
      return;
    }
    Choices choices;
    choices.are_samples_awaited = true;
    choices.batch = config.batch;
    choices.filter = config.filter;
    choices.delay = config.delay;
    choices.source_epochs = config.source.epochs;
    require_compatible(choices);
    require_valid_buffer(config);
    require_valid_groups(config);
  } catch (const ConfigError& error) {
    throw ConfigError(file + error.report().where, error.report().message, error.report().hint);
  }
}

}  // namespace evenkeel::config_detail
