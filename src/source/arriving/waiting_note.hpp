#pragma once

#include <functional>
#include <string>

namespace evenkeel {

/// Takes a line that says what a stream waits for. From any thread.
using WaitingNotes = std::function<void(const std::string& line)>;

/// Where such lines go from now on in this process: to its log, for example. Before that they go to standard
/// error. Call it before the first stream is made.
void send_waiting_notes_to(WaitingNotes notes);

/// Sends a line there.
void note_waiting(const std::string& line);

}  // namespace evenkeel
