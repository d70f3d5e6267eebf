#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "buffer/buffer.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

/// Version of the API calls under /v1/job/. Increment it with changes that are incompatible with jobs or
/// buffers of the previous version.
inline constexpr std::int64_t job_protocol_version = 1;

/// Serialize a server's responses as JSON, in the formats of docs/streams.md.
[[nodiscard]] nlohmann::ordered_json json_of(const Intake& intake);
[[nodiscard]] nlohmann::ordered_json json_of(const FieldIntake& intake);
[[nodiscard]] nlohmann::ordered_json json_of(const BufferStatus& status);
[[nodiscard]] nlohmann::ordered_json json_of(const stream::WaitingGroup& group);
[[nodiscard]] nlohmann::ordered_json json_of(const stream::FormedStep& step);
[[nodiscard]] nlohmann::ordered_json json_of(const stream::StreamSettings& settings);
[[nodiscard]] nlohmann::ordered_json json_of(const WaitingGroups& waiting);
[[nodiscard]] nlohmann::ordered_json json_of(const PendingStep& come);
/// Returns the rules of a buffer, which must not change while a job runs: its settings and formats, and the
/// identity of its store.
[[nodiscard]] nlohmann::ordered_json json_of_rules(const Buffer& buffer, const std::string& identity);
/// Returns the metrics as text for Prometheus.
[[nodiscard]] std::string metrics_of(const BufferStatus& status);

/// Parse parts of these answers, for clients. Each parser throws an InputError that describes what is
/// invalid.
[[nodiscard]] stream::WaitingGroup parse_group(const nlohmann::json& json);
[[nodiscard]] stream::FormedStep parse_step(const nlohmann::json& json);
[[nodiscard]] stream::StreamSettings parse_settings(const nlohmann::json& json);

/// Parses a group's uid, as in the lines of samples. Throws InputError unless it is a string or an integer.
[[nodiscard]] Uid parse_uid(const nlohmann::json& json);

}  // namespace evenkeel
