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
#include "exchange/gather/field_agreement.hpp"
#include "service/step/time_reports.hpp"
#include "service/step_record.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// The shapes that micro-batches are padded to, in the order in which they were chosen; null without
/// micro_batch.shapes.
using ChosenShapes = std::shared_ptr<const std::vector<PackedShape>>;

/// What all steps of a service are made with. Equal on all ranks, but for their places in the mesh; costs
/// that are measured change from step to step, on all ranks alike.
struct StepContext {
  /// Collective over `ranks`. `from` is equal on all ranks; its job was compared.
  StepContext(const Communicator& ranks, const Config& config, const ServiceState& from);

  [[nodiscard]] const Communicator& world() const noexcept { return mesh.world(); }
  [[nodiscard]] PlanSettings plan_settings(std::string_view profile) const;
  [[nodiscard]] DerivedFieldSettings derived(std::string_view profile) const;
  [[nodiscard]] TransportSettings transport() const noexcept;
  [[nodiscard]] CostInUse cost_in_use(std::string_view profile) const;
  /// A hash of how samples are cut for the ranks of the mesh.
  [[nodiscard]] std::uint64_t cut_hash(const PlanSettings& settings) const;
  /// What a rank means by a collective call about a step: throws InputError for a step of a service of
  /// another mesh or configuration. Precondition: the step was made.
  [[nodiscard]] CallKey key_of(std::string_view action, const Step& step, std::string_view how) const;

  Mesh mesh;
  Config config;
  std::vector<int> dp_of_rank;  // where samples are, for their placement
  std::unique_ptr<TimeReports> times;
  std::vector<std::string> planned_profiles;  // what shapes are chosen for, beside a step's first pass
  std::set<std::string> cost_fields;          // by which passes of any profile are balanced
  ChosenShapes first_shapes;                  // before the first step
  std::uint64_t number = 0;                   // of the service, by which its steps are known
  bool sends_messages = true;                 // in exchanges; equal on all ranks

 private:
  void find_cost_fields();
  void prepare_shapes(const ServiceState& from);
};

/// The name of a step in errors: `step 3 (profile 'update')`.
[[nodiscard]] std::string name_of(const Step& step);

/// Throws InputError for a step that was moved from.
void require_made(const Step& step);

/// ` under profile 'update'`, or nothing for the job's own settings.
[[nodiscard]] std::string under_profile(std::string_view profile);

}  // namespace evenkeel
