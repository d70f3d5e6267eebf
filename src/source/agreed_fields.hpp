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
  std::string name;  ///< name by which errors refer to the part
  std::vector<SourceField> fields;
};

/// Merges the fields of all parts into one list, sorted by name. If a property of a field is open in one part
/// (see SourceField), it is taken from another part; if it is open in all parts, it stays open and keeps its
/// placeholder value. A pure function. Throws InputError naming the field and two parts if a part lacks a
/// field, or if two parts disagree on its kind, type or shape. `part_kind` is the plural noun for parts in
/// errors, such as "files".
[[nodiscard]] std::vector<SourceField> agreed_fields(std::span<const FieldsOfPart> parts,
                                                     std::string_view part_kind);

/// Replaces the placeholder kinds and element types of the samples' columns with those in `agreed`.
/// Precondition: `agreed` is a result of agreed_fields() for parts that include these samples.
[[nodiscard]] RaggedBatch convert_to_agreed_fields(RaggedBatch samples, std::span<const SourceField> agreed);

}  // namespace evenkeel
