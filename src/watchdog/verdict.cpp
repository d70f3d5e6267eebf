#include "watchdog/verdict.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/printable.hpp"
#include "base/text_layout.hpp"
#include "base/text_table.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

template <typename Is>
std::vector<int> ranks_that(std::span<const RankSigns> ranks, Is&& is) {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (is(ranks[rank])) found.push_back(static_cast<int>(rank));
  }
  return found;
}

std::string tenths(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", seconds);
  return text.data();
}

// "60", "2.5".
std::string number(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", seconds);
  return text.data();
}

std::string numbers(std::span<const int> ranks) {
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

// " (host a)", " (hosts a, b)", as far as they are known.
std::string hosts_of(std::span<const int> blamed, std::span<const WatchedRank> ranks) {
  constexpr std::size_t most = 8;
  std::vector<std::string> hosts;
  for (const int rank : blamed) {
    const std::string& host = ranks[static_cast<std::size_t>(rank)].host;
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  if (hosts.empty()) return "";
  std::string text = hosts.size() == 1 ? " (host " : " (hosts ";
  for (std::size_t i = 0; i < std::min(hosts.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + printable(hosts[i]);
  return text + (hosts.size() > most ? ", ...)" : ")");
}

std::string doing(const WatchedThread& thread) {
  std::string text = thread.phase;
  if (thread.step >= 0) text += " of step " + std::to_string(thread.step);
  return thread.waits.empty() ? text : text + ", waiting for " + thread.waits;
}

// What the first of them was last seen to do; the table has the others.
std::string last_seen(std::span<const int> blamed, std::span<const WatchedRank> ranks) {
  const WatchedRank& first = ranks[static_cast<std::size_t>(blamed.front())];
  if (first.has_ended) return "has ended";
  std::string text;
  for (const WatchedThread& thread : first.threads) text += (text.empty() ? "" : "; ") + doing(thread);
  return (blamed.size() == 1 ? "last seen in " : "the first last seen in ") + text;
}

double least_still(std::span<const WatchedRank> ranks) {
  double least = INFINITY;
  for (const WatchedRank& rank : ranks) {
    if (rank.is_heard && !rank.has_ended) least = std::min(least, rank.still);
  }
  return least;
}

/// What ranks have in common that stand in one line of the table.
struct Line {
  std::vector<int> ranks;
  const WatchedRank* like = nullptr;

  [[nodiscard]] bool takes(const WatchedRank& rank) const {
    return like->host == rank.host && like->threads == rank.threads && like->is_heard == rank.is_heard &&
           like->has_ended == rank.has_ended && std::abs(like->silent - rank.silent) < 1 &&
           std::abs(like->still - rank.still) < 1;
  }
};

std::vector<Line> lines_of(std::span<const WatchedRank> ranks) {
  std::vector<Line> lines;
  for (const WatchedRank& rank : ranks) {
    // Of a job with many ranks only neighbours are compared with.
    const auto from = lines.end() - std::min<std::ptrdiff_t>(std::ssize(lines), 8);
    auto found = std::find_if(from, lines.end(), [&](const Line& line) { return line.takes(rank); });
    if (found == lines.end()) found = lines.insert(lines.end(), Line{{}, &rank});
    found->ranks.push_back(rank.rank);
  }
  return lines;
}

std::string end_of(double seconds) {
  return ". The job ends (watchdog.seconds: " + number(seconds) + ")";
}

std::string state_of(const WatchedRank& rank) {
  if (rank.has_ended) return "ended";
  return rank.is_heard ? tenths(rank.silent) : "never";
}

/// Where nothing moves. Those that wait may all do so to end: then who is not watched any more may be at
/// work.
Verdict who_does_not_come(std::span<const RankSigns> ranks, bool all_end) {
  std::vector<int> away =
      ranks_that(ranks, [&](const RankSigns& rank) { return rank.has_ended ? !all_end : rank.stays_away; });
  if (!away.empty()) return {Verdict::Kind::absent, std::move(away)};
  // In calls that those who are about to end will never make.
  if (!all_end) away = ranks_that(ranks, [](const RankSigns& rank) { return rank.is_ending; });
  if (!away.empty()) return {Verdict::Kind::absent, std::move(away)};
  const bool all_watched = std::ranges::none_of(ranks, &RankSigns::has_ended);
  return {all_watched ? Verdict::Kind::crossed : Verdict::Kind::healthy, {}};
}

}  // namespace

Verdict judge(std::span<const RankSigns> ranks, double patience, Unheard unheard_ones) {
  const auto watched = [](const RankSigns& rank) { return rank.is_heard && !rank.has_ended; };
  const auto silent_for = [&](double seconds) {
    return ranks_that(ranks, [&](const RankSigns& rank) { return watched(rank) && rank.silent > seconds; });
  };
  // What befell one may have befallen others, of which the last was heard a little later.
  if (!silent_for(patience).empty()) return {Verdict::Kind::silent, silent_for(patience / 2)};
  bool any_waits = false;
  bool all_end = true;  // those that wait
  for (const RankSigns& rank : ranks) {
    if (rank.has_ended) continue;
    if (!rank.is_heard && unheard_ones == Unheard::has_not_come) continue;
    if (!rank.is_heard || rank.still <= patience || rank.awaits_producers) return {};
    any_waits = any_waits || rank.waits;
    all_end = all_end && (!rank.waits || rank.is_ending);
  }
  if (!any_waits) return {};
  if (std::vector<int> missing = unheard(ranks); !missing.empty())
    return {Verdict::Kind::missing, std::move(missing)};
  return who_does_not_come(ranks, all_end);
}

std::vector<int> unheard(std::span<const RankSigns> ranks) {
  return ranks_that(ranks, [](const RankSigns& rank) { return !rank.is_heard && !rank.has_ended; });
}

std::string named(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + numbers(ranks);
}

std::string message_of(const Verdict& verdict, std::span<const WatchedRank> ranks, double seconds) {
  EVENKEEL_PRECONDITION(cheap, verdict.kind != Verdict::Kind::healthy);
  const std::string end = end_of(seconds);
  if (verdict.kind == Verdict::Kind::crossed) {
    return "no progress for " + tenths(least_still(ranks)) +
           " seconds: all ranks wait for each other, and not all in the same call" + end;
  }
  const std::string who = named(verdict.blamed) + hosts_of(verdict.blamed, ranks);
  const bool one = verdict.blamed.size() == 1;
  if (verdict.kind == Verdict::Kind::missing) {
    return who + (one ? " has" : " have") +
           " not come where the watchdogs meet, and others have waited for " + tenths(least_still(ranks)) +
           " seconds: " + (one ? "it is" : "at least one of them is") +
           " stopped, or its machine or its link is down" + end;
  }
  const std::string seen = last_seen(verdict.blamed, ranks);
  if (verdict.kind == Verdict::Kind::silent) {
    double silent = INFINITY;
    for (const int rank : verdict.blamed)
      silent = std::min(silent, ranks[static_cast<std::size_t>(rank)].silent);
    return who + (one ? " has" : " have") + " sent no heartbeat for " + tenths(silent) + " seconds, " + seen +
           ": stopped, or the machine or its link is down" + end;
  }
  return "no progress for " + tenths(least_still(ranks)) + " seconds while others wait for " + who + ", " +
         seen + end;
}

std::string message_of_silence(int rank, std::span<const int> judges, double seconds) {
  const std::string text = "rank " + std::to_string(rank) + " hears ";
  if (judges.size() == 1) {
    return text + named(judges) +
           " no more, where the watchdogs meet: it is stopped, or its machine or this one's link is down" +
           end_of(seconds);
  }
  return text + "neither rank " + std::to_string(judges.front()) + " nor rank " +
         std::to_string(judges.back()) +
         " any more: they are stopped, or their machines or this one's link are down" + end_of(seconds);
}

std::string message_of_waiting(const WatchedRank& rank, double seconds) {
  const std::array<int, 1> alone{0};
  std::string text = "no progress for " + tenths(rank.still) + " seconds on rank " +
                     std::to_string(rank.rank) + hosts_of(alone, std::span(&rank, 1));
  for (const WatchedThread& thread : rank.threads)
    text += (&thread == &rank.threads.front() ? ", in " : "; ") + doing(thread);
  return text + ": one of them does not come; which one is unknown until the watchdogs have met" +
         end_of(seconds);
}

std::string WatchdogReport::text() const {
  using Align = TextTable::Align;
  if (ranks.empty()) return message;
  TextTable table({{"rank"},
                   {"host"},
                   {"step", Align::right},
                   {"phase"},
                   {"waits for"},
                   {"heard s ago", Align::right},
                   {"moved s ago", Align::right}});
  for (const Line& line : lines_of(ranks)) {
    const WatchedRank& like = *line.like;
    std::vector<std::string> first{numbers(line.ranks),
                                   printable(like.host),
                                   "",
                                   "",
                                   "",
                                   state_of(like),
                                   like.is_heard ? tenths(like.still) : ""};
    for (const WatchedThread& thread : like.threads) {
      first[2] = thread.step < 0 ? "" : std::to_string(thread.step);
      first[3] = thread.phase;
      first[4] = thread.waits;
      table.add(std::exchange(first, std::vector<std::string>(first.size())));
    }
    if (like.threads.empty()) table.add(std::move(first));
  }
  std::string text = message + "\n" + table.to_text();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace evenkeel
