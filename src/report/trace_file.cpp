#include "report/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

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

json meta(const char* name, std::size_t rank, int track, json args) {
  return {{"ph", "M"}, {"name", name}, {"pid", rank}, {"tid", track}, {"args", std::move(args)}};
}

json slice(std::string name, const char* category, std::size_t rank, Track track, double from, double to,
           json args) {
  return {{"ph", "X"},
          {"name", std::move(name)},
          {"cat", category},
          {"pid", rank},
          {"tid", track},
          {"ts", microseconds(from)},
          {"dur", std::max(0.0, microseconds(to - from))},
          {"args", std::move(args)}};
}

/// When a rank's exchange began and ended.
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
          std::max<std::int64_t>(0, trace.sent_to - static_cast<std::int64_t>(RankTrace::most_sent));
    }
    if (trace.phases[p] > 0)
      events.add(slice(phase_names[p], "phase", rank, track_of(trace), at, end, std::move(args)));
    at = end;
  }
}

void add_trainer(const RankTrace& trace, std::size_t rank, const json& step, Events& events) {
  events.add(slice("wait", "trainer", rank, trainer, trace.asked_at, trace.handed_at, step));
  events.add(slice("use", "trainer", rank, trainer, trace.handed_at, trace.used_at, step));
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path, const Grid& grid) : file_(path) {
  Events events;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(grid.num_ranks()); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{static_cast<int>(rank)});
    const std::string name = "rank " + std::to_string(rank) + " (tp " + std::to_string(place.tp) + " cp " +
                             std::to_string(place.cp) + " dp " + std::to_string(place.dp) + " pp " +
                             std::to_string(place.pp) + ")";
    events.add(meta("process_name", rank, making, {{"name", name}}));
    events.add(meta("process_sort_index", rank, making, {{"sort_index", rank}}));
    events.add(meta("thread_name", rank, making, {{"name", "steps made ahead"}}));
    events.add(meta("thread_name", rank, trainer, {{"name", "trainer"}}));
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
  // Every event before ends in a comma, after which JSON needs one more.
  file_.append(
      json{{"ph", "M"}, {"name", "trace_is_complete"}, {"pid", 0}, {"tid", 0}, {"args", json::object()}}
          .dump() +
      "\n]\n");
  file_.close();
}

}  // namespace evenkeel
