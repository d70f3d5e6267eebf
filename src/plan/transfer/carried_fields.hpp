#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batch/integers.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// Throws ConfigError that names the key, such as fields.NAME.layers, where the settings of the field `name`
/// do not go together (requirements) or fit a pipeline of `pp` ranks with `vpp` parts each.
void require_valid(const FieldSettings& field, const std::string& name, int pp, int vpp);

/// For each pipeline rank the layers, of `layers` in all, that it is handed: those of its first part, then of
/// its second, and so on. Throws InputError about `where` for an even split of a number of layers that is no
/// multiple of pp * vpp, and for a map that names a layer which is not there or leaves one out. Precondition:
/// require_valid() accepts the map.
[[nodiscard]] std::vector<std::vector<std::int64_t>> layers_of_ranks(const LayerMap& map, std::int64_t layers,
                                                                     int pp, int vpp,
                                                                     const std::string& where);

/// A field, or those layers of it that one pipeline stage has, as it travels from owners to consumers.
struct CarriedField {
  FieldSpec spec;            ///< on the way
  DType brought;             ///< the elements that samples bring
  DType handed_out;          ///< the elements that consumers are handed
  std::size_t source = 0;    ///< of the fields that samples bring
  std::optional<int> stage;  ///< the one pipeline stage that is sent it; none: as its name and kind say
  bool to_all_stages = false;
  /// Of the rows that samples bring, in this order; none: rows are whole.
  std::optional<std::vector<std::int64_t>> layers;
  bool shares_equal = false;  ///< equal values of an owner travel and lie once a node
  /// The field of token ranges that says which of its rows a context-parallel rank is sent; itself, maybe.
  /// Empty: rows that samples count are not cut.
  std::string cut_by{};
  std::vector<std::string> profiles{};  ///< of the passes that are sent it; none: of all
  std::int64_t spread_pads = 0;         ///< see FieldSettings

  [[nodiscard]] const std::string& name() const noexcept { return spec.name; }

  friend bool operator==(const CarriedField&, const CarriedField&) = default;
};

/// What fields are on their way where settings say so.
struct FieldWays {
  std::map<std::string, FieldSettings, std::less<>> settings;  ///< by name; others travel as they are
  std::map<std::string, IntegerRange, std::less<>>
      ranges;  ///< by name, over all ranks: of what travels narrow
  int pp = 1;
  int vpp = 1;
  bool sends_messages = true;  ///< whether any ranks send each other fields in messages
};

/// Whether a field's integers travel in another type than they are brought: where they are to be narrow, and
/// that spares anything. What is handed out as it is brought, and read where its owner has it, is left so.
[[nodiscard]] bool travels_narrow(const FieldSettings& settings, bool sends_messages) noexcept;

/// What travels of the fields that samples bring: a field without settings as it is, one with layers once for
/// each pipeline stage, all under its name; a field that cuts others is cut like them. Deterministic, pure:
/// equal on all ranks. Throws InputError that names the field where its shape or elements are not what its
/// settings need. Preconditions: require_valid() accepts the settings; what travels narrow has a range.
[[nodiscard]] std::vector<CarriedField> carried_fields(std::span<const FieldSpec> brought,
                                                       const FieldWays& ways = {});

/// Those of the fields that a pass under this profile is sent, in their order. Pure.
[[nodiscard]] std::vector<CarriedField> fields_under(std::string_view profile,
                                                     std::span<const CarriedField> fields);

/// What a consumer's columns are, one for each carried field: of the elements that are handed out.
[[nodiscard]] std::vector<FieldSpec> handed_out_fields(std::span<const CarriedField> carried);

/// Whether a field does not travel as it is brought.
[[nodiscard]] bool changes_field(const CarriedField& field) noexcept;

}  // namespace evenkeel
