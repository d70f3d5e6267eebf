#include "evenkeel/service/service_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// What becomes of steps when a key of these sections changes; nothing where they stay as they are.
struct Consequence {
  std::string_view prefix;
  std::string_view text;
};

constexpr std::string_view other_samples = "steps would have other samples: some twice, others never";
constexpr std::string_view other_cuts = "steps would be cut into other micro-batches";
constexpr std::string_view other_weights = "tokens would have other weights in the loss";

constexpr std::array consequences{
    Consequence{"mesh.", ""},
    Consequence{"exchange.", ""},
    Consequence{"field.", ""},
    Consequence{"fields.", ""},
    Consequence{"watchdog.", ""},
    Consequence{"stream.", ""},  // a step that was formed is written down
    Consequence{"source.path", ""},
    Consequence{"source.", other_samples},
    Consequence{"batch.", other_samples},
    Consequence{"balance.", other_cuts},
    Consequence{"micro_batch.", other_cuts},
    Consequence{"pack.", other_cuts},
    Consequence{"prefix.", other_cuts},
    Consequence{"loss.", other_weights},
};

/// "micro_batch.max_tokens" of "profiles.update.micro_batch.max_tokens"; other paths as they are.
std::string_view without_name(std::string_view path) {
  for (const std::string_view section : {"profiles.", "sources."}) {
    if (!path.starts_with(section)) continue;
    const std::size_t dot = path.find('.', section.size());
    if (dot == std::string_view::npos) return path;
    if (section == "profiles.") return path.substr(dot + 1);
    return path.substr(dot + 1) == "path" ? "source.path" : "source.";
  }
  return path;
}

using Values = std::map<std::string_view, std::string_view>;

/// Whether outliers wait for others, which follows from how a step would be planned.
bool delays_outliers(const Values& settings) {
  const auto found = settings.find("batch.delay_outliers");
  return found != settings.end() && found->second != "0";
}

std::string_view consequence_of(std::string_view path, bool delays_outliers) {
  if (delays_outliers &&
      (path.starts_with("balance.") || path.starts_with("micro_batch.") || path.starts_with("pack.")))
    return other_samples;
  const std::string_view key = without_name(path);
  const auto* const found =
      std::ranges::find_if(consequences, [&](const Consequence& c) { return key.starts_with(c.prefix); });
  return found == consequences.end() ? other_cuts : found->text;
}

Values values_of(const std::vector<ConfigSetting>& settings) {
  Values values;
  for (const auto& [path, value] : settings) values.emplace(path, value);
  return values;
}

std::string shown(std::optional<std::string_view> value) {
  if (!value) return "not there";
  return value->empty() ? "empty" : std::string(*value);
}

std::optional<std::string_view> value_in(const Values& values, std::string_view path) {
  const auto found = values.find(path);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void compare_settings(const ServiceState& saved, const ServiceState& now, std::vector<std::string>& found) {
  const Values before = values_of(saved.settings);
  const Values after = values_of(now.settings);
  const bool is_delayed = delays_outliers(before) || delays_outliers(after);
  Values all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [path, value] : all) {
    const auto was = value_in(before, path);
    const auto is = value_in(after, path);
    const std::string_view consequence = consequence_of(path, is_delayed);
    if (was == is || consequence.empty()) continue;
    found.push_back(fmt::format("{} was {} and is {}: {}", path, shown(was), shown(is), consequence));
  }
}

/// What of a source differs, or nothing.
std::optional<std::string> change_of(const SourceFingerprint& was, const SourceFingerprint& is) {
  if (was.samples != is.samples) return fmt::format("had {} samples and has {}", was.samples, is.samples);
  if (was.bytes != is.bytes) return fmt::format("had {} bytes and has {}", was.bytes, is.bytes);
  if (was.digest != is.digest) return "has other content";
  if (was.whole && is.whole && *was.whole != *is.whole) return "has other content";
  return std::nullopt;
}

void compare_sources(const ServiceState& saved, const ServiceState& now, std::vector<std::string>& found) {
  if (saved.sources.size() != now.sources.size()) {
    std::string names;
    for (const SourceFingerprint& source : now.sources) names += (names.empty() ? "" : ", ") + source.name;
    found.push_back(fmt::format("the job had {} sources and has {} ({}): {}", saved.sources.size(),
                                now.sources.size(), names, other_samples));
    return;
  }
  bool changed = false;
  for (std::size_t i = 0; i < saved.sources.size(); ++i) {
    const auto change = change_of(saved.sources[i], now.sources[i]);
    if (!change) continue;
    changed = true;
    found.push_back(fmt::format("{} {}: {}", now.sources[i].name, *change, other_samples));
  }
  if (changed || saved.order == now.order) return;
  const std::string_view why = delays_outliers(values_of(now.settings))
                                   ? "other samples of the sources are taken, or this version of Evenkeel "
                                     "delays others of them (batch.delay_outliers)"
                                   : "other samples of the sources are taken";
  found.push_back(fmt::format("{}: {}", why, other_samples));
}

}  // namespace

ServiceState state_of_new_job(const Config& config) {
  ServiceState state;
  state.settings = list_settings(config);
  return state;
}

std::vector<std::string> differences(const ServiceState& saved, const ServiceState& now) {
  std::vector<std::string> found;
  compare_settings(saved, now, found);
  compare_sources(saved, now, found);
  return found;
}

void require_same_job(const ServiceState& saved, const ServiceState& now, std::string_view name) {
  const std::vector<std::string> found = differences(saved, now);
  if (found.empty()) return;
  std::string message = "belongs to another job: ";
  for (std::size_t i = 0; i < found.size(); ++i) message += (i == 0 ? "" : "; ") + found[i];
  throw ConfigError(
      std::string(name), message,
      "Use the configuration and the files that it was taken with, or accept the changes (--allow-changed)");
}

}  // namespace evenkeel
