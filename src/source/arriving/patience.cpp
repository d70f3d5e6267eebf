#include "source/arriving/patience.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <thread>
#include <utility>

#include "base/text_layout.hpp"

namespace evenkeel {
namespace {

WaitingNotes& notes_destination() {
  static WaitingNotes notes = [](const std::string& line) { std::cerr << "evenkeel: " + line + "\n"; };
  return notes;
}

constexpr std::chrono::seconds next_note{30};
// Time for which the buffer must be unreachable before a note is sent. It is longer than a quick restart of
// the buffer.
constexpr std::chrono::seconds first_note_without_buffer{1};
constexpr std::chrono::milliseconds shortest_pause{50};
constexpr std::chrono::milliseconds longest_pause{2000};

std::string describe_lack(const OutstandingTickets& tickets) {
  if (tickets.count == 0) return "";
  const bool is_one = tickets.count == 1;
  return fmt::format("{} {} open; {} was issued {:.0f} s ago{} and {}; ",
                     format_count(tickets.count, "ticket"), is_one ? "is" : "are",
                     is_one ? "it" : "the oldest", tickets.age,
                     tickets.holder.empty() ? "" : " to " + tickets.holder,
                     tickets.expires_in > 0 ? fmt::format("expires in {:.0f} s", tickets.expires_in)
                                            : std::string("is now overdue"));
}

std::string describe_lack(const std::map<std::string, std::int64_t>& missing_fields) {
  std::string words;
  for (const auto& [field, samples] : missing_fields)
    if (samples > 0)
      words += fmt::format("{} {} '{}'; ", format_count(samples, "sample"), samples == 1 ? "lacks" : "lack",
                           field);
  return words;
}

std::string describe_lack(const UnformedStep& lack) {
  const std::string last =
      lack.seconds_since_last_sample
          ? fmt::format("the last sample arrived {:.0f} s ago", *lack.seconds_since_last_sample)
          : "no samples have arrived since the buffer was started";
  const std::string needs =
      lack.needed > 0 ? "needs " + format_count(lack.needed, "group") : "needs more complete groups";
  return fmt::format("{}; {} {} complete and {} {} incomplete; {}{}{}", needs, lack.ready,
                     lack.ready == 1 ? "is" : "are", lack.open, lack.open == 1 ? "is" : "are",
                     describe_lack(lack.missing_fields), describe_lack(lack.tickets), last) +
         (lack.full.empty() ? "" : "; the buffer " + lack.full);
}

}  // namespace

void set_waiting_notes_destination(WaitingNotes to) {
  notes_destination() = std::move(to);
}

void send_waiting_note(const std::string& line) {
  notes_destination()(line);
}

void Patience::on_unformed(const UnformedStep& lack) {
  const double waited = std::chrono::duration<double>(Clock::now() - start_time_).count();
  const double idle = std::min(waited, lack.seconds_since_last_sample.value_or(waited));
  if (most_ && idle > *most_) {
    throw IoError("step " + std::to_string(lack.step),
                  fmt::format("has received no samples for {:.0f} s (stream.patience: {:g}). It {}", idle,
                              *most_, describe_lack(lack)),
                  "Check that the producers are running; GET /v1/status of " + where_ +
                      " shows how many samples were received");
  }
  send_note_if_due([&] {
    return fmt::format("waiting for samples for {:.0f} s: step {} {}", waited, lack.step,
                       describe_lack(lack));
  });
}

void Patience::on_unreachable(const Error& error) {
  if (!failing_since_) {
    failing_since_ = Clock::now();
    pause_ = shortest_pause;
    note_after_ = std::min(note_after_, Clock::now() - start_time_ + first_note_without_buffer);
  }
  const double lost = std::chrono::duration<double>(Clock::now() - *failing_since_).count();
  if (most_ && lost > *most_) throw;
  send_note_if_due([&] {
    return fmt::format("retrying, since the buffer has accepted no request for {:.0f} s: {}", lost,
                       error.what());
  });
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(2 * pause_, longest_pause);
}

void Patience::send_note_if_due(const std::function<std::string()>& words) {
  if (!sends_notes_ || Clock::now() - start_time_ < note_after_) return;
  send_waiting_note(words());
  note_after_ = Clock::now() - start_time_ + next_note;
}

}  // namespace evenkeel
