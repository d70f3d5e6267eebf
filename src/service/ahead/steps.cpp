#include "evenkeel/service/steps.hpp"

#include <utility>

#include "evenkeel/mesh/mesh.hpp"
#include "service/service_parts.hpp"

namespace evenkeel {
namespace {

/// Begins every collective call: throws MpiError if MPI is not running.
StepsAhead& steps_called(ServiceParts& service) {
  require_ranks_of_one_group(service.maker->mesh().world());
  return *service.ahead;
}

}  // namespace

Steps::Steps(Steps&& other) noexcept : service_(std::exchange(other.service_, nullptr)) {}

Steps::~Steps() {
  if (service_ == nullptr) return;
  service_->ahead->stop();
  service_->makes_ahead = false;
}

bool Steps::in_background() const noexcept {
  return service_->ahead->in_background();
}

std::optional<Step> Steps::next() {
  return steps_called(*service_).next();
}

bool Steps::progress() {
  return steps_called(*service_).progress();
}

}  // namespace evenkeel
