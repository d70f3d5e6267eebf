#include "service/time_reports.hpp"

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/vector.hpp>
#include <utility>
#include <vector>

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::CostObservation& observation, unsigned /*version*/) {
  archive& observation.tokens& observation.squares& observation.seconds& observation.dp_rank;
}

}  // namespace boost::serialization

namespace evenkeel {

TimeReports::TimeReports(const Config& config) {
  const auto add_profile = [&](const std::string& name, const BalanceSettings& balance) {
    if (!balance.measured) return;
    profiles_.emplace(name, Measured{*balance.measured, {balance.cost, balance.measured->window}});
  };
  add_profile("", config.balance);
  for (const auto& [name, profile] : config.profiles) add_profile(name, profile.balance);
}

void TimeReports::add(std::string_view profile, const CostObservation& observation) {
  Measured& measured = profiles_.find(profile)->second;
  const std::lock_guard lock(mutex_);
  measured.reported.push_back(observation);
  if (std::ssize(measured.reported) > measured.settings.window) measured.reported.pop_front();
}

void TimeReports::begin_step(const boost::mpi::communicator& comm, std::string_view profile) {
  const auto found = profiles_.find(profile);
  if (found == profiles_.end()) return;
  Measured& measured = found->second;
  const std::int64_t step = measured.steps++;
  if (step == 0 || step % measured.settings.every != 0) return;
  std::vector<CostObservation> mine;
  {
    const std::lock_guard lock(mutex_);
    mine.assign(measured.reported.begin(), measured.reported.end());
    measured.reported.clear();
  }
  std::vector<std::vector<CostObservation>> of_ranks;
  boost::mpi::all_gather(comm, mine, of_ranks);
  std::vector<CostObservation> all;
  for (const std::vector<CostObservation>& reported : of_ranks)
    all.insert(all.end(), reported.begin(), reported.end());
  if (!all.empty()) measured.model.learn(all);
}

const CostInUse& TimeReports::in_use(std::string_view profile) const {
  return profiles_.find(profile)->second.model.in_use();
}

}  // namespace evenkeel
