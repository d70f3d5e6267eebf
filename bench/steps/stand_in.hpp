#pragma once

#include <chrono>
#include <thread>

namespace evenkeel::bench {

using Seconds = std::chrono::duration<double>;

/// How long a trainer computes, relative to the time of its step's data work.
inline constexpr double compute_of_data_work = 1.2;

/// Number of steps before those that count: the trainer waits for the whole first step, whose memory is new.
inline constexpr int warm_up = 2;

/// Stands in for a trainer's compute.
struct StandIn {
  const char* name;
  void (*run)(Seconds);
};

inline void compute_on_this_core(Seconds seconds) {
  const auto end = std::chrono::steady_clock::now() + seconds;
  while (std::chrono::steady_clock::now() < end) {
  }
}

inline constexpr StandIn stand_ins[] = {
    {"on a device", [](Seconds seconds) { std::this_thread::sleep_for(seconds); }},
    {"on this core", compute_on_this_core}};

}  // namespace evenkeel::bench
