#pragma once

#include <filesystem>
#include <vector>

#include "evenkeel/plan/field_settings.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel::cli {

/// The samples of one step in the form that planning needs, numbered in the order of the file.
struct PlanInput {
  LengthTable table;
  std::vector<SharedGroup> trees;  ///< prefix trees of the samples; used only with PrefixSharing::trees
};

/// Reads `path` for a plan with this kind of prefix sharing. `ahead` has the same meaning as in
/// PrefixTree::from_tokens().
/// - Without sharing, lengths are sufficient. For sharing by prompt, uids and prompt lengths are also
///   required.
/// - Otherwise, rollouts are read with their tokens. If they have segment numbers (segment_ids_field), these
///   are also read, in the format given by `fields`.
/// Throws InputError if the file is malformed, has no samples or does not show what samples share, or if a
/// sample's tokens differ from those of other samples in the same segments. Throws IoError if the file cannot
/// be read. Prints a note if reading takes long.
[[nodiscard]] PlanInput read_plan_input(const std::filesystem::path& path, PrefixSharing sharing,
                                        const NamedFields& fields, std::int64_t ahead);

/// Returns the most detailed sharing that the file supports: PrefixSharing::trees if it has tokens, otherwise
/// `wanted`.
[[nodiscard]] PrefixSharing most_detailed_sharing(const std::filesystem::path& path, PrefixSharing wanted);

/// Adds the numbers from fields that a plan with these settings needs: the number of rows of fields with a
/// cap or an encoder, and the work if a field defines it. They are read from the columns or keys with the
/// names of the fields. Throws InputError if one is missing.
void read_fields_of_plan(const std::filesystem::path& path, const PlanSettings& settings, LengthTable& table);

}  // namespace evenkeel::cli
