#include "watchdog/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

std::string describe_wait(WaitFor whom, const std::string& in) {
  if (whom == WaitFor::ranks || whom == WaitFor::end) return "other ranks in " + in;
  if (whom == WaitFor::trainer) return "its trainer";
  if (whom == WaitFor::producers) return "producers of samples";
  return in;
}

template <typename Is>
std::vector<int> filter_ranks(std::span<const RankState> ranks, Is&& is) {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (is(ranks[rank])) found.push_back(static_cast<int>(rank));
  }
  return found;
}

std::string format_numbers(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

// Formats the known hosts of the blamed ranks, such as " (host a)" or " (hosts a, b)".
std::string format_hosts(std::span<const int> blamed, std::span<const RankState> ranks) {
  std::vector<std::string> hosts;
  for (const int rank : blamed) {
    const std::string host = printable(ranks[static_cast<std::size_t>(rank)].host);
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  if (hosts.empty()) return "";
  if (hosts.size() > 8) hosts.resize(8), hosts.back() = "...";
  return fmt::format(" (host{} {})", hosts.size() == 1 ? "" : "s", fmt::join(hosts, ", "));
}

std::string describe_activity(const WatchedRank& rank) {
  std::string text;
  for (const WatchedThread& thread : rank.threads) {
    text += (text.empty() ? "" : "; ") + thread.phase;
    if (thread.step >= 0) text += " of step " + std::to_string(thread.step);
    if (!thread.waiting_for.empty()) text += ", waiting for " + thread.waiting_for;
  }
  return text;
}

// Describes the last known activity of the first blamed rank. The report's table lists the other ranks.
std::string last_activity_text(std::span<const int> blamed, std::span<const RankState> ranks) {
  const WatchedRank& first = ranks[static_cast<std::size_t>(blamed.front())];
  if (first.has_ended)
    return blamed.size() == 1 ? "its watchdog has ended" : "the watchdog of the first of them has ended";
  return (blamed.size() == 1 ? "its last activity: " : "last activity of the first rank: ") +
         describe_activity(first);
}

std::string no_progress_text(double seconds) {
  return fmt::format("no progress for {:.1f} seconds", seconds);
}

std::string end_text(double seconds) {
  return fmt::format(". Aborting the job, to end it within the time limit of the watchdog, {:g} s", seconds);
}

/// Returns the verdict for the case that no rank makes progress. If all waiting ranks are waiting for others
/// to end, a rank that has left the watchdog may still be working, so it is not blamed.
Verdict judge_stalled_job(std::span<const RankState> ranks, bool all_end) {
  std::vector<int> away =
      filter_ranks(ranks, [&](const RankState& rank) { return rank.has_ended ? !all_end : rank.is_busy; });
  if (!away.empty()) return {Verdict::Kind::absent, std::move(away)};
  // Ranks that are ending will never make the calls that the others are waiting for.
  if (!all_end) away = filter_ranks(ranks, [](const RankState& rank) { return rank.is_ending; });
  if (!away.empty()) return {Verdict::Kind::absent, std::move(away)};
  const bool all_watched = std::ranges::none_of(ranks, &RankState::has_ended);
  return {all_watched ? Verdict::Kind::crossed : Verdict::Kind::healthy, {}};
}

// Returns whether two ranks can share a line in the report.
bool can_share_line(const WatchedRank& a, const WatchedRank& b) {
  return a.host == b.host && a.threads == b.threads && a.was_heard == b.was_heard &&
         a.has_ended == b.has_ended && std::abs(a.silent_seconds - b.silent_seconds) < 1 &&
         std::abs(a.stalled_seconds - b.stalled_seconds) < 1;
}

}  // namespace

std::string format_heartbeat(std::uint64_t progress, const std::string& host,
                             const std::array<ThreadActivity, max_reported_threads>& threads) {
  std::string heartbeat = fmt::format("{}\n{}\n", progress, host);
  for (const ThreadActivity& thread : threads) {
    if (thread.phase == nullptr) continue;
    heartbeat += fmt::format("{} {}\n{}\n{}\n", static_cast<int>(thread.whom), thread.step, thread.phase,
                             thread.whom == WaitFor::nobody || thread.wait == nullptr ? "" : thread.wait);
  }
  return heartbeat;
}

void RankState::record_heartbeat(const std::string& heartbeat, double now) {
  std::istringstream in(heartbeat);
  std::uint64_t count = 0;
  std::getline((in >> count).ignore(), host);
  if (!was_heard || count != progress) moved_at = now;
  progress = count;
  heard_at = now;
  was_heard = true;
  waits = is_busy = is_ending = awaits_producers = false;
  threads.clear();
  int code = 0;
  for (WatchedThread thread; in >> code >> thread.step; threads.push_back(thread)) {
    const auto whom = static_cast<WaitFor>(code);
    waits |= whom == WaitFor::ranks || whom == WaitFor::end;
    is_busy |= whom == WaitFor::nobody;
    is_ending |= whom == WaitFor::end;
    awaits_producers |= whom == WaitFor::producers;
    std::getline(in.ignore(), thread.phase);
    std::getline(in, thread.waiting_for);
    thread.waiting_for = describe_wait(whom, thread.waiting_for);
  }
}

void RankState::update_times(double now) noexcept {
  silent_seconds = now - heard_at;
  stalled_seconds = now - moved_at;
}

Verdict judge(std::span<const RankState> ranks, double patience, Unheard unheard_ones) {
  const auto ranks_silent_for = [&](double seconds) {
    return filter_ranks(ranks, [&](const RankState& rank) {
      return rank.was_heard && !rank.has_ended && rank.silent_seconds > seconds;
    });
  };
  // Also blame ranks whose last heartbeat is slightly more recent, since the same fault may have affected
  // them.
  if (!ranks_silent_for(patience).empty()) return {Verdict::Kind::silent, ranks_silent_for(patience / 2)};
  bool any_waits = false;
  bool all_end = true;  // whether all waiting ranks are waiting for others to end
  for (const RankState& rank : ranks) {
    if (rank.has_ended) continue;
    if (!rank.was_heard && unheard_ones == Unheard::has_not_arrived) continue;
    if (!rank.was_heard || rank.stalled_seconds <= patience || rank.awaits_producers) return {};
    any_waits = any_waits || rank.waits;
    all_end = all_end && (!rank.waits || rank.is_ending);
  }
  if (!any_waits) return {};
  if (std::vector<int> missing = unheard_ranks(ranks); !missing.empty())
    return {Verdict::Kind::missing, std::move(missing)};
  return judge_stalled_job(ranks, all_end);
}

std::vector<int> unheard_ranks(std::span<const RankState> ranks) {
  return filter_ranks(ranks, [](const RankState& rank) { return !rank.was_heard && !rank.has_ended; });
}

std::string format_ranks(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_numbers(ranks);
}

std::string message_of(const Verdict& verdict, std::span<const RankState> ranks, double seconds) {
  EVENKEEL_PRECONDITION(cheap, verdict.kind != Verdict::Kind::healthy);
  double still = INFINITY;
  for (const RankState& rank : ranks) {
    if (rank.was_heard && !rank.has_ended) still = std::min(still, rank.stalled_seconds);
  }
  const std::string end = end_text(seconds);
  if (verdict.kind == Verdict::Kind::crossed)
    return no_progress_text(still) + ": all ranks wait for each other, probably in different calls" + end;
  const bool one = verdict.blamed.size() == 1;
  const std::string who = format_ranks(verdict.blamed) + format_hosts(verdict.blamed, ranks);
  const char* have = one ? "has" : "have";
  if (verdict.kind == Verdict::Kind::missing) {
    return fmt::format(
        "{} {} not joined the watchdogs of the other ranks, which have waited for {:.1f} seconds. {} process "
        "has crashed, is suspended or has not started its watchdog, or its machine or network link is down{}",
        who, have, still, one ? "Its" : "At least one", end);
  }
  const std::string seen = last_activity_text(verdict.blamed, ranks);
  if (verdict.kind == Verdict::Kind::absent)
    return no_progress_text(still) + " while others wait for " + who + "; " + seen + end;
  double silent = INFINITY;
  for (const int rank : verdict.blamed)
    silent = std::min(silent, ranks[static_cast<std::size_t>(rank)].silent_seconds);
  return fmt::format(
      "{} {} sent no heartbeat for {:.1f} seconds; {}. {} process has crashed or is suspended, or its "
      "machine "
      "or network link is down{}",
      who, have, silent, seen, one ? "Its" : "At least one", end);
}

std::string message_of_waiting(const WatchedRank& rank, double seconds) {
  return fmt::format(
      "rank {} (host {}) has made no progress for {:.1f} seconds. Last activity: {}. Another rank is not "
      "responding, but the watchdogs have not connected yet, so it cannot be identified; check that every "
      "rank is running{}",
      rank.rank, printable(rank.host), rank.stalled_seconds, describe_activity(rank), end_text(seconds));
}

std::string WatchdogReport::text() const {
  using Align = TextTable::Align;
  if (ranks.empty()) return message;
  std::vector<std::vector<int>> lines;  // groups of similar ranks, as indices in `ranks`
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // Compares only with the last few lines, since a job may have many ranks.
    const auto from = lines.end() - std::min<std::ptrdiff_t>(std::ssize(lines), 8);
    auto line = std::find_if(from, lines.end(), [&](const auto& alike) {
      return can_share_line(ranks[static_cast<std::size_t>(alike.front())], ranks[i]);
    });
    if (line == lines.end()) line = lines.insert(lines.end(), std::vector<int>());
    line->push_back(static_cast<int>(i));
  }
  TextTable table({{"rank"},
                   {"host"},
                   {"step", Align::right},
                   {"phase"},
                   {"waits for"},
                   {"heard s ago", Align::right},
                   {"moved s ago", Align::right}});
  for (std::vector<int>& line : lines) {
    const WatchedRank& like = ranks[static_cast<std::size_t>(line.front())];
    for (int& rank : line) rank = ranks[static_cast<std::size_t>(rank)].rank;
    const std::string heard = !like.was_heard ? "never" : fmt::format("{:.1f}", like.silent_seconds);
    std::vector<std::string> cells{format_numbers(line),
                                   printable(like.host),
                                   "",
                                   "",
                                   "",
                                   like.has_ended ? "ended" : heard,
                                   like.was_heard ? fmt::format("{:.1f}", like.stalled_seconds) : ""};
    for (const WatchedThread& thread : like.threads) {
      cells[2] = thread.step < 0 ? "" : std::to_string(thread.step);
      cells[3] = thread.phase;
      cells[4] = thread.waiting_for;
      table.add(std::exchange(cells, std::vector<std::string>(cells.size())));
    }
    if (like.threads.empty()) table.add(std::move(cells));
  }
  std::string text = message + "\n" + table.to_text();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace evenkeel
