#include "exchange/samples/shared_columns.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "plan/plan_serialization.hpp"
#include "transport/gather_lists.hpp"
#include "transport/shared/shared_transfer.hpp"

namespace evenkeel {
namespace {

// A borrower's words contain its marks; word 0 is reserved. The mark of loan n is word 1 + n % num_marks,
// which the borrower sets to n + 1 when it returns the loan.
constexpr std::uint64_t num_marks = NodeMemory::num_words - 1;

std::uint64_t read_lease_mark(const std::uint64_t* words, std::uint64_t loan) {
  auto& word = const_cast<std::uint64_t&>(words[1 + loan % num_marks]);  // atomic_ref does not support const
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

/// The lender's side of one loan.
struct Loan {
  std::uint64_t number = 0;
  std::vector<std::shared_ptr<const std::byte>> columns;
  SharedOffer offer;
  std::vector<std::shared_ptr<const std::uint64_t>> words;  // each borrower's words, which contain its marks

  [[nodiscard]] bool is_returned() const {
    return std::ranges::all_of(words,
                               [&](const auto& of) { return read_lease_mark(of.get(), number) > number; });
  }
};

/// Loans of this process. The object is never destroyed, since borrowers may still read its columns when
/// static objects are destroyed.
class OpenLoans {
 public:
  static OpenLoans& instance() {
    static OpenLoans& loans = *new OpenLoans;
    return loans;
  }
  void add(Loan loan) {
    const std::lock_guard lock(mutex_);
    loans_.push_back(std::move(loan));
  }
  void erase_returned() {
    const std::lock_guard lock(mutex_);
    std::erase_if(loans_, [](const Loan& loan) { return loan.is_returned(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Loan> loans_;
};

/// The borrower's side of one loan. Its destructor returns the loan; the borrowed columns share ownership of
/// this object.
class ColumnLease {
 public:
  ColumnLease(std::shared_ptr<std::uint64_t> words, std::uint64_t number) noexcept
      : words_(std::move(words)), number_(number) {}
  ColumnLease(ColumnLease&& other) noexcept : words_(std::move(other.words_)), number_(other.number_) {}
  ColumnLease& operator=(ColumnLease&&) = delete;
  ~ColumnLease() {
    if (words_)
      std::atomic_ref(words_.get()[1 + number_ % num_marks]).store(number_ + 1, std::memory_order_release);
  }

 private:
  std::shared_ptr<std::uint64_t> words_;
  std::uint64_t number_;
};

constexpr std::size_t padded_size(std::size_t bytes) noexcept {
  constexpr std::size_t unit = alignof(std::max_align_t);
  return (bytes + unit - 1) / unit * unit;
}

/// Description of lent columns: the fields, which are the same in each micro-batch, and the offsets of
/// counted columns.
struct LentColumns {
  std::vector<FieldSpec> fields;
  std::vector<std::vector<std::int64_t>> offsets;  ///< one list per counted column of each micro-batch

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& fields;
    archive& offsets;
  }
};

LentColumns columns_of(std::span<const PackedMicroBatch> micro_batches,
                       const std::function<bool(const FieldSpec&)>& chosen) {
  LentColumns lent;
  for (const Column& column : micro_batches.front().fields) {
    if (chosen(column.spec())) lent.fields.push_back(column.spec());
  }
  for (const PackedMicroBatch& m : micro_batches) {
    for (const Column& column : m.fields) {
      if (!is_counted(column.spec().kind) || !chosen(column.spec())) continue;
      const std::span<const std::int64_t> offsets = column.samples().offsets();
      lent.offsets.emplace_back(offsets.begin(), offsets.end());
    }
  }
  return lent;
}

// Serializes the description that precedes the columns: the size of an archive, the archive, and zeros up to
// the alignment of a column.
std::string serialize_description(const LentColumns& columns) {
  const std::string archive = to_archive(columns);
  const auto size = static_cast<std::int64_t>(archive.size());
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  text += archive;
  text.resize(padded_size(text.size()));
  return text;
}

OfferNotice lend(const Communicator& comm, NodeMemory& memory, std::uint64_t number,
                 const std::function<bool(const FieldSpec&)>& chosen,
                 std::vector<PackedMicroBatch>& micro_batches) {
  Loan loan{number, {}, {}, {}};
  const std::string description = serialize_description(columns_of(micro_batches, chosen));
  BlockList blocks;
  blocks.add(std::as_bytes(std::span(description)).data(), description.size());
  for (PackedMicroBatch& m : micro_batches) {
    for (Column& column : m.fields) {
      if (!chosen(column.spec())) continue;
      const std::size_t bytes = std::as_const(column).bytes().size();
      blocks.add(loan.columns.emplace_back(column.lend()).get(), bytes);
    }
  }
  loan.offer = SharedOffer(std::vector<const BlockList*>{&blocks});
  loan.offer.fill();
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (memory.is_neighbor(rank)) loan.words.push_back(memory.words_of(rank));
  }
  const OfferNotice notice = loan.offer.notices().front();
  OpenLoans::instance().add(std::move(loan));
  return notice;
}

/// Reads the bytes of a loan, column by column, on a borrower.
class LentBytes {
 public:
  LentBytes(NodeMemory& memory, int lender, const OfferNotice& notice, std::shared_ptr<ColumnLease> lease)
      : memory_(memory),
        lender_(lender),
        extents_(read_extents(memory, lender, notice)),
        lease_(std::move(lease)) {}

  /// Reads the description of the columns. Call this first.
  [[nodiscard]] LentColumns read_description() {
    std::int64_t size = 0;
    std::memcpy(&size, next_bytes(sizeof size).get(), sizeof size);
    const std::shared_ptr<const std::byte> bytes =
        next_bytes(padded_size(sizeof size + static_cast<std::size_t>(size)) - sizeof size);
    LentColumns columns;
    from_archive(std::string(reinterpret_cast<const char*>(bytes.get()), static_cast<std::size_t>(size)),
                 columns);
    return columns;
  }

  /// Skips a column. `rows` is the number of rows in the column or, for a counted field, the range of rows of
  /// each sample. next(), which returns the column instead, takes the same arguments.
  template <typename Rows>
  void skip(const FieldSpec& spec, const Rows& rows) {
    const std::size_t bytes = bytes_of(spec, rows);
    if (bytes > 0) static_cast<void>(next_bytes(bytes));
  }

  template <typename Rows>
  [[nodiscard]] Column next(const FieldSpec& spec, Rows rows) {
    const std::size_t bytes = bytes_of(spec, rows);
    if (bytes == 0) return {spec, std::move(rows)};
    const std::shared_ptr<const std::byte> first = next_bytes(bytes);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(first.get()) % alignof(std::max_align_t) == 0;
    if (bytes >= SharedHeap::smallest_block && is_aligned)
      return Column::borrowing(spec, std::move(rows), first);
    Column column = Column::uninitialized(spec, std::move(rows));
    std::memcpy(column.row(0), first.get(), bytes);
    return column;
  }

 private:
  static std::size_t bytes_of(const FieldSpec& spec, std::int64_t rows) {
    return static_cast<std::size_t>(rows) * spec.row_bytes();
  }
  static std::size_t bytes_of(const FieldSpec& spec, const SampleRows& samples) {
    return bytes_of(spec, samples.rows());
  }

  /// Returns the next `bytes` bytes. They are in a single extent, since an extent may join several blocks,
  /// but a block is never split.
  std::shared_ptr<const std::byte> next_bytes(std::size_t bytes) {
    if (left_ == 0) {
      const Extent& extent = extents_.at(extent_++);
      struct HeldExtent {
        std::shared_ptr<ColumnLease> lease;
        std::shared_ptr<const std::byte> bytes;
      };
      left_ = static_cast<std::size_t>(extent.bytes);
      const auto held =
          std::make_shared<HeldExtent>(HeldExtent{lease_, memory_.view_shared(lender_, extent.place, left_)});
      at_ = {held, held->bytes.get()};
    }
    std::shared_ptr<const std::byte> taken = at_;
    at_ = {at_, at_.get() + bytes};
    left_ -= bytes;
    return taken;
  }

  NodeMemory& memory_;
  int lender_;
  std::vector<Extent> extents_;
  std::shared_ptr<ColumnLease> lease_;
  std::size_t extent_ = 0;
  std::shared_ptr<const std::byte> at_;
  std::size_t left_ = 0;
};

void borrow(LentBytes lent, const std::function<bool(const FieldSpec&)>& wanted,
            std::vector<PackedMicroBatch>& micro_batches) {
  LentColumns described = lent.read_description();
  auto offsets = described.offsets.begin();
  for (PackedMicroBatch& m : micro_batches) {
    const auto add_or_skip_column = [&](const FieldSpec& spec, auto rows) {
      if (!wanted(spec)) {
        lent.skip(spec, rows);
        return;
      }
      // Replace the column that this rank has derived from the layout, if there is one.
      std::erase_if(m.fields, [&](const Column& column) { return column.spec().name == spec.name; });
      m.fields.push_back(lent.next(spec, std::move(rows)));
    };
    for (const FieldSpec& spec : described.fields) {
      if (is_counted(spec.kind)) {
        add_or_skip_column(spec, SampleRows::from_offsets(std::move(*offsets++)));
      } else {
        add_or_skip_column(spec, m.rows_of(spec.kind));
      }
    }
  }
}

bool is_lease_free(const std::uint64_t* words, std::uint64_t number) noexcept {
  return number < num_marks || read_lease_mark(words, number) > number - num_marks;
}

[[noreturn]] void throw_all_leases_held() {
  throw LimitError("shared tensors",
                   "this rank still holds tensors that it borrowed " + std::to_string(num_marks) +
                       " loans ago; only the latest " + std::to_string(num_marks) +
                       " loans can be held, and each step makes one or more",
                   "Release old steps, or set exchange.tp_copies: own, and fields.NAME.share: none");
}

void borrow_from(NodeMemory& memory, int lender, const OfferNotice& notice, std::uint64_t number,
                 const std::function<bool(const FieldSpec&)>& wanted,
                 std::vector<PackedMicroBatch>& micro_batches, GuardedWork& work) {
  std::shared_ptr<std::uint64_t> words = memory.own_words();
  if (!is_lease_free(words.get(), number)) {
    work(throw_all_leases_held);
    return;
  }
  ColumnLease lease(std::move(words), number);  // If borrowing fails, this object returns the loan.
  work([&] {
    auto shared = std::make_shared<ColumnLease>(std::move(lease));
    borrow({memory, lender, notice, std::move(shared)}, wanted, micro_batches);
  });
}

}  // namespace

void share_columns(const Communicator& comm, NodeMemory& memory, int lender,
                   const std::function<bool(const FieldSpec&)>& chosen,
                   std::vector<PackedMicroBatch>& micro_batches, GuardedWork& work) {
  if (micro_batches.empty()) return;
  const std::uint64_t number = memory.next_loan_number();
  OfferNotice notice;
  if (comm.rank() == lender) work([&] { notice = lend(comm, memory, number, chosen, micro_batches); });
  comm.broadcast(notice, lender);
  // A negative num_extents means that the lender has failed. It reports its error at the next agreement.
  if (comm.rank() != lender && notice.num_extents >= 0)
    borrow_from(memory, lender, notice, number, chosen, micro_batches, work);
}

void end_returned_loans() {
  OpenLoans::instance().erase_returned();
}

}  // namespace evenkeel
