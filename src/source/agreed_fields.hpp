#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/source/sample_source.hpp"

namespace evenkeel {

/// The fields of one of several parts of a job's samples: sources, or files of one.
struct FieldsOfPart {
  std::string name;  ///< what errors call it
  std::vector<SourceField> fields;
};

/// What the samples of all parts have, in the order of names: what is open in one part is as others say, or a
/// stand-in where it is open in all. A pure function. Throws InputError that names a field and two parts
/// where one lacks it, or they say that it is of different kinds, types or shapes; `parts_are` is what parts
/// are called in the plural.
[[nodiscard]] std::vector<SourceField> agreed_fields(std::span<const FieldsOfPart> parts,
                                                     std::string_view parts_are);

/// The same samples with their fields as agreed, of which one was open where they come from. Precondition:
/// they have these fields, input_ids aside.
[[nodiscard]] RaggedBatch as_agreed(RaggedBatch samples, std::span<const SourceField> agreed);

}  // namespace evenkeel
