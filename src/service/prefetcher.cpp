#include "evenkeel/service/prefetcher.hpp"

#include <utility>

#include "mesh/fail_together.hpp"
#include "service/data_line.hpp"
#include "service/resume_checks.hpp"
#include "service/steps_ahead.hpp"

namespace evenkeel {

// Its memory is taken before ranks communicate, on all of them or on none.
struct Prefetcher::Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (!steps || steps->maker().mesh().data_ranks() == 0) return;
    steps->stop();
    GuardedWork work;  // there is nobody left to tell what goes wrong
    work([&] {
      const DataCall last = call(DataCallKind::end_prefetcher);
      DataLine::tell_of_end(last, steps->maker().take_held(), work);
    });
  }

  static std::unique_ptr<Parts> make(const Communicator& world, const Config& config, std::int64_t steps,
                                     Reader read, std::string profile, const Resumption* from);
  /// Where there are data ranks: calls them to make the next step.
  void tell_of_step() {
    if (steps->maker().mesh().data_ranks() == 0) return;
    GuardedWork work;  // the call takes no memory
    DataLine::tell(call(DataCallKind::make_step), work);
  }

  std::optional<StepsAhead> steps;

 private:
  // Where there is a thread, that one tells what is held.
  [[nodiscard]] DataCall call(DataCallKind kind) {
    DataCall call;
    call.kind = kind;
    call.service = steps->maker().service();
    call.held = steps->maker().first_held();
    return call;
  }
};

// Collective over `world`.
std::unique_ptr<Prefetcher::Parts> Prefetcher::Parts::make(const Communicator& world, const Config& config,
                                                           std::int64_t steps, Reader read,
                                                           std::string profile, const Resumption* from) {
  const Communicator everyone = DataLine::ranks(world, config);
  GuardedWork work;
  if (config.mesh.data_ranks > 0) {
    DataCall call;
    call.kind = DataCallKind::make_prefetcher;
    call.number = steps;
    work([&] { call.profile = profile; });
    DataLine::tell_to_make(std::move(call), from, work);
  }
  std::unique_ptr<Parts> parts;
  work([&] { parts = std::make_unique<Parts>(); });
  work.agree(everyone);
  if (from != nullptr) require_resumable(everyone, config, from->state, from->changed);
  const ServiceState fresh;  // not a copy of `from`, which would take memory
  parts->steps.emplace(everyone, config, steps, std::move(read), std::move(profile),
                       from == nullptr ? fresh : from->state);
  return parts;
}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       std::string profile)
    : parts_(Parts::make(world, config, steps, std::move(read), std::move(profile), nullptr)) {}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       const ServiceState& from, ChangedJob changed, std::string profile) {
  const Resumption resumption{from, changed};
  parts_ = Parts::make(world, config, steps, std::move(read), std::move(profile), &resumption);
}

Prefetcher::~Prefetcher() = default;

bool Prefetcher::in_background() const noexcept {
  return parts_->steps->in_background();
}

ServiceState Prefetcher::state() const {
  return parts_->steps->state();
}

std::optional<Step> Prefetcher::next() {
  require_ranks_of_one_group(parts_->steps->maker().mesh().everyone());
  if (parts_->steps->makes_in_next()) parts_->tell_of_step();
  return parts_->steps->next();
}

void Prefetcher::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->steps->maker().report_time(step, micro_batch, seconds);
}

bool Prefetcher::progress() {
  require_ranks_of_one_group(parts_->steps->maker().mesh().everyone());
  if (parts_->steps->makes_in_progress()) parts_->tell_of_step();
  return parts_->steps->progress();
}

}  // namespace evenkeel
