#include "source/agreed_fields.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// A field with the properties that have been decided so far, and the names of the parts that decided them.
struct DecidedField {
  SourceField field;
  const std::string* kind_source = nullptr;
  const std::string* element_source = nullptr;
};

std::string hint_for(std::string_view part_kind) {
  return "Make the field's kind, type and shape the same in all " + std::string(part_kind) +
         ", or remove the field from all of them";
}

std::string elements_text(const FieldSpec& spec) {
  const std::string dtype(name_of(spec.dtype));
  return spec.trailing.empty() ? dtype : dtype + " with rows of shape " + shape_text(spec.trailing);
}

bool have_same_dtype_and_shape(const FieldSpec& a, const FieldSpec& b) {
  return a.dtype == b.dtype && a.trailing == b.trailing;
}

bool may_be_kind(const SourceField& field, FieldKind kind) {
  return field.spec.kind == kind || (field.is_kind_open && rule_of(kind).is_cut());
}

[[noreturn]] void reject(const std::string& part, const std::string& field, const std::string& what,
                         const std::string& other, const std::string& there, std::string_view part_kind) {
  throw InputError(part, "field '" + field + "' is " + what + ", but in " + other + " it is " + there,
                   hint_for(part_kind));
}

/// Adopts the part's values for properties that are still undecided. Throws InputError if the part
/// contradicts a decided property.
void merge_into_decided(DecidedField& so_far, const SourceField& field, const std::string& part,
                        std::string_view part_kind) {
  SourceField& decided = so_far.field;
  const FieldKind kind = decided.is_kind_open ? field.spec.kind : decided.spec.kind;
  if (!may_be_kind(decided, kind) || !may_be_kind(field, kind)) {
    reject(part, field.spec.name, "of kind " + std::string(name_of(field.spec.kind)), *so_far.kind_source,
           "of kind " + std::string(name_of(decided.spec.kind)), part_kind);
  }
  if (decided.is_kind_open && !field.is_kind_open) so_far.kind_source = &part;
  decided.spec.kind = kind;
  decided.is_kind_open = decided.is_kind_open && field.is_kind_open;
  if (field.is_element_open) return;
  if (!decided.is_element_open && !have_same_dtype_and_shape(field.spec, decided.spec)) {
    reject(part, field.spec.name, elements_text(field.spec), *so_far.element_source,
           elements_text(decided.spec), part_kind);
  }
  if (!decided.is_element_open) return;
  decided.spec.dtype = field.spec.dtype;
  decided.spec.trailing = field.spec.trailing;
  decided.is_element_open = false;
  so_far.element_source = &part;
}

void require_field(const FieldsOfPart& part, const std::string& field, const std::string& other,
                   std::string_view part_kind) {
  const bool has_it =
      std::ranges::any_of(part.fields, [&](const SourceField& f) { return f.spec.name == field; });
  if (has_it) return;
  throw InputError(part.name, "lacks the field '" + field + "' of " + other,
                   "Add the field to all " + std::string(part_kind) + ", or remove it from all of them");
}

/// Copies the column's bytes into a new column with `spec`. Precondition: both columns have the same size.
Column reinterpret_rows(const Column& column, const FieldSpec& spec, const RaggedBatch& samples) {
  Column made = is_counted(spec.kind) ? Column::uninitialized(spec, column.samples())
                                      : Column::uninitialized(spec, samples.rows_of(spec.kind));
  const std::span<const std::byte> bytes = column.bytes();
  EVENKEEL_INVARIANT(cheap, made.bytes().size() == bytes.size(), spec.name);
  if (!bytes.empty()) std::memcpy(made.bytes().data(), bytes.data(), bytes.size());
  return made;
}

}  // namespace

std::vector<SourceField> agreed_fields(std::span<const FieldsOfPart> parts, std::string_view part_kind) {
  std::map<std::string, DecidedField> decided;
  for (const FieldsOfPart& part : parts) {
    for (const SourceField& field : part.fields) {
      const auto [found, is_new] =
          decided.try_emplace(field.spec.name, DecidedField{field, &part.name, &part.name});
      if (!is_new) merge_into_decided(found->second, field, part.name, part_kind);
    }
  }
  std::vector<SourceField> agreed;
  for (auto& [name, so_far] : decided) {
    for (const FieldsOfPart& part : parts) require_field(part, name, *so_far.kind_source, part_kind);
    agreed.push_back(std::move(so_far.field));
  }
  return agreed;
}

RaggedBatch convert_to_agreed_fields(RaggedBatch samples, std::span<const SourceField> agreed) {
  const auto spec_of = [&](const Column& column) -> const FieldSpec& {
    const auto found = std::ranges::find(agreed, column.spec().name,
                                         [](const SourceField& field) { return field.spec.name; });
    return found == agreed.end() ? column.spec() : found->spec;
  };
  const bool is_so = std::ranges::all_of(std::as_const(samples).fields(), [&](const Column& column) {
    return column.spec() == spec_of(column);
  });
  if (is_so) return samples;
  RaggedBatch made({samples.samples().begin(), samples.samples().end()});
  for (Column& column : samples.fields()) {
    const FieldSpec& spec = spec_of(column);
    made.add_field(column.spec() == spec ? std::move(column)
                                         : reinterpret_rows(std::as_const(column), spec, made));
  }
  return made;
}

}  // namespace evenkeel
