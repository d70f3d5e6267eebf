#include "cli/inspect/inspect.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text_layout.hpp"
#include "buffer/buffer.hpp"
#include "buffer/job_client.hpp"
#include "buffer/server_json.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "page/arrivals.hpp"

namespace evenkeel::cli {
namespace {

using nlohmann::json;

json status_of_buffer(const std::string& place, const std::string& token) {
  if (is_url(place)) return json::parse(JobClient(place, token).status());
  std::unique_ptr<Store> store = open_lmdb_store_read_only(place);
  const stream::StreamSettings settings = read_settings(*store);
  const Buffer buffer(std::move(store), settings);
  return json::parse(json_of(buffer.status()).dump());
}

std::string step_text(const json& step) {
  return step.is_null() ? "none" : std::to_string(step.get<std::int64_t>());
}

std::string dropped_text(const json& dropped) {
  std::string reasons;
  std::int64_t all = 0;
  for (const auto& [reason, count] : dropped.items()) {
    if (count == 0) continue;
    all += count.get<std::int64_t>();
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count.get<std::int64_t>(), reason);
  }
  return std::to_string(all) + (reasons.empty() ? "" : " (" + reasons + ")");
}

std::string missing_fields_text(const json& missing) {
  std::string fields;
  for (const auto& [field, samples] : missing.items())
    fields += fmt::format("{}{} in {}", fields.empty() ? "" : ", ", printable(field),
                          format_count(samples.get<std::int64_t>(), "sample"));
  return fields;
}

std::map<std::int64_t, std::int64_t> staleness_in(const json& status) {
  std::map<std::int64_t, std::int64_t> staleness;
  for (const auto& [versions, samples] : status.at("staleness").items())
    staleness[std::stoll(versions)] = samples;
  return staleness;
}

}  // namespace

bool is_url(const std::string& place) {
  return place.starts_with("http://") || place.starts_with("https://");
}

bool is_buffer(const std::string& place) {
  std::error_code ignored;
  return is_url(place) || std::filesystem::exists(std::filesystem::path(place) / "buffer.json", ignored);
}

std::string explain_buffer(const std::string& place, const std::string& token) {
  LabeledLines lines;
  try {
    const json status = status_of_buffer(place, token);
    const json& samples = status.at("samples");
    const json& groups = status.at("groups");
    const auto count = [](const json& in) { return format_with_commas(in.get<std::int64_t>()); };
    lines.add_line("buffer", status.at("store").get<std::string>());
    if (is_url(place)) {
      lines.add_line("in use", bytes_text(status.at("bytes")) + " of " + bytes_text(status.at("capacity")));
    } else {
      lines.add_line("in use", bytes_text(status.at("bytes")));
    }
    lines.add_line("version", step_text(status.at("version")));
    lines.add_line("received", count(samples.at("received")));
    lines.add_line("duplicates", count(samples.at("duplicates")));
    lines.add_line("trained", count(samples.at("trained")));
    lines.add_line("in steps", count(samples.at("formed")));
    lines.add_line("waiting",
                   fmt::format("{} in {} that {} complete, {} that {} not", count(samples.at("waiting")),
                               format_count(groups.at("ready").get<std::int64_t>(), "group"),
                               groups.at("ready") == 1 ? "is" : "are", count(groups.at("open")),
                               groups.at("open") == 1 ? "is" : "are"));
    if (status.contains("missing_fields"))
      lines.add_line("missing", missing_fields_text(status.at("missing_fields")));
    lines.add_line("tickets", fmt::format("{} open, {} expired", count(status.at("tickets")),
                                          count(status.at("tickets_expired"))));
    lines.add_line("dropped", dropped_text(samples.at("dropped")));
    lines.add_line("behind policy", staleness_text(staleness_in(status)));
    lines.add_line("last formed", step_text(status.at("formed_step")));
    lines.add_line("last trained", step_text(status.at("trained_step")));
    lines.add_line("more may come", status.at("ended").get<bool>() ? "no" : "yes");
  } catch (const json::exception& error) {
    throw InputError(place, std::string("sent an answer that cannot be read: ") + error.what(),
                     "Check that this is the address of evenkeel buffer");
  }
  return std::move(lines).text();
}

}  // namespace evenkeel::cli
