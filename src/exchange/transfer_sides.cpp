#include "exchange/transfer_sides.hpp"

namespace evenkeel {
namespace {

std::size_t bytes_of(const RowMove& move, const Column& column) {
  return static_cast<std::size_t>(move.source.size()) * column.spec().row_bytes();
}

}  // namespace

void RaggedSide::add_field(std::int64_t entry, CpRank rank, std::size_t field, BlockList& blocks) const {
  add_rows(entry, field, rows_to_move(columns_[field]->spec().kind, frame_.cut_of(entry, rank)), blocks);
}

void RaggedSide::add_halo(std::int64_t entry, CpRank rank, std::size_t field, BlockList& blocks) const {
  add_rows(entry, field, halo_to_move(frame_.cut_of(entry, rank)), blocks);
}

void RaggedSide::add_rows(std::int64_t entry, std::size_t field, const RowMoves& moves,
                          BlockList& blocks) const {
  const Column& column = *columns_[field];
  const std::int64_t base = batch_.rows_of(column.spec().kind, frame_.table[entry].owner_index).begin;
  for (const RowMove& move : moves) blocks.add(column.row(base + move.source.begin), bytes_of(move, column));
}

PackedSide::PackedSide(const TransferFrame& frame, std::span<const MicroBatchPlan> plans, CpRank rank)
    : frame_(frame), rank_(rank) {
  for (const MicroBatchPlan& plan : plans) {
    std::int64_t sequence = 0;
    std::int64_t row = 0;
    std::int64_t run = 0;
    for (const std::int64_t entry : plan.entries) {
      slots_[entry] = {num_runs_.size(), sequence++, row, run};
      const SequenceCut cut = frame_.cut_of(entry, rank_);
      row += cut.aligned_length / frame_.cp.size;
      run += static_cast<std::int64_t>(rows_to_move(FieldKind::token, cut).size());
    }
    num_runs_.push_back(run);
  }
}

void PackedSide::add_field(std::int64_t entry, std::span<const Column* const> columns, FieldKind kind,
                           BlockList& blocks) const {
  const Slot& slot = slots_.at(entry);
  const Column& column = *columns[slot.micro_batch];
  const std::int64_t base = kind == FieldKind::sample ? slot.sequence : slot.first_row;
  for (const RowMove& move : rows_to_move(kind, frame_.cut_of(entry, rank_))) {
    blocks.add(column.row(base + move.target), bytes_of(move, column));
  }
}

void PackedSide::add_halo(std::int64_t entry, std::span<std::vector<std::int64_t>> halos,
                          BlockList& blocks) const {
  const Slot& slot = slots_.at(entry);
  for (const RowMove& move : halo_to_move(frame_.cut_of(entry, rank_))) {
    const auto run = static_cast<std::size_t>(slot.first_run + move.target);
    blocks.add(std::as_bytes(std::span(&halos[slot.micro_batch][run], 1)).data(), sizeof(std::int64_t));
  }
}

}  // namespace evenkeel
