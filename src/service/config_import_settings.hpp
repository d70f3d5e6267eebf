#pragma once

#include "config_import_facts.hpp"

namespace evenkeel::config_import {

/// Turns facts into Evenkeel's keys: those of the job, then the micro-batches of each stage.
void import_job(Facts& facts);
void import_stages(Facts& facts);
/// After both: what the system's exact partitions need besides.
void import_preset(Facts& facts);

/// The settings as YAML, with a comment a key where it came from.
[[nodiscard]] std::string settings_yaml(const SystemTable& table, const std::vector<Setting>& settings);

}  // namespace evenkeel::config_import
