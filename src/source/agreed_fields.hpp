#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/source/sample_source.hpp"

namespace evenkeel {

/// Fields of the samples in one part of a job's input: a source, or a file of a source.
struct FieldsOfPart {
  std::string name;  ///< name of the part in errors
  std::vector<SourceField> fields;
};

/// Returns the fields that all parts have in common, sorted by name. A property that is open in one part
/// (SourceField) is taken from another part; if it is open in all parts, it remains open, with a placeholder.
/// A pure function. Throws InputError naming a field and two parts if one part lacks the field or if the
/// parts disagree on its kind, type or shape. `part_kind` is the plural word for parts in errors.
[[nodiscard]] std::vector<SourceField> agreed_fields(std::span<const FieldsOfPart> parts,
                                                     std::string_view part_kind);

/// Returns the samples with the kinds and element types of `agreed`, which replace placeholders of open
/// properties. Precondition: `agreed` is a result of agreed_fields() for parts that include these samples.
[[nodiscard]] RaggedBatch convert_to_agreed(RaggedBatch samples, std::span<const SourceField> agreed);

}  // namespace evenkeel
