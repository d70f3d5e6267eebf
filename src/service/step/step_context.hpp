#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"
#include "exchange/gather/announcement.hpp"
#include "service/step/time_reports.hpp"
#include "service/step_record.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// Shapes that micro-batches are padded to, in the order in which they were chosen; null without
/// micro_batch.shapes.
using ChosenShapes = std::shared_ptr<const std::vector<PackedShape>>;

/// Data shared by all steps of a service. Equal on all ranks, except for each rank's place in the mesh and
/// the times that it has reported. Only these times and the measured costs change; the costs change between
/// steps, in the same way on all ranks.
struct StepContext {
  /// Collective over `ranks`. `from` must be equal on all ranks. Unless it is empty, the caller must already
  /// have checked it with require_resumable().
  StepContext(const Communicator& ranks, const Config& config, const ServiceState& from);

  [[nodiscard]] const Communicator& world() const noexcept { return mesh.world(); }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const;
  [[nodiscard]] DerivedFieldSettings derived_settings(std::string_view profile) const;
  [[nodiscard]] TransportSettings transport_settings() const noexcept;
  [[nodiscard]] CostInUse cost_in_use(std::string_view profile) const;
  /// Returns a hash of the mesh and the settings that determine how samples are cut for its ranks.
  [[nodiscard]] std::uint64_t cut_hash(const PlanSettings& settings) const;
  /// Returns the key that identifies a collective call on `step`; `how` is appended to its text. Throws
  /// InputError if the step was made by a service with a different mesh or configuration. Precondition:
  /// `step.record` is not null.
  [[nodiscard]] CallKey key_of(std::string_view action, const Step& step, std::string_view how) const;

  Mesh mesh;
  Config config;
  std::vector<int> dp_of_rank;  // DP rank of each world rank
  std::unique_ptr<TimeReports> times;
  // Profiles of the later passes that are planned in order to choose shapes. Omits profiles with the same
  // plan settings as an earlier profile.
  std::vector<std::string> planned_profiles;
  std::set<std::string> cost_fields;  // fields that define the cost of samples in any pass
  ChosenShapes first_shapes;          // shapes with which the first step of this service begins
  std::uint64_t number = 0;           // identifies this service (StepOrigin::service)
  // Whether exchanges send bytes in messages: the opposite of moves_without_messages(). Equal on all ranks.
  bool sends_messages = true;

 private:
  void collect_cost_fields();
  void prepare_shapes(const ServiceState& from);
};

/// Returns the name of a step in errors, such as `step 3 (profile 'update')`.
[[nodiscard]] std::string name_of(const Step& step);

/// Throws InputError if the step is empty, for example because it was moved from.
void require_not_moved_from(const Step& step);

/// Returns ` under profile 'update'`, or an empty string for the job's own settings.
[[nodiscard]] std::string profile_text(std::string_view profile);

}  // namespace evenkeel
