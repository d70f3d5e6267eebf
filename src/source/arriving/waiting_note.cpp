#include "source/arriving/waiting_note.hpp"

#include <iostream>
#include <utility>

namespace evenkeel {
namespace {

WaitingNotes& notes() {
  static WaitingNotes notes = [](const std::string& line) { std::cerr << "evenkeel: " + line + "\n"; };
  return notes;
}

}  // namespace

void send_waiting_notes_to(WaitingNotes to) {
  notes() = std::move(to);
}

void note_waiting(const std::string& line) {
  notes()(line);
}

}  // namespace evenkeel
