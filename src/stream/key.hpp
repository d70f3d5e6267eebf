#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel::stream {

/// Identity of a sample, independent of its content: its group, and its index in the group.
struct SampleKey {
  Uid uid;  ///< never monostate, since samples without a uid could not be distinguished
  std::int64_t index = 0;

  friend auto operator<=>(const SampleKey&, const SampleKey&) = default;
};

/// A uid hashed to 16 bytes: 128-bit FNV-1a over the kind and then the value, so the string "7" and the
/// number 7 have different keys. The probability that any two of a billion uids collide is about 10^-21.
struct GroupKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend constexpr auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

struct GroupKeyHash {
  std::size_t operator()(const GroupKey& key) const noexcept { return key.low; }
};

/// Returns the same key on every platform. Signed and unsigned integers of equal value have equal keys.
[[nodiscard]] GroupKey group_key(const Uid& uid) noexcept;

/// Returns the uid for messages: a string in quotation marks, a number, or "without a uid".
[[nodiscard]] std::string to_text(const Uid& uid);

/// Entry of SeenKeys: `slot` is the key and `bits` the value. In a list of entries, a later value of a slot
/// replaces an earlier one. `bits` contains either the content hashes of two samples, or one bit for each of
/// 63 indexes of a group (set if the sample is finished) and one bit that is set if the group has ended.
struct SeenSlot {
  GroupKey slot;
  std::uint64_t bits = 0;

  friend bool operator==(const SeenSlot&, const SeenSlot&) = default;
};

/// Compact set of the keys of finished samples (trained or dropped), each with a hash of its content. It
/// consists of a sorted array of 24-byte slots and a small map of new slots. A group takes 24 bytes per 63
/// indexes, plus 24 bytes per two samples.
class SeenKeys {
 public:
  SeenKeys() = default;
  /// `slots` may be in any order but must be unique.
  explicit SeenKeys(std::span<const SeenSlot> slots);

  [[nodiscard]] bool contains(const GroupKey& group, std::int64_t index) const noexcept {
    return content_hash(group, index).has_value();
  }
  /// Returns the hash of the sample's content, or nullopt if the sample is not in the set.
  [[nodiscard]] std::optional<std::uint32_t> content_hash(const GroupKey& group,
                                                          std::int64_t index) const noexcept;
  /// Returns whether mark_ended() was called for the group. Such a group does not accept more samples.
  [[nodiscard]] bool has_ended(const GroupKey& group) const noexcept;
  /// Returns the recorded indexes below `group_size`, ascending.
  [[nodiscard]] std::vector<std::int64_t> indexes(const GroupKey& group, std::int64_t group_size) const;

  /// Records a sample. Returns the changed slots with their new values, which the caller must store.
  /// Precondition: the sample is not in the set.
  std::array<SeenSlot, 2> add(const GroupKey& group, std::int64_t index, std::uint32_t content);
  /// Records that the group has ended, and returns the changed slot.
  SeenSlot mark_ended(const GroupKey& group);
  /// Sets a slot to a value that another SeenKeys object returned.
  void put(const SeenSlot& slot);

  /// Returns the total size of the slots in bytes, without the overhead of the containers.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  [[nodiscard]] std::vector<SeenSlot> slots() const;  ///< returns all entries, sorted by slot

 private:
  [[nodiscard]] std::uint64_t bits_of(const GroupKey& slot) const noexcept;
  SeenSlot add_bits(const GroupKey& slot, std::uint64_t bits);
  [[nodiscard]] std::uint64_t& find_or_add_bits(const GroupKey& slot);
  void merge_recent();

  std::vector<SeenSlot> sorted_;
  std::map<GroupKey, std::uint64_t> recent_;  ///< bits by slot, for new slots that are not in sorted_ yet
};

}  // namespace evenkeel::stream
