#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "buffer/buffer.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

/// What the door says, as JSON and, where Prometheus asks, as its text. Each has the shape of
/// docs/streams.md.
[[nodiscard]] nlohmann::ordered_json json_of(const Intake& intake);
[[nodiscard]] nlohmann::ordered_json json_of(const BufferStatus& status);
[[nodiscard]] nlohmann::ordered_json json_of(const stream::WaitingGroup& group);
[[nodiscard]] nlohmann::ordered_json json_of(const stream::FormedStep& step);
[[nodiscard]] nlohmann::ordered_json json_of(const stream::StreamSettings& settings);
[[nodiscard]] nlohmann::ordered_json json_of(const WaitingGroups& waiting);
[[nodiscard]] nlohmann::ordered_json json_of(const StepToCome& come);
/// A buffer's settings and formats, and the identity of its store: what a job must not find changed.
[[nodiscard]] nlohmann::ordered_json json_of_rules(const Buffer& buffer, const std::string& identity);
[[nodiscard]] std::string metrics_of(const BufferStatus& status);

/// What the job's side reads. Each throws InputError that says what is wrong with it.
[[nodiscard]] stream::WaitingGroup group_of_json(const nlohmann::json& json);
[[nodiscard]] stream::FormedStep step_of_json(const nlohmann::json& json);
[[nodiscard]] stream::StreamSettings settings_of_json(const nlohmann::json& json);

/// A group's name, as a sample's line has it: a text or an integer. Throws InputError.
[[nodiscard]] nlohmann::ordered_json json_of(const Uid& uid);
[[nodiscard]] Uid uid_of_json(const nlohmann::json& json);

}  // namespace evenkeel
