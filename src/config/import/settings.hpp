#pragma once

#include "config/import/facts.hpp"

namespace evenkeel::config_import {

/// Turns facts into Evenkeel's keys: the process grid, batches, balance and loss of the job, then the
/// micro-batches of each stage.
void import_mesh(Facts& facts);
void import_batch(Facts& facts);
void import_balance(Facts& facts);
void import_stages(Facts& facts);
/// After the stages: some losses divide by the width of what they cut.
void import_loss(Facts& facts);
/// After all: what the system's exact partitions need besides.
void import_preset(Facts& facts);

/// How the stated trainer reduces and which sizes it reads; null when that is not known.
[[nodiscard]] const TrainerRule* trainer_rule(Facts& facts);

/// The settings as YAML, with a comment a key where it came from.
[[nodiscard]] std::string settings_yaml(const SystemTable& table, const std::vector<Setting>& settings);

}  // namespace evenkeel::config_import
