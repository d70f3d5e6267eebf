#include "watchdog/rank_table.hpp"

#include <algorithm>
#include <cstring>

namespace evenkeel {
namespace {

// Cut off where it is too long.
template <std::size_t size>
std::array<char, size> copied(const char* text) noexcept {
  std::array<char, size> copy{};
  if (text != nullptr) std::memcpy(copy.data(), text, strnlen(text, size - 1));
  return copy;
}

// What came over a network need not end.
template <std::size_t size>
std::string text_of(const std::array<char, size>& text) {
  return {text.data(), strnlen(text.data(), size)};
}

WaitFor whom(const ThreadSign& thread) noexcept {
  return static_cast<WaitFor>(thread.whom);
}

std::string waits_of(const ThreadSign& thread) {
  const std::string in = text_of(thread.wait);
  switch (whom(thread)) {
    case WaitFor::ranks:
    case WaitFor::end:
      return "other ranks in " + in;
    case WaitFor::thread:
      return in;
    case WaitFor::trainer:
      return "its trainer";
    case WaitFor::producers:
      return "producers of samples";
    case WaitFor::nobody:
      break;
  }
  return {};
}

}  // namespace

SignOfLife sign_of(std::uint64_t progress,
                   const std::array<ThreadActivity, most_told_threads>& threads) noexcept {
  SignOfLife sign;
  sign.progress = progress;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    ThreadSign& thread = sign.threads[i];
    thread.phase = copied<std::tuple_size_v<decltype(thread.phase)>>(threads[i].phase);
    thread.wait = copied<std::tuple_size_v<decltype(thread.wait)>>(threads[i].wait);
    thread.step = threads[i].step;
    thread.whom = static_cast<std::int64_t>(threads[i].whom);
  }
  return sign;
}

void RankTable::hears(int rank, const SignOfLife& sign, double now) {
  Seen& seen = seen_[static_cast<std::size_t>(rank)];
  if (!seen.is_heard || sign.progress != seen.last.progress) seen.moved_at = now;
  seen.last = sign;
  seen.heard_at = now;
  seen.is_heard = true;
}

std::vector<RankSigns> RankTable::signs(double now) const {
  std::vector<RankSigns> all;
  all.reserve(seen_.size());
  for (const Seen& seen : seen_) {
    RankSigns signs{seen.is_heard, seen.has_ended, now - seen.heard_at, now - seen.moved_at};
    for (const ThreadSign& thread : seen.last.threads) {
      if (thread.phase.front() == '\0') continue;
      signs.waits = signs.waits || whom(thread) == WaitFor::ranks || whom(thread) == WaitFor::end;
      signs.is_ending = signs.is_ending || whom(thread) == WaitFor::end;
      signs.stays_away = signs.stays_away || whom(thread) == WaitFor::nobody;
      signs.awaits_producers = signs.awaits_producers || whom(thread) == WaitFor::producers;
    }
    all.push_back(signs);
  }
  return all;
}

std::vector<WatchedRank> RankTable::ranks(double now) const {
  std::vector<WatchedRank> all;
  all.reserve(seen_.size());
  for (std::size_t rank = 0; rank < seen_.size(); ++rank) {
    const Seen& seen = seen_[rank];
    WatchedRank& told = all.emplace_back();
    told.rank = static_cast<int>(rank);
    told.host = hosts_[rank];
    told.is_heard = seen.is_heard;
    told.has_ended = seen.has_ended;
    told.silent = now - seen.heard_at;
    told.still = now - seen.moved_at;
    for (const ThreadSign& thread : seen.last.threads) {
      if (thread.phase.front() == '\0') continue;
      told.threads.push_back({text_of(thread.phase), thread.step, waits_of(thread)});
    }
  }
  return all;
}

}  // namespace evenkeel
