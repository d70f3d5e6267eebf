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

/// Throws ConfigError naming the key, such as fields.NAME.layers, if the settings of the field `name` are not
/// compatible with each other (see require_compatible()), change how a built-in field is delivered, or do not
/// match a pipeline of `pp` ranks with `vpp` virtual stages each.
void require_valid(const FieldSettings& field, const std::string& name, int pp, int vpp);

/// Returns the layers of each pipeline rank, out of `layers` layers in total: first the layers of its first
/// part, then those of its second part, and so on. Throws InputError about `where` if the map is an even
/// split and `layers` is not a multiple of pp * vpp, or if the map omits a layer or names one that does not
/// exist. Precondition: require_valid() accepts the map.
[[nodiscard]] std::vector<std::vector<std::int64_t>> layers_of_ranks(const LayerMap& map, std::int64_t layers,
                                                                     int pp, int vpp,
                                                                     const std::string& where);

/// A field, or the layers of a field for one pipeline stage, as it is sent from owners to consumers.
struct CarriedField {
  FieldSpec spec;          ///< spec during the transfer
  DType supplied_dtype;    ///< element type supplied by samples
  DType delivered_dtype;   ///< element type delivered to consumers
  std::size_t source = 0;  ///< position in the fields supplied by samples
  /// The only pipeline stage that gets the field; nullopt if fields_for_stage() decides by name and kind.
  std::optional<int> stage;
  bool to_all_stages = false;
  /// Layers of the supplied rows, in this order; nullopt if rows are transferred whole.
  std::optional<std::vector<std::int64_t>> layers;
  bool shares_equal = false;  ///< whether equal values of an owner are sent and stored only once per node
  /// Name of the field of token ranges by which rows are cut for context parallelism, possibly this field.
  /// Empty if counted rows are not cut.
  std::string cut_by{};
  std::vector<std::string> profiles{};  ///< profiles whose passes get the field; all passes if empty
  std::int64_t spread_pads = 0;         ///< same as FieldSettings::spread_pads

  [[nodiscard]] const std::string& name() const noexcept { return spec.name; }

  friend bool operator==(const CarriedField&, const CarriedField&) = default;
};

/// The settings of fields, and the properties of the job that determine how fields are transferred.
struct FieldRouting {
  /// By name; other fields are transferred unchanged.
  std::map<std::string, FieldSettings, std::less<>> settings;
  /// By name: range of the field's values over all ranks, for fields that are transferred in a narrower type.
  std::map<std::string, IntegerRange, std::less<>> ranges;
  int pp = 1;
  int vpp = 1;
  bool sends_messages = true;  ///< whether any ranks exchange fields by messages
};

/// Returns whether a field's integers may be sent in a narrower type: wire_dtype must be narrow and, unless
/// the field is also delivered in a narrow type, ranks must exchange fields by messages.
[[nodiscard]] bool is_sent_narrow(const FieldSettings& settings, bool sends_messages) noexcept;

/// Returns the fields to transfer. A field without settings is transferred unchanged; a field with layers
/// becomes one CarriedField of the same name per pipeline stage; a field that cuts others is itself cut in
/// the same way. Pure and deterministic, so the result is the same on all ranks. Throws InputError naming the
/// field if its kind, shape or element type does not suit its settings. Preconditions: require_valid()
/// accepts the settings; each field for which is_sent_narrow() is true has a range.
[[nodiscard]] std::vector<CarriedField> carried_fields(std::span<const FieldSpec> brought,
                                                       const FieldRouting& ways = {});

/// Returns the fields that a pass under this profile gets, in their order. Pure.
[[nodiscard]] std::vector<CarriedField> fields_for_profile(std::string_view profile,
                                                           std::span<const CarriedField> fields);

/// Returns the specs of a consumer's columns, one per CarriedField, with the delivered element types.
[[nodiscard]] std::vector<FieldSpec> delivered_fields(std::span<const CarriedField> carried);

/// Returns whether a field is changed on the way from the sample to the consumer: whether it is split by
/// layers, converted to another element type, or cut.
[[nodiscard]] bool is_field_changed(const CarriedField& field) noexcept;

}  // namespace evenkeel
