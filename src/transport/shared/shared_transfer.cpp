#include "transport/shared/shared_transfer.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// The ranks of a node do not exchange other messages over this communicator at this time, so any tag works.
constexpr int notice_tag = 0;
constexpr std::int64_t notice_bytes = sizeof(OfferNotice);

std::vector<std::int64_t> notice_bytes_by_rank(const std::vector<bool>& ranks) {
  std::vector<std::int64_t> bytes(ranks.size());
  std::ranges::transform(ranks, bytes.begin(), [](bool any) { return any ? notice_bytes : 0; });
  return bytes;
}

std::size_t count(const std::vector<bool>& ranks) {
  return static_cast<std::size_t>(std::ranges::count(ranks, true));
}

/// Header of a view in memory that other ranks read. The pieces of the view follow the header.
struct OfferedView {
  std::int64_t row_bytes = 0;
  DType memory_dtype = DType::uint8;
  DType wire_dtype = DType::uint8;
  std::int64_t num_pieces = 0;
};

/// Builds the announcement of all lists: their extents, followed by the views that the extents use.
class AnnouncementBuilder {
 public:
  std::vector<Extent> extents;

  /// Appends the view and returns its byte offset among the views.
  std::int64_t add(const RowView& view) {
    const auto at = static_cast<std::int64_t>(views_.size());
    const OfferedView offered{static_cast<std::int64_t>(view.row_bytes), view.memory_dtype, view.wire_dtype,
                              std::ssize(view.pieces)};
    append(&offered, sizeof(offered));
    append(view.pieces.data(), view.pieces.size() * sizeof(RowView::Piece));
    return at;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return extent_bytes() + views_.size(); }
  [[nodiscard]] std::size_t extent_bytes() const noexcept { return extents.size() * sizeof(Extent); }
  void write(std::byte* to) const noexcept {
    std::memcpy(to, extents.data(), extent_bytes());
    if (!views_.empty()) std::memcpy(to + extent_bytes(), views_.data(), views_.size());
  }

 private:
  void append(const void* from, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(from);
    views_.insert(views_.end(), first, first + bytes);
  }

  std::vector<std::byte> views_;
};

/// Adds all views of a list and returns the offset of each.
std::vector<std::int64_t> add_views(const BlockList& list, AnnouncementBuilder& announced) {
  std::vector<std::int64_t> places;
  for (const RowView& view : list.views()) places.push_back(announced.add(view));
  return places;
}

/// Returns the place of a block's rows in the shared heap, or nullopt if they are not all there.
std::optional<SharedHeap::Place> find(const BlockList& list, const BlockList::Block& block) {
  const SharedHeap& heap = SharedHeap::instance();
  if (block.view == BlockList::plain) return heap.find(block.address, block.bytes);
  const RowView& view = list.views()[block.view];
  return heap.find(block.address, block.bytes / view.wire_bytes() * view.row_bytes);
}

RowView read_view(NodeMemory& memory, int rank, const SharedHeap::Place& place) {
  OfferedView offered;
  std::memcpy(&offered, memory.view(rank, place, sizeof(offered)).data(), sizeof(offered));
  RowView view{static_cast<std::size_t>(offered.row_bytes), {}, offered.memory_dtype, offered.wire_dtype};
  view.pieces.resize(static_cast<std::size_t>(offered.num_pieces));
  if (view.pieces.empty()) return view;
  const std::size_t bytes = view.pieces.size() * sizeof(RowView::Piece);
  const SharedHeap::Place pieces{place.file, place.offset + static_cast<std::int64_t>(sizeof(offered))};
  std::memcpy(view.pieces.data(), memory.view(rank, pieces, bytes).data(), bytes);
  return view;
}

// Returns, for each rank, whether it is a neighbor and has a non-empty list.
std::vector<bool> neighbors_with_bytes(const NodeMemory& memory, const std::vector<BlockList>& lists) {
  std::vector<bool> any(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    any[rank] = memory.is_neighbor(static_cast<int>(rank)) && !lists[rank].empty();
  return any;
}

SharedOffer make_offer_for_neighbors(const NodeMemory& memory, const std::vector<BlockList>& sends) {
  static const BlockList nothing;
  const std::vector<bool> offered = neighbors_with_bytes(memory, sends);
  std::vector<const BlockList*> lists;
  for (std::size_t rank = 0; rank < sends.size(); ++rank)
    lists.push_back(offered[rank] ? &sends[rank] : &nothing);
  return SharedOffer(lists);
}

}  // namespace

Notices::Notices(std::vector<bool> to, std::vector<bool> from)
    : to_(std::move(to)), from_(std::move(from)), received_(from_.size()) {
  sending_.resize(std::ssize(to_));
  receiving_.resize(std::ssize(from_));
  outgoing_.resize(count(to_));
  incoming_.resize(count(from_));
  outgoing_bytes_ = notice_bytes_by_rank(to_);
  incoming_bytes_ = notice_bytes_by_rank(from_);
}

void Notices::begin(const Communicator& comm, std::span<const OfferNotice> mine) {
  if (comm.non_mpi_ranks() != nullptr) {
    exchange_all(*comm.non_mpi_ranks(), mine);
  } else {
    begin_messages(comm, mine);
  }
}

void Notices::begin_messages(const Communicator& comm, std::span<const OfferNotice> mine) {
  for (std::size_t rank = 0; rank < from_.size(); ++rank) {
    const auto other = static_cast<int>(rank);
    if (from_[rank]) {
      check_mpi(
          MPI_Irecv(&received_[rank], notice_bytes, MPI_BYTE, other, notice_tag, comm, receiving_.at(rank)),
          "MPI_Irecv");
    }
    if (to_[rank]) {
      check_mpi(MPI_Isend(&mine[rank], notice_bytes, MPI_BYTE, other, notice_tag, comm, sending_.at(rank)),
                "MPI_Isend");
    }
  }
}

void Notices::exchange_all(const NonMpiRanks& ranks, std::span<const OfferNotice> mine) {
  auto out = outgoing_.begin();
  for (std::size_t rank = 0; rank < to_.size(); ++rank) {
    if (to_[rank]) *out++ = mine[rank];
  }
  ranks.all_to_all(std::as_bytes(std::span(outgoing_)), outgoing_bytes_,
                   std::as_writable_bytes(std::span(incoming_)), incoming_bytes_);
  auto in = incoming_.begin();
  for (std::size_t rank = 0; rank < from_.size(); ++rank) {
    if (from_[rank]) received_[rank] = *in++;
  }
  next_ = 0;
}

std::optional<int> Notices::next() {
  if (next_) {
    while (*next_ < from_.size() && !from_[*next_]) ++*next_;
    if (*next_ == from_.size()) return std::nullopt;
    return static_cast<int>((*next_)++);
  }
  return receiving_.wait_for_any();
}

void Notices::end() {
  sending_.wait_for_all();
}

SharedOffer::SharedOffer(std::span<const BlockList* const> lists) {
  AnnouncementBuilder announced;
  std::vector<Extent>& extents = announced.extents;
  std::size_t staged = 0;  // bytes of the blocks outside the shared heap
  for (const BlockList* list : lists) {
    const std::size_t first = extents.size();
    const std::vector<std::int64_t> views = add_views(*list, announced);
    bool follows_staged = false;
    for (const BlockList::Block& block : list->blocks()) {
      const auto bytes = static_cast<std::int64_t>(block.bytes);
      const std::optional<SharedHeap::Place> place = find(*list, block);
      if (place) {
        extents.push_back({*place, bytes, block.view == BlockList::plain ? -1 : views[block.view]});
      } else {
        if (!follows_staged) extents.push_back({{-1, static_cast<std::int64_t>(staged)}, 0});
        extents.back().bytes += bytes;
        elsewhere_.add(block, list->views());
        staged += block.bytes;
      }
      follows_staged = !place;
    }
    announcements_.push_back({{-1, static_cast<std::int64_t>(first * sizeof(Extent))},
                              static_cast<std::int64_t>(extents.size() - first)});
  }
  if (extents.empty()) return;

  outbox_ = SharedBuffer(announced.bytes() + staged);
  copies_.add(outbox_.data() + announced.bytes(), staged);
  const SharedHeap::Place& base = outbox_.place();
  for (OfferNotice& notice : announcements_) notice.place = {base.file, base.offset + notice.place.offset};
  for (Extent& extent : extents) {
    if (extent.view >= 0) extent.view += base.offset + static_cast<std::int64_t>(announced.extent_bytes());
    if (extent.place.file >= 0) continue;
    extent.place = {base.file,
                    base.offset + static_cast<std::int64_t>(announced.bytes()) + extent.place.offset};
  }
  announced.write(outbox_.data());
}

void SharedOffer::fill() noexcept {
  elsewhere_.copy_to(copies_, elsewhere_.bytes());
}

std::vector<Extent> read_extents(NodeMemory& memory, int rank, const OfferNotice& notice) {
  std::vector<Extent> extents(static_cast<std::size_t>(notice.num_extents));
  if (extents.empty()) return extents;
  const std::size_t bytes = extents.size() * sizeof(Extent);
  std::memcpy(extents.data(), memory.view(rank, notice.place, bytes).data(), bytes);
  return extents;
}

BlockList offered_bytes(NodeMemory& memory, int rank, const OfferNotice& notice) {
  BlockList blocks;
  std::map<std::int64_t, RowView> views;  // by offset in the owner's memory file (Extent::view)
  for (const Extent& extent : read_extents(memory, rank, notice)) {
    const auto bytes = static_cast<std::size_t>(extent.bytes);
    if (extent.view < 0) {
      blocks.add(memory.view(rank, extent.place, bytes).data(), bytes);
      continue;
    }
    if (!views.contains(extent.view))
      views[extent.view] = read_view(memory, rank, {notice.place.file, extent.view});
    const RowView& view = views[extent.view];
    const std::size_t rows = bytes / view.wire_bytes();
    blocks.add(memory.view(rank, extent.place, rows * view.row_bytes).data(), static_cast<std::int64_t>(rows),
               view.row_bytes, view);
  }
  return blocks;
}

SharedTransfer::SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends,
                               const std::vector<BlockList>& receives)
    : memory_(memory),
      sends_(sends),
      receives_(receives),
      offer_(make_offer_for_neighbors(memory, sends)),
      notices_(neighbors_with_bytes(memory, sends), neighbors_with_bytes(memory, receives)) {}

void SharedTransfer::run(const Communicator& comm) {
  offer_.fill();
  notices_.begin(comm, offer_.notices());
  const std::int64_t total = total_bytes(receives_);
  const auto self = static_cast<std::size_t>(comm.rank());
  sends_[self].copy_to(receives_[self], total);
  while (const std::optional<int> rank = notices_.next()) {
    if (error_) continue;
    const BlockList& into = receives_[static_cast<std::size_t>(*rank)];
    error_ = try_locally([&] { fetch(*rank, notices_.notice_from(*rank), into, total); });
  }
  notices_.end();
}

void SharedTransfer::fetch(int rank, const OfferNotice& notice, const BlockList& into,
                           std::int64_t total_bytes) {
  const BlockList from = offered_bytes(memory_, rank, notice);
  if (from.bytes() != into.bytes()) {
    throw MpiError("shared memory", "rank " + std::to_string(rank) + " has " + std::to_string(from.bytes()) +
                                        " bytes for this rank, which expects " +
                                        std::to_string(into.bytes()));
  }
  from.copy_to(into, total_bytes);
}

}  // namespace evenkeel
