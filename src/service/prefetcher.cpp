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
    if (!steps) return;
    GuardedWork work;  // there is nobody left to tell what goes wrong
    work.in_any_case([&] { tell(DataCallKind::end_prefetcher, work); });
  }

  /// Where there are data ranks: calls them. Takes no memory.
  void tell(DataCallKind kind, GuardedWork& work) {
    if (steps->maker().mesh().data_ranks() == 0) return;
    DataCall call;
    call.kind = kind;
    call.service = steps->maker().service();
    // Where there is a thread, that one tells what is held.
    if (!steps->in_background()) call.held = steps->maker().first_held();
    DataLine::tell(call, work);
  }
  void tell_of_step() {
    GuardedWork work;
    tell(DataCallKind::make_step, work);
  }

  std::optional<StepsAhead> steps;
};

namespace {

DataCall call_to_make(std::int64_t steps, const std::string& profile, GuardedWork& work) {
  DataCall call;
  call.kind = DataCallKind::make_prefetcher;
  call.number = steps;
  work([&] { call.profile = profile; });
  return call;
}

}  // namespace

Prefetcher::Prefetcher(const boost::mpi::communicator& world, const Config& config, std::int64_t steps,
                       Reader read, std::string profile) {
  const boost::mpi::communicator& everyone = DataLine::ranks(world, config);
  GuardedWork work;
  if (config.mesh.data_ranks > 0) DataLine::tell(call_to_make(steps, profile, work), work);
  work([&] { parts_ = std::make_unique<Parts>(); });
  work.agree(everyone);
  parts_->steps.emplace(everyone, config, steps, std::move(read), std::move(profile), ServiceState{});
}

Prefetcher::Prefetcher(const boost::mpi::communicator& world, const Config& config, std::int64_t steps,
                       Reader read, const ServiceState& from, ChangedJob changed, std::string profile) {
  const boost::mpi::communicator& everyone = DataLine::ranks(world, config);
  GuardedWork work;
  if (config.mesh.data_ranks > 0)
    DataLine::tell_with_state(call_to_make(steps, profile, work), from, changed, work);
  work([&] { parts_ = std::make_unique<Parts>(); });
  work.agree(everyone);
  require_resumable(everyone, config, from, changed);
  parts_->steps.emplace(everyone, config, steps, std::move(read), std::move(profile), from);
}

Prefetcher::~Prefetcher() = default;

bool Prefetcher::in_background() const noexcept {
  return parts_->steps->in_background();
}

ServiceState Prefetcher::state() const {
  return parts_->steps->state();
}

std::optional<Step> Prefetcher::next() {
  if (parts_->steps->makes_in_next()) parts_->tell_of_step();
  return parts_->steps->next();
}

void Prefetcher::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->steps->maker().report_time(step, micro_batch, seconds);
}

bool Prefetcher::progress() {
  if (parts_->steps->makes_in_progress()) parts_->tell_of_step();
  return parts_->steps->progress();
}

}  // namespace evenkeel
