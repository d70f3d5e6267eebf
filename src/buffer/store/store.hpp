#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stream/ledger.hpp"

namespace evenkeel {

/// What a record of a store is. The values are in its checksum.
enum class RecordKind : std::uint8_t { body = 1, event = 2, note = 3, seen = 4 };

/// The number of a record that has one of several parts of a value: the same number for the first part.
[[nodiscard]] constexpr std::int64_t number_of_part(std::int64_t number, std::int64_t part) noexcept {
  return number | part << 48;
}

/// The bytes of a record's checksum, which is stored in front of what it holds.
inline constexpr std::size_t record_overhead = 4;

/// The checksum of a record over its kind, its number and what it holds, so that a record in the place of
/// another one is found, too. A hash that is as fast as memory; for machines of one byte order.
[[nodiscard]] std::string record_header(RecordKind kind, std::int64_t number, std::string_view content);

/// What a record holds. Throws InputError about `where` if the record is too short or its checksum is wrong.
[[nodiscard]] std::string_view record_content(RecordKind kind, std::int64_t number, std::string_view record,
                                              const std::string& where);

/// What one transaction changes in a store. Bodies are looked at until commit() returns.
struct StoreChange {
  struct Record {
    std::int64_t number = 0;
    std::string_view bytes;
  };
  std::vector<Record> bodies;  ///< new ones, ascending, above all that ever were
  std::vector<std::pair<std::int64_t, std::string>> events;  ///< likewise
  std::vector<std::int64_t> erased;                          ///< events, and the bodies of the same numbers
  std::vector<stream::SeenSlot> seen;                        ///< set, by slot
  std::map<std::string, std::string> notes;                  ///< set, by name
};

/// Where a buffer keeps what it must not lose: events and bodies of samples by number, the keys that it has
/// seen, and a few notes. One thread commits; others may read at the same time.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// All of it or nothing, for all who read. Once it is settled, it is durable, but for risk(). Throws
  /// LimitError if there is no room, and IoError.
  virtual void commit(const StoreChange& change) = 0;
  /// Whether the latest commit needs one more, or settle(), to be durable. What was before it is durable when
  /// commit() returns: who has more to commit spares the disk a flush.
  [[nodiscard]] virtual bool is_settled() const noexcept { return true; }
  /// Makes the latest commit durable. Throws IoError.
  virtual void settle() {}

  /// What it has may have changed otherwise, or may not be known after a commit has failed: from here on it
  /// is read anew. Called by who commits. Throws IoError.
  virtual void refresh() {}

  /// Hands a body to `take`, where it is stored. Throws InputError if it is not there or damaged, IoError,
  /// and what `take` throws. A store keeps freed memory as long as `take` runs, so that it should be quick.
  virtual void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const = 0;
  /// Hands all events to `take`, in ascending order. Throws likewise.
  virtual void read_events(const std::function<void(std::int64_t number, std::string_view)>& take) const = 0;
  [[nodiscard]] virtual std::vector<stream::SeenSlot> seen() const = 0;
  /// None if there is no such note. Throws likewise.
  [[nodiscard]] virtual std::optional<std::string> note(const std::string& name) const = 0;

  /// What is used of the capacity: a body takes cost_of() its bytes, an event cost_of_event(), and what was
  /// seen a part of the latter that stays when the event is erased.
  [[nodiscard]] virtual std::int64_t used() const = 0;
  [[nodiscard]] virtual std::int64_t capacity() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t cost_of(std::int64_t bytes) const noexcept = 0;
  /// Most bytes of the capacity that a sample's event of this size and its key among the seen ones take.
  [[nodiscard]] virtual std::int64_t cost_of_event(std::int64_t bytes) const noexcept = 0;
  /// What may be lost of that which was committed, and when. Empty: nothing, however this process ends.
  [[nodiscard]] virtual std::string risk() const = 0;
  /// What logs and errors call it.
  [[nodiscard]] virtual std::string name() const = 0;
};

/// In this process's memory: gone with it.
[[nodiscard]] std::unique_ptr<Store> make_memory_store(std::int64_t capacity);

/// In LMDB, in a folder of its own, which is made if it is not there. Memory: the system's page cache, which
/// it may take back, and what one commit writes. The folder takes at most capacity + 5 %.
///
/// Throws ConfigError for a capacity below 16 MiB. Throws IoError if the folder cannot be made or written, if
/// another process has it open, if there is something else in it, if its format is of a later version, or if
/// its file has been cut off or is damaged.
[[nodiscard]] std::unique_ptr<Store> open_lmdb_store(const std::filesystem::path& folder,
                                                     std::int64_t capacity);

/// Opens the folder for reading: commits are refused, and nothing is written. The folder may be
/// read-only. Throws IoError likewise, and InputError if no buffer has used it.
[[nodiscard]] std::unique_ptr<Store> open_lmdb_store_to_read(const std::filesystem::path& folder);

inline constexpr std::int64_t least_lmdb_capacity = std::int64_t{16} << 20;

}  // namespace evenkeel
