#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stream/ledger.hpp"

namespace evenkeel {

/// Hint of errors about a store that has no room for new content.
inline constexpr const char* no_room_hint =
    "Free content, or raise the capacity (--capacity, or stream.capacity)";
/// Hint of errors about a sample that a store does not have.
inline constexpr const char* no_sample_hint = "Request only samples that the buffer still has";
/// Kind of a record in a store. The values are part of checksums.
enum class RecordKind : std::uint8_t { body = 1, event = 2, note = 3, seen = 4 };

/// Returns the record number of a part of a value. Part 0 has the value's own number.
[[nodiscard]] constexpr std::int64_t record_number_of_part(std::int64_t number, std::int64_t part) noexcept {
  return number | part << 48;
}

/// Size in bytes of a record's checksum, which is stored before the content.
inline constexpr std::size_t record_overhead = 4;

/// Returns a checksum of the record's kind, number, and content. Covering the kind and number also catches
/// records stored in the wrong place. The hash runs at memory speed and depends on byte order.
[[nodiscard]] std::string record_header(RecordKind kind, std::int64_t number, std::string_view content);

/// Returns a record's content. Throws InputError about `where` if the record is too short or its checksum is
/// wrong.
[[nodiscard]] std::string_view record_content(RecordKind kind, std::int64_t number, std::string_view record,
                                              const std::string& where);

/// Changes made by one transaction. The bodies must live until commit() returns.
struct StoreChange {
  struct Record {
    std::int64_t number = 0;
    std::string_view bytes;
    /// Keeps `bytes` valid and unchanged. If it is set, a store in memory shares the bytes instead of copying
    /// them.
    std::shared_ptr<const void> keeper{};
  };
  std::vector<Record> bodies;  ///< new bodies, ascending, with higher numbers than all earlier ones
  std::vector<std::pair<std::int64_t, std::string>> events;  ///< new events, in the same order
  std::vector<std::int64_t> erased;                          ///< numbers of erased events and bodies
  std::vector<stream::SeenSlot> seen;                        ///< slots to set
  std::map<std::string, std::string> notes;                  ///< notes to set, by name

  /// Removes bodies and events that the change both adds and erases. Sorts `erased`.
  void drop_erased_additions();
};

/// A body in this process's memory, which remains readable while this object lives, even if it is erased.
struct SharedBody {
  std::string_view bytes;
  std::shared_ptr<const void> keeper;
};

/// Durable storage of a buffer: events and bodies of samples by number, seen keys, and a few notes. One
/// thread commits; other threads may read at the same time.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// Commits a transaction atomically: readers see all of it or nothing. It is durable once settled, subject
  /// to data_loss_risk(). Throws LimitError if there is no room for new bodies, and IoError.
  virtual void commit(const StoreChange& change) = 0;
  /// Returns whether the latest commit is durable. If not, the next commit or settle() makes it durable, so a
  /// caller with more to commit saves a flush. Earlier commits are durable when commit() returns.
  [[nodiscard]] virtual bool is_settled() const noexcept { return true; }
  /// Makes the latest commit durable. Throws IoError.
  virtual void settle() {}

  /// Discards cached state, so that the content is read again: another process may have changed it, or a
  /// failed commit may have left it unknown. Called by the committing thread. Throws IoError.
  virtual void refresh() {}

  /// Passes a stored body to `take` without copying it if possible. Throws InputError if it is missing or
  /// damaged, IoError, and what `take` throws. `take` should be quick, since the store cannot reuse freed
  /// memory while it runs.
  virtual void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const = 0;
  /// Returns a body without copying it; nullopt if the store's bodies are not in this process's memory.
  /// Throws InputError if it is missing.
  [[nodiscard]] virtual std::optional<SharedBody> share_body(std::int64_t /*number*/) const {
    return std::nullopt;
  }
  /// Passes all events to `take`, in ascending order. Throws the errors of read_body().
  virtual void read_events(const std::function<void(std::int64_t number, std::string_view)>& take) const = 0;
  [[nodiscard]] virtual std::vector<stream::SeenSlot> seen_slots() const = 0;
  /// Returns the note with this name, or nullopt if there is none. Throws the errors of read_body().
  [[nodiscard]] virtual std::optional<std::string> note(const std::string& name) const = 0;

  /// Returns the used part of the capacity. A body of n bytes takes cost_of(n), and an event
  /// cost_of_event(n). When an event is erased, the part of its cost that was reserved for seen keys remains.
  [[nodiscard]] virtual std::int64_t used() const = 0;
  [[nodiscard]] virtual std::int64_t capacity() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t cost_of(std::int64_t bytes) const noexcept = 0;
  /// Returns the maximum capacity, in bytes, that a sample uses for an event of this size and for its seen
  /// keys.
  [[nodiscard]] virtual std::int64_t cost_of_event(std::int64_t bytes) const noexcept = 0;
  /// Returns the maximum size of a body in bytes.
  [[nodiscard]] virtual std::int64_t max_body_bytes() const noexcept {
    return std::numeric_limits<std::int64_t>::max();
  }
  /// Returns which committed data may be lost, and when; empty if no data can be lost, no matter how this
  /// process ends.
  [[nodiscard]] virtual std::string data_loss_risk() const = 0;
  /// Returns the name of the store for logs and errors.
  [[nodiscard]] virtual std::string name() const = 0;
};

/// Kind of content that the records of a store represent.
enum class StoreContent : std::uint8_t {
  stream,  ///< samples of a stream, kept by a Buffer
  values,  ///< kept by a ValueStore
};
/// Prepares a store for this content. Throws InputError if the store has the other kind of content.
void begin_content(Store& store, StoreContent content);

/// Makes a store in this process's memory, which is lost when the process ends.
[[nodiscard]] std::unique_ptr<Store> make_memory_store(std::int64_t capacity);

/// Opens an LMDB store in its own folder, which is created if it does not exist. Uses memory for the data
/// written by one commit, and for the system's page cache, which can be reclaimed. The folder takes at most
/// the capacity plus 5 %.
///
/// Throws ConfigError for a capacity below 16 MiB. Throws IoError if the folder cannot be created or written,
/// if another process has it open, if it contains other files, if its format has a different version, or if
/// its file was truncated or is damaged.
[[nodiscard]] std::unique_ptr<Store> open_lmdb_store(const std::filesystem::path& folder,
                                                     std::int64_t capacity);

/// Opens a store for reading. Nothing is written, so the folder may be read-only; commits are refused. Throws
/// IoError for the same reasons as open_lmdb_store() and if there is no store, and InputError if the store
/// was never used.
[[nodiscard]] std::unique_ptr<Store> open_lmdb_store_read_only(const std::filesystem::path& folder);

inline constexpr std::int64_t least_lmdb_capacity = std::int64_t{16} << 20;

}  // namespace evenkeel
