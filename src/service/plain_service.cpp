#include "service/plain_service.hpp"

#include "mesh/fail_together.hpp"

namespace evenkeel {

std::unique_ptr<PlainService> PlainService::make(const Communicator& everyone, const Config& config,
                                                 const Resumption* from) {
  auto service = together(everyone, [] { return std::make_unique<PlainService>(); });
  service->begin(everyone, config, from, AssignedBy::a_rank_of_each_node);
  return service;
}

void PlainService::begin(const Communicator& everyone, const Config& config, const Resumption* from,
                         AssignedBy by) {
  if (from != nullptr) require_resumable(everyone, config, *from);
  const ServiceState fresh;  // not a copy of `from`, which would take memory
  maker_.emplace(everyone, config, from == nullptr ? fresh : from->state, by);
}

}  // namespace evenkeel
