#include "transport/block_list.hpp"

#include <algorithm>
#include <utility>

#include "base/narrow.hpp"
#include "base/run_copy.hpp"
#include "base/streaming.hpp"
#include "evenkeel/base/assertions.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

/// Collects the blocks of one chunk and creates a datatype from them.
class ChunkBuilder {
 public:
  void add(const std::byte* address, std::size_t bytes) {
    MPI_Aint displacement = 0;
    check_mpi(MPI_Get_address(address, &displacement), "MPI_Get_address");
    displacements_.push_back(displacement);
    lengths_.push_back(narrow<int>(bytes, "bytes of one block", hint_for_large_steps));
  }

  [[nodiscard]] MpiDatatype commit() {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check_mpi(
        MPI_Type_create_hindexed(narrow<int>(lengths_.size(), "blocks of one message", hint_for_large_steps),
                                 lengths_.data(), displacements_.data(), MPI_BYTE, &type),
        "MPI_Type_create_hindexed");
    check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
    lengths_.clear();
    displacements_.clear();
    return MpiDatatype(type);
  }

 private:
  std::vector<int> lengths_;
  std::vector<MPI_Aint> displacements_;
};

}  // namespace

MpiDatatype::MpiDatatype(MpiDatatype&& other) noexcept
    : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}

MpiDatatype& MpiDatatype::operator=(MpiDatatype&& other) noexcept {
  std::swap(type_, other.type_);
  return *this;
}

MpiDatatype::~MpiDatatype() {
  if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
}

void BlockList::add(const std::byte* address, std::size_t bytes) {
  append({address, bytes, plain}, 1, 1);
}

void BlockList::add(const std::byte* first_row, std::int64_t rows, std::size_t row_bytes,
                    const RowView& view) {
  if (view.is_plain()) return add(first_row, static_cast<std::size_t>(rows) * row_bytes);
  EVENKEEL_PRECONDITION(cheap, view.row_bytes == row_bytes, view.row_bytes, row_bytes);
  const std::size_t traveling = view.wire_bytes();
  if (rows == 0 || traveling == 0) return;
  append({first_row, static_cast<std::size_t>(rows) * traveling, find_or_add_view(view)}, row_bytes,
         traveling);
}

void BlockList::add(const Block& block, std::span<const RowView> views) {
  if (block.view == plain) return add(block.address, block.bytes);
  const RowView& view = views[block.view];
  add(block.address, static_cast<std::int64_t>(block.bytes / view.wire_bytes()), view.row_bytes, view);
}

// Appends a block. For every `traveling` bytes that are sent, the block has `row_bytes` bytes in memory.
void BlockList::append(const Block& block, std::size_t row_bytes, std::size_t traveling) {
  if (block.bytes == 0) return;
  bytes_ += static_cast<std::int64_t>(block.bytes);
  if (!blocks_.empty() && blocks_.back().view == block.view &&
      blocks_.back().address + blocks_.back().bytes / traveling * row_bytes == block.address) {
    blocks_.back().bytes += block.bytes;
  } else {
    blocks_.push_back(block);
  }
}

std::size_t BlockList::find_or_add_view(const RowView& view) {
  const auto number = static_cast<std::size_t>(std::ranges::find(views_, view) - views_.begin());
  if (number == views_.size()) views_.push_back(view);
  return number;
}

std::vector<MpiDatatype> BlockList::chunks(std::int64_t max_bytes) const {
  EVENKEEL_PRECONDITION(cheap, is_plain());
  EVENKEEL_PRECONDITION(cheap, 1 <= max_bytes && max_bytes < std::int64_t{1} << 31, max_bytes);
  std::vector<MpiDatatype> types;
  ChunkBuilder chunk;
  auto room = static_cast<std::size_t>(max_bytes);
  for (Block block : blocks_) {
    while (block.bytes > 0) {
      const std::size_t piece = std::min(room, block.bytes);
      chunk.add(block.address, piece);
      block.address += piece;
      block.bytes -= piece;
      room -= piece;
      if (room > 0) continue;
      types.push_back(chunk.commit());
      room = static_cast<std::size_t>(max_bytes);
    }
  }
  if (room < static_cast<std::size_t>(max_bytes)) types.push_back(chunk.commit());
  return types;
}

void BlockList::copy_to(const BlockList& to, std::int64_t total_bytes) const noexcept {
  EVENKEEL_PRECONDITION(cheap, bytes() == to.bytes(), bytes(), to.bytes());
  const bool streams = streaming::is_worthwhile(static_cast<std::size_t>(total_bytes));
  RunCopier copy(static_cast<std::size_t>(total_bytes));
  auto target = to.blocks_.begin();
  std::size_t filled = 0;
  for (const Block& source : blocks_) {
    for (std::size_t taken = 0; taken < source.bytes;) {
      const std::size_t piece = std::min(source.bytes - taken, target->bytes - filled);
      if (source.view == plain && target->view == plain) {
        // The receiver built the list from writable buffers.
        copy(const_cast<std::byte*>(target->address) + filled, source.address + taken, piece);
      } else {
        copy_rows(rows_of(source, taken), to.rows_of(*target, filled), piece, streams);
      }
      taken += piece;
      filled += piece;
      if (filled < target->bytes) continue;
      ++target;
      filled = 0;
    }
  }
}

std::int64_t total_bytes(std::span<const BlockList> lists) noexcept {
  std::int64_t bytes = 0;
  for (const BlockList& list : lists) bytes += list.bytes();
  return bytes;
}

}  // namespace evenkeel
