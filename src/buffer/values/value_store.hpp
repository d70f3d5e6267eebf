#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/store/commit_queue.hpp"
#include "buffer/store/store.hpp"
#include "buffer/values/received_values.hpp"
#include "buffer/values/value_change.hpp"
#include "buffer/values/value_cut.hpp"
#include "buffer/values/value_frame.hpp"
#include "buffer/values/value_index.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Thrown if requested values do not exist. HTTP status 404.
class MissingValuesError : public InputError {
 public:
  MissingValuesError(const std::string& first, std::int64_t count);
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

 private:
  std::int64_t count_ = 0;
};

/// Result of ValueStore::get(): values from a single state of the store. They remain readable while this
/// object lives, even if they are replaced or removed later.
class FoundValues {
 public:
  [[nodiscard]] const FrameHead& head() const noexcept { return head_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// Returns the number of bytes that had to be copied because the store does not have them in memory.
  [[nodiscard]] std::int64_t copied_bytes() const noexcept { return copied_; }
  /// Calls take(bytes) for each contiguous run of bytes, in the order of a frame. Stops and returns false as
  /// soon as `take` returns false.
  bool for_each_run(const std::function<bool(std::string_view)>& take) const;
  /// Like for_each_run(), but only for the values of the field at this position in the head.
  bool for_each_run_of(std::size_t field, const std::function<bool(std::string_view)>& take) const;

 private:
  friend class ValueStore;
  struct Piece {
    std::string_view bytes{};
    const ValueCut* cut = nullptr;  // selects a part of `bytes`; null for all bytes
  };
  FrameHead head_;
  std::vector<Piece> pieces_;  // the values, ordered by field, then by index
  std::vector<ValueCut> cuts_;
  std::vector<std::shared_ptr<const void>> keepers_;
  std::int64_t bytes_ = 0;
  std::int64_t copied_ = 0;
};

struct ValueStatus {
  std::string store;           ///< name of the store
  std::string data_loss_risk;  ///< describes which data may be lost; empty if no data can be lost
  std::int64_t indexes = 0;
  std::int64_t values = 0;
  std::int64_t bytes = 0;     ///< total size of the values, in bytes
  std::int64_t used = 0;      ///< bytes of the capacity that are in use
  std::int64_t capacity = 0;  ///< maximum size of the store's content, in bytes
};

/// Stores the values of samples' fields. An integer index identifies each sample. When a call that changes
/// values returns, its changes are in the store, and durable if the store is durable. All changes of one call
/// become visible together. Thread-safe: one writer thread commits concurrent calls together in one
/// transaction.
///
/// A call that changes values throws IoError if the store cannot be written or stop() was called. Its changes
/// may have been stored nevertheless, so the caller should repeat the call. Until the store can be read
/// again, get() and save() also throw IoError.
class ValueStore {
 public:
  /// Throws InputError if the store is damaged or has samples of a stream, and IoError if it cannot be read.
  explicit ValueStore(std::unique_ptr<Store> store);
  ValueStore(const ValueStore&) = delete;
  ValueStore& operator=(const ValueStore&) = delete;

  /// Stores the values of a complete frame. They replace values with the same index and field. Throws
  /// LimitError if the new values can never fit, and FullError if they do not fit now; the values that they
  /// replace are removed only afterwards.
  void put(const ReceivedValues& received);
  /// Returns the requested values. Throws MissingValuesError if a value does not exist, InputError if a slice
  /// is outside its value, and LimitError if the values exceed max_frame_bytes() or have too many ranges.
  [[nodiscard]] FoundValues get(const ValueQuery& query) const;
  /// Removes the selected values. Returns how many of them existed.
  std::int64_t clear(const ValueSelection& selection);

  /// Writes all values to a file, which appears completely or not at all. Calls that change values wait until
  /// the file is complete. Throws IoError if the file cannot be written or the store cannot be read, and
  /// InputError if the store is damaged.
  ValueStatus save(const std::filesystem::path& path);
  /// Replaces all values with the values of a file, in one transaction. Throws IoError if the file cannot be
  /// read, InputError if it was not written by save() or is damaged, and LimitError or FullError if its
  /// values do not fit.
  ValueStatus load(const std::filesystem::path& path);

  [[nodiscard]] ValueStatus status() const;
  /// Returns the maximum size of a frame, in bytes.
  [[nodiscard]] std::int64_t max_frame_bytes() const noexcept;
  /// Makes later calls that change values throw IoError. Irreversible.
  void stop();

 private:
  struct Change;
  using Queue = CommitQueue<Change>;
  struct FoundPlace;
  struct Found;

  void load_index();
  [[nodiscard]] std::optional<Queue::Clock::time_point> next_load_time() const;
  void require_loaded() const;
  [[nodiscard]] bool commit(const Queue::Requests& requests);
  [[nodiscard]] Found find(const ValueQuery& query) const;
  [[nodiscard]] FoundValues read(Found found) const;
  void read_record(std::int64_t record, const std::vector<FoundPlace>& places,
                   std::span<const std::size_t> of_record, FoundValues& values) const;
  [[nodiscard]] std::int64_t cost_of(const NewRecord& record) const;
  [[nodiscard]] std::vector<std::uint32_t> assign_field_numbers(const NewRecord& record);
  void add(const std::vector<NewRecord>& records, bool replaces_all);
  [[nodiscard]] LimitError make_too_large_error(std::int64_t bytes) const;
  [[nodiscard]] FullError make_full_error() const;

  const std::unique_ptr<Store> store_;
  mutable std::mutex commit_mutex_;        // held during a commit, until the changes are applied to `index_`
  std::int64_t next_number_ = 1;           // used only by the writer thread
  mutable std::shared_mutex index_mutex_;  // guards `index_` and `must_load_`
  ValueIndex index_;
  bool must_load_ = false;  // the store's content is unknown because a commit failed
  Queue queue_;             // destroyed first, since its thread uses the other members
};

}  // namespace evenkeel
