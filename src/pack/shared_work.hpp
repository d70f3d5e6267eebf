#pragma once

#include <cstdint>
#include <functional>

#include "pack/packed_walk.hpp"

namespace evenkeel {

/// Calls work(sequences) for consecutive parts of a layout's sequences, of about equal rows, on as many
/// threads, this one among them; the sequences of all parts are those of the layout. `bytes` is what all
/// parts copy: a thread is worth its start from a MiB on. Returns when all are done; throws what any of them
/// threw, InputError for less than one thread, std::system_error when no thread can be had.
void share_sequences(const PackedLayout& layout, std::int64_t threads, std::size_t bytes,
                     const std::function<void(SequenceRange)>& work);

}  // namespace evenkeel
