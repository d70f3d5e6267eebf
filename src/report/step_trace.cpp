#include "report/step_trace.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <type_traits>

#include "base/activity.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "report/gather_figures.hpp"
#include "service/step_record.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;

enum Track : std::uint8_t { making = 1, trainer = 2 };

Track track_of(const RankTrace& rank) noexcept {
  return rank.made_ahead != 0 ? making : trainer;
}

double microseconds(double seconds) {
  return std::round(seconds * 1e9) / 1e3;
}

json metadata_event(const char* name, std::size_t rank, int track, json args) {
  return {{"ph", "M"}, {"name", name}, {"pid", rank}, {"tid", track}, {"args", std::move(args)}};
}

json slice_event(std::string name, const char* category, std::size_t rank, Track track, double from,
                 double to, json args) {
  return {{"ph", "X"},
          {"name", std::move(name)},
          {"cat", category},
          {"pid", rank},
          {"tid", track},
          {"ts", microseconds(from)},
          {"dur", std::max(0.0, microseconds(to - from))},
          {"args", std::move(args)}};
}

/// Begin and end of a rank's exchange, in seconds of the common clock.
struct Exchange {
  double begin = 0, end = 0;

  explicit Exchange(const RankTrace& rank) {
    end = rank.made_at - rank.phases[5];
    begin = end - rank.phases[4];
  }
};

class Events {
 public:
  void add(const json& event) { text_ += event.dump(-1, ' ', false, json::error_handler_t::replace) + ",\n"; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

void add_phases(const RankTrace& trace, std::size_t rank, const json& step, Events& events) {
  double at = trace.made_at - std::accumulate(trace.phases.begin(), trace.phases.end(), 0.0);
  for (std::size_t p = 0; p < phase_names.size(); ++p) {
    const double end = at + trace.phases[p];
    json args = step;
    if (p == 4) {
      args["bytes_to_others"] = trace.sent_bytes;
      args["ranks_sent_to"] = trace.sent_to;
      args["flows_left_out"] =
          std::max<std::int64_t>(0, trace.sent_to - static_cast<std::int64_t>(RankTrace::max_sent));
    }
    if (trace.phases[p] > 0)
      events.add(slice_event(phase_names[p], "phase", rank, track_of(trace), at, end, std::move(args)));
    at = end;
  }
}

void add_trainer(const RankTrace& trace, std::size_t rank, const json& step, Events& events) {
  events.add(slice_event("wait", "trainer", rank, trainer, trace.asked_at, trace.handed_at, step));
  events.add(slice_event("use", "trainer", rank, trainer, trace.handed_at, trace.used_at, step));
}

void add_sent(const std::vector<std::int64_t>& bytes_to, int self, RankTrace& trace) {
  std::vector<RankTrace::Sent> sent;
  for (std::size_t rank = 0; rank < bytes_to.size(); ++rank) {
    if (bytes_to[rank] > 0 && static_cast<int>(rank) != self)
      sent.push_back({static_cast<std::int64_t>(rank), bytes_to[rank]});
  }
  for (const RankTrace::Sent& s : sent) trace.sent_bytes += s.bytes;
  trace.sent_to = std::ssize(sent);
  std::ranges::stable_sort(sent, std::greater(), &RankTrace::Sent::bytes);
  std::copy_n(sent.begin(), std::min(sent.size(), RankTrace::max_sent), trace.sent.begin());
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path, const Grid& grid) : file_(path) {
  Events events;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(grid.num_ranks()); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{static_cast<int>(rank)});
    const std::string name = "rank " + std::to_string(rank) + " (tp " + std::to_string(place.tp) + " cp " +
                             std::to_string(place.cp) + " dp " + std::to_string(place.dp) + " pp " +
                             std::to_string(place.pp) + ")";
    events.add(metadata_event("process_name", rank, making, {{"name", name}}));
    events.add(metadata_event("process_sort_index", rank, making, {{"sort_index", rank}}));
    events.add(metadata_event("thread_name", rank, making, {{"name", "steps made ahead"}}));
    events.add(metadata_event("thread_name", rank, trainer, {{"name", "trainer"}}));
  }
  file_.append("[\n" + events.text());
}

void TraceFile::add(std::int64_t step, const std::string& profile, std::span<const RankTrace> ranks) {
  json told = {{"step", step}};
  if (!profile.empty()) told["profile"] = profile;
  Events events;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    add_trainer(ranks[rank], rank, told, events);
    add_phases(ranks[rank], rank, told, events);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Exchange from(ranks[rank]);
    for (const RankTrace::Sent& sent : ranks[rank].sent) {
      if (sent.rank < 0 || sent.bytes == 0) continue;
      const auto other = static_cast<std::size_t>(sent.rank);
      const Exchange to(ranks[other]);
      const double begin = from.begin + (from.end - from.begin) / 4;
      const double end = std::max(begin, to.end - (to.end - to.begin) / 4);
      json args = told;
      args["bytes"] = sent.bytes;
      json event = {{"ph", "s"},
                    {"name", "bytes"},
                    {"cat", "message"},
                    {"id", ++flows_},
                    {"pid", rank},
                    {"tid", track_of(ranks[rank])},
                    {"ts", microseconds(begin)},
                    {"args", args}};
      events.add(event);
      event["ph"] = "f";
      event["bp"] = "e";
      event["pid"] = other;
      event["tid"] = track_of(ranks[other]);
      event["ts"] = microseconds(end);
      events.add(event);
    }
  }
  file_.append(events.text());
}

void TraceFile::close() {
  // Appends a final event without a trailing comma: every earlier event is followed by a comma, but JSON does
  // not allow one before the closing bracket.
  file_.append(
      json{{"ph", "M"}, {"name", "trace_is_complete"}, {"pid", 0}, {"tid", 0}, {"args", json::object()}}
          .dump() +
      "\n]\n");
  file_.close();
}

std::vector<RankTrace> gather_trace(const boost::mpi::communicator& world, const CommonClock& clock,
                                    const TrainerTimes& trainer, const Step& step) {
  static_assert(std::is_trivially_copyable_v<RankTrace>);
  RankTrace mine;
  std::vector<RankTrace> all;
  run_together(world, [&] {
    mine.made_at = clock.seconds_at(step.record->made_at);
    mine.phases = times_of(step.seconds);
    mine.made_ahead = trainer.made_ahead ? 1 : 0;
    mine.asked_at = clock.seconds_at(trainer.asked);
    mine.handed_at = clock.seconds_at(trainer.handed);
    mine.used_at = clock.now();
    add_sent(step.record->bytes_to, world.rank(), mine);
    if (world.rank() == 0) all.resize(static_cast<std::size_t>(world.size()));
  });
  const Waiting waiting("MPI_Gather");
  check_mpi(MPI_Gather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, 0, world),
            "MPI_Gather");
  return all;
}

namespace {

constexpr int tag = 7311;
constexpr int rounds = 8;

double local_time() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void answer_clock_requests(const boost::mpi::communicator& world, int rank) {
  const Waiting waiting("MPI_Recv");
  for (int round = 0; round < rounds; ++round) {
    double asked = 0;
    check_mpi(MPI_Recv(&asked, 1, MPI_DOUBLE, rank, tag, world, MPI_STATUS_IGNORE), "MPI_Recv");
    const double now = local_time();
    check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, rank, tag, world), "MPI_Send");
  }
}

/// Returns how many seconds this rank's clock is ahead of rank 0's. Assumes that rank 0 answered in the
/// middle of the shortest round trip.
double measure_clock_offset(const boost::mpi::communicator& world) {
  const Waiting waiting("MPI_Recv");
  double shortest = std::numeric_limits<double>::infinity();
  double ahead = 0;
  for (int round = 0; round < rounds; ++round) {
    const double before = local_time();
    double told = 0;
    check_mpi(MPI_Send(&before, 1, MPI_DOUBLE, 0, tag, world), "MPI_Send");
    check_mpi(MPI_Recv(&told, 1, MPI_DOUBLE, 0, tag, world, MPI_STATUS_IGNORE), "MPI_Recv");
    const double after = local_time();
    if (after - before >= shortest) continue;
    shortest = after - before;
    ahead = (before + after) / 2 - told;
  }
  return ahead;
}

}  // namespace

CommonClock::CommonClock(const boost::mpi::communicator& world) {
  const Phase phase("compare clocks");
  double ahead = 0;
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) answer_clock_requests(world, rank);
  } else {
    ahead = measure_clock_offset(world);
  }
  double start = local_time();
  const Waiting waiting("MPI_Bcast");
  check_mpi(MPI_Bcast(&start, 1, MPI_DOUBLE, 0, world), "MPI_Bcast");
  start_ = start + ahead;
}

}  // namespace evenkeel
