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

#include "evenkeel/base/error.hpp"
#include "stream/ledger.hpp"

namespace evenkeel {

/// Thrown if data does not fit now but may fit later. A buffer frees space when samples are trained and when
/// incomplete groups are closed or aborted; a store of values frees space when values are cleared. HTTP
/// status 429.
class FullError : public LimitError {
 public:
  using LimitError::LimitError;
};

/// Hint of errors about a store that has no room for new content.
inline constexpr const char* no_room_hint =
    "Free content, or raise the capacity (--capacity, or stream.capacity)";
/// Hint of errors about a sample that a store does not have.
inline constexpr const char* no_sample_hint = "Request only samples that the buffer still has";
/// Kind of a record in a store. Checksums cover these numbers, so the numbers must not change.
enum class RecordKind : std::uint8_t { body = 1, event = 2, note = 3, seen = 4 };

/// Returns the record number of a part of a body that is stored in parts. Part 0 has the body's own number.
[[nodiscard]] constexpr std::int64_t record_number_of_part(std::int64_t number, std::int64_t part) noexcept {
  return number | part << 48;
}

/// Return the record numbers of the slot of a group's seen keys, and of a note. They are hashes, so they need
/// not be unique.
[[nodiscard]] std::int64_t record_number_of_slot(const stream::GroupKey& slot) noexcept;
[[nodiscard]] std::int64_t record_number_of_note(std::string_view name) noexcept;

/// Size in bytes of a record's checksum, which is stored before the content.
inline constexpr std::size_t record_overhead = 4;

/// Returns a checksum of the record's kind, number, and content. Since it covers the kind and number, it also
/// detects records that are stored in the wrong place. It depends on the machine's byte order.
[[nodiscard]] std::string record_header(RecordKind kind, std::int64_t number, std::string_view content);

/// Returns a record's content. Throws InputError about `where` if the record is too short or its checksum is
/// wrong.
[[nodiscard]] std::string_view record_content(RecordKind kind, std::int64_t number, std::string_view record,
                                              const std::string& where);

/// Changes made by one transaction. The bytes of the bodies must stay valid until commit() returns.
struct StoreChange {
  struct Record {
    std::int64_t number = 0;
    std::string_view bytes;
    /// Owner that keeps `bytes` valid and unchanged; may be null. A store in memory shares ownership instead
    /// of copying the bytes; if there is no owner, it copies them.
    std::shared_ptr<const void> keeper{};
  };
  std::vector<Record> bodies;  ///< new bodies in ascending order of numbers, which exceed all earlier numbers
  /// New events, in ascending order of their numbers.
  std::vector<std::pair<std::int64_t, std::string>> events;
  std::vector<std::int64_t> erased;          ///< numbers of the events and bodies to erase
  std::vector<stream::SeenSlot> seen;        ///< slots of seen keys, with their new values
  std::map<std::string, std::string> notes;  ///< notes to set, by name

  /// Removes bodies and events that the change both adds and erases. Sorts `erased`.
  void drop_erased_additions();
};

/// Body in this process's memory. `bytes` stays valid while `keeper` lives, even if the store erases the
/// body.
struct SharedBody {
  std::string_view bytes;
  std::shared_ptr<const void> keeper;
};

/// Storage of a buffer or a store of values: events and bodies by number, seen keys, and a few notes. One
/// thread commits; other threads may read at the same time.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// Commits a transaction atomically: readers see either all of its changes or none of them. The changes are
  /// durable once is_durable() returns true, subject to data_loss_risk(). Throws LimitError if there is no
  /// room for the new bodies, and IoError if the store cannot be written.
  virtual void commit(const StoreChange& change) = 0;
  /// Returns whether the latest commit is durable. If not, the next commit or make_durable() makes it
  /// durable, so a caller with more changes to commit can save a flush. Earlier commits are already durable.
  [[nodiscard]] virtual bool is_durable() const noexcept { return true; }
  /// Makes the latest commit durable. Throws IoError if the store cannot be written.
  virtual void make_durable() {}

  /// Discards cached state so that later calls see the store's current content. Call this in the committing
  /// thread if another process may have changed the store, or if it is unknown whether a failed commit was
  /// applied. Throws IoError if the store cannot be read.
  virtual void refresh() {}

  /// Passes a stored body to `take` without copying it if possible. `take` should return quickly, since the
  /// store cannot reuse freed space while it runs. Throws InputError if the body is missing or damaged, and
  /// IoError if the store cannot be read. Exceptions from `take` propagate.
  virtual void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const = 0;
  /// Returns a body without copying it; nullopt if the store does not keep bodies in this process's memory.
  /// Throws InputError if the body is missing.
  [[nodiscard]] virtual std::optional<SharedBody> find_shared_body(std::int64_t /*number*/) const {
    return std::nullopt;
  }
  /// Passes all events to `take`, in ascending order of their numbers. Throws InputError if an event is
  /// damaged, and IoError if the store cannot be read. Exceptions from `take` propagate.
  virtual void read_events(const std::function<void(std::int64_t number, std::string_view)>& take) const = 0;
  [[nodiscard]] virtual std::vector<stream::SeenSlot> seen_slots() const = 0;
  /// Returns the note with this name, or nullopt if it does not exist. Throws InputError if the note is
  /// damaged, and IoError if the store cannot be read.
  [[nodiscard]] virtual std::optional<std::string> note(const std::string& name) const = 0;

  /// Returns how many bytes of the capacity are in use. A body of n bytes takes at most cost_of(n), and an
  /// event of n bytes takes at most cost_of_event(n), which includes space reserved for seen keys. Erasing an
  /// event ends the reservation; the seen keys that its sample leaves are then counted instead.
  [[nodiscard]] virtual std::int64_t bytes_in_use() const = 0;
  [[nodiscard]] virtual std::int64_t capacity() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t cost_of(std::int64_t bytes) const noexcept = 0;
  /// Returns the maximum number of bytes of capacity that a sample uses for its event, which has `bytes`
  /// bytes, and for its seen keys.
  [[nodiscard]] virtual std::int64_t cost_of_event(std::int64_t bytes) const noexcept = 0;
  /// Returns the maximum size of a body in bytes.
  [[nodiscard]] virtual std::int64_t max_body_bytes() const noexcept {
    return std::numeric_limits<std::int64_t>::max();
  }
  /// Describes which committed data may be lost, and when; empty if no data is lost no matter how this
  /// process ends.
  [[nodiscard]] virtual std::string data_loss_risk() const = 0;
  /// Returns the name of the store for logs and errors.
  [[nodiscard]] virtual std::string name() const = 0;
};

/// Throws LimitError about `where` if the new bodies do not fit into the store.
void require_room_for_bodies(const Store& store, const StoreChange& change, const std::string& where);

/// Kind of content of a store.
enum class StoreContent : std::uint8_t {
  stream,  ///< samples of a Buffer
  values,  ///< values of a ValueStore
};
/// Prepares a store for `content`. Throws InputError if the store already has the other kind of content, or
/// values in another version of the format.
void check_or_record_content(Store& store, StoreContent content);

/// Creates a store in this process's memory. Its content is lost when the process ends.
[[nodiscard]] std::unique_ptr<Store> make_memory_store(std::int64_t capacity);

/// Opens an LMDB store in its own folder, which is created if it does not exist. Memory is used for the data
/// of one commit, and for the system's page cache, which can be reclaimed. The folder's size is at most 5 %
/// more than the largest capacity with which it was ever opened.
///
/// Throws ConfigError for a capacity below 16 MiB. Throws IoError if the folder cannot be created or written,
/// if another process has opened it, if it is not empty and not the folder of a store, if its format has a
/// different version, or if its data file was truncated or is damaged.
[[nodiscard]] std::unique_ptr<Store> open_lmdb_store(const std::filesystem::path& folder,
                                                     std::int64_t capacity);

/// Opens an LMDB store for reading. Writes nothing, so the folder may be read-only; commits fail. Throws
/// IoError if the folder does not contain an intact store of this version, or if another process has
/// opened the store for writing. Throws InputError if the store was never used.
[[nodiscard]] std::unique_ptr<Store> open_lmdb_store_read_only(const std::filesystem::path& folder);

inline constexpr std::int64_t least_lmdb_capacity = std::int64_t{16} << 20;

}  // namespace evenkeel
