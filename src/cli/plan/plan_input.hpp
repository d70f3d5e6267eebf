#pragma once

#include <filesystem>
#include <vector>

#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel::cli {

/// One step's samples as a plan needs them, numbered in the order of the file.
struct PlanInput {
  LengthTable table;
  std::vector<SharedGroup> trees;  ///< with PrefixSharing::trees
};

/// Reads `path` for a plan that shares prefixes in this way, with `ahead` of PrefixTree::of_tokens: lengths
/// alone suffice without sharing, and for sharing by prompt where they name uids and prompt lengths; else
/// rollouts are read with their tokens and, where they tell their trees (segment_ids_field), with that,
/// written as `fields` say. Throws InputError for a file without samples, where the file cannot tell what is
/// shared, and at the line of a sample whose tokens differ from others of the same segments; else as
/// read_length_table, infer_schema and read_samples do. Says when reading takes long.
[[nodiscard]] PlanInput read_plan_input(const std::filesystem::path& path, PrefixSharing sharing,
                                        const NamedFields& fields, std::int64_t ahead);

/// As much as the file tells of what samples share: PrefixSharing::trees where it has their tokens, else
/// `wanted`.
[[nodiscard]] PrefixSharing all_sharing_told(const std::filesystem::path& path, PrefixSharing wanted);

/// Adds what a plan with these settings needs to know of fields: the numbers in the columns, or keys, of
/// their names, which are rows of a field with a cap or an encoder, and the work that a field says. Throws
/// InputError where the file does not have them.
void read_fields_of_plan(const std::filesystem::path& path, const PlanSettings& settings, LengthTable& table);

}  // namespace evenkeel::cli
