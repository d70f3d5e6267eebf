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

/// What identifies a sample, whatever it holds: its group, and which response of the group it is.
struct SampleKey {
  Uid uid;  ///< not monostate: a sample without a name could not be told from another
  std::int64_t index = 0;

  friend auto operator<=>(const SampleKey&, const SampleKey&) = default;
};

/// A uid in 16 bytes: FNV-1a of 128 bits, over the kind and then the value, so that the text "7" and the
/// number 7 differ. Of a billion uids, two are equal with a probability of 10^-21.
struct GroupKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend constexpr auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

struct GroupKeyHash {
  std::size_t operator()(const GroupKey& key) const noexcept { return key.low; }
};

/// The same on every platform. Signed and unsigned integers of equal value have equal keys.
[[nodiscard]] GroupKey group_key(const Uid& uid) noexcept;

/// For messages: a text in quotes, or a number.
[[nodiscard]] std::string to_text(const Uid& uid);

/// Keys that were trained or dropped: 63 of a group, and whether the group is over; or the hashes of what two
/// of them held. To be stored by `slot`; a later one of the same slot replaces it.
struct SeenSlot {
  GroupKey slot;
  std::uint64_t bits = 0;

  friend bool operator==(const SeenSlot&, const SeenSlot&) = default;
};

/// The keys of samples that are over, with a hash of what each held, compactly: sorted slots of 24 bytes, and
/// a few new ones beside them. A group takes 24 bytes for each 63 of its indexes, and 24 for each two
/// samples.
class SeenKeys {
 public:
  SeenKeys() = default;
  /// In any order, one of each slot.
  explicit SeenKeys(std::span<const SeenSlot> slots);

  [[nodiscard]] bool contains(const GroupKey& group, std::int64_t index) const noexcept {
    return content(group, index).has_value();
  }
  /// The hash of what the sample held; none if it was not noted.
  [[nodiscard]] std::optional<std::uint32_t> content(const GroupKey& group,
                                                     std::int64_t index) const noexcept;
  /// Whether any sample of the group, or its end, was noted.
  [[nodiscard]] bool has(const GroupKey& group) const noexcept;
  /// Whether nothing more of the group is taken.
  [[nodiscard]] bool is_over(const GroupKey& group) const noexcept;
  /// Those below `group_size`, ascending.
  [[nodiscard]] std::vector<std::int64_t> indexes(const GroupKey& group, std::int64_t group_size) const;

  /// Both return the slots that they changed, as they are then. Precondition: add() has not had that sample.
  std::array<SeenSlot, 2> add(const GroupKey& group, std::int64_t index, std::uint32_t content);
  SeenSlot end(const GroupKey& group);
  /// Replaces a slot, as somebody else's SeenKeys have changed it.
  void put(const SeenSlot& slot);

  [[nodiscard]] std::int64_t bytes() const noexcept;
  [[nodiscard]] std::vector<SeenSlot> slots() const;  ///< by slot

 private:
  [[nodiscard]] std::uint64_t bits_of(const GroupKey& slot) const noexcept;
  SeenSlot add_bits(const GroupKey& slot, std::uint64_t bits);
  [[nodiscard]] std::uint64_t& bits_at(const GroupKey& slot);
  void merge_recent();

  std::vector<SeenSlot> sorted_;
  std::map<GroupKey, std::uint64_t> recent_;  ///< slots that are not in sorted_
};

}  // namespace evenkeel::stream
