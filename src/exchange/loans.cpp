#include "exchange/loans.hpp"

#include <mpi.h>

#include <atomic>
#include <boost/mpi/collectives.hpp>
#include <cstring>
#include <mutex>
#include <utility>

#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "evenkeel/plan/plan_serialization.hpp"
#include "exchange/shared_offer.hpp"

namespace evenkeel {
namespace {

// Loan n has the word of n modulo this, after the word that is taken; it holds n + 1 once n is returned.
constexpr std::uint64_t num_marks = NodeMemory::num_words - 1;

std::uint64_t read_mark(const std::uint64_t* words, std::uint64_t loan) {
  auto& word = const_cast<std::uint64_t&>(words[1 + loan % num_marks]);  // atomic_ref has no const form
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

/// The lender's side of one loan.
struct Loan {
  std::uint64_t number = 0;
  std::vector<std::shared_ptr<const std::byte>> columns;
  SharedOffer offer;
  std::vector<std::shared_ptr<const std::uint64_t>> words;  // of the borrowers

  [[nodiscard]] bool returned() const {
    return std::ranges::all_of(words, [&](const auto& of) { return read_mark(of.get(), number) > number; });
  }
};

/// What this process has lent. It is never destroyed, since borrowers may outlive everything else.
class OpenLoans {
 public:
  static OpenLoans& of_process() {
    static OpenLoans& loans = *new OpenLoans;
    return loans;
  }
  void add(Loan loan) {
    const std::lock_guard lock(mutex_);
    loans_.push_back(std::move(loan));
  }
  void end_returned() {
    const std::lock_guard lock(mutex_);
    std::erase_if(loans_, [](const Loan& loan) { return loan.returned(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Loan> loans_;
};

/// The borrower's side of one loan: gives it back when the last column has gone.
class Lease {
 public:
  Lease(std::shared_ptr<std::uint64_t> words, std::uint64_t number)
      : words_(std::move(words)), number_(number) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    std::atomic_ref(words_.get()[1 + number_ % num_marks]).store(number_ + 1, std::memory_order_release);
  }

 private:
  std::shared_ptr<std::uint64_t> words_;
  std::uint64_t number_;
};

Announcement lend(const boost::mpi::communicator& comm, NodeMemory& memory, std::uint64_t number,
                  std::vector<PackedMicroBatch>& micro_batches) {
  Loan loan{number, {}, {}, {}};
  BlockList blocks;
  for (PackedMicroBatch& m : micro_batches) {
    for (Column& column : m.fields) {
      const std::size_t bytes = std::as_const(column).bytes().size();
      blocks.add(loan.columns.emplace_back(column.lend()).get(), bytes);
    }
  }
  loan.offer = SharedOffer(std::vector<const BlockList*>{&blocks});
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (memory.is_neighbour(rank)) loan.words.push_back(memory.words_of(rank));
  }
  const Announcement told = loan.offer.announcements().front();
  OpenLoans::of_process().add(std::move(loan));
  return told;
}

/// What a borrower reads, column after column.
class LentBytes {
 public:
  LentBytes(NodeMemory& memory, int lender, const Announcement& told, std::shared_ptr<Lease> lease)
      : memory_(memory),
        lender_(lender),
        extents_(read_extents(memory, lender, told)),
        lease_(std::move(lease)) {}

  void skip(const FieldSpec& spec, std::int64_t rows) {
    const std::size_t bytes = static_cast<std::size_t>(rows) * spec.row_bytes();
    if (bytes > 0) static_cast<void>(take(bytes));
  }

  [[nodiscard]] Column next(const FieldSpec& spec, std::int64_t rows) {
    const std::size_t bytes = static_cast<std::size_t>(rows) * spec.row_bytes();
    if (bytes == 0) return {spec, rows};
    const std::shared_ptr<const std::byte> first = take(bytes);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(first.get()) % alignof(std::max_align_t) == 0;
    if (bytes >= SharedHeap::smallest_block && is_aligned) return Column::borrowing(spec, rows, first);
    Column column = Column::unwritten(spec, rows);
    std::memcpy(column.row(0), first.get(), bytes);
    return column;
  }

 private:
  /// A column lies in one extent: blocks are joined, never cut.
  std::shared_ptr<const std::byte> take(std::size_t bytes) {
    if (left_ == 0) {
      const Extent& extent = extents_.at(extent_++);
      struct Held {
        std::shared_ptr<Lease> lease;
        std::shared_ptr<const std::byte> bytes;
      };
      left_ = static_cast<std::size_t>(extent.bytes);
      const auto held = std::make_shared<Held>(Held{lease_, memory_.hold(lender_, extent.place, left_)});
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
  std::shared_ptr<Lease> lease_;
  std::size_t extent_ = 0;
  std::shared_ptr<const std::byte> at_;
  std::size_t left_ = 0;
};

void borrow(LentBytes lent, std::span<const FieldSpec> fields,
            const std::function<bool(const FieldSpec&)>& wanted,
            std::vector<PackedMicroBatch>& micro_batches) {
  for (PackedMicroBatch& m : micro_batches) {
    m.fields.clear();
    for (const FieldSpec& spec : fields) {
      const std::int64_t rows = m.rows_of(spec.kind);
      if (wanted(spec)) {
        m.fields.push_back(lent.next(spec, rows));
      } else {
        lent.skip(spec, rows);
      }
    }
  }
}

std::shared_ptr<Lease> take_lease(NodeMemory& memory, std::uint64_t number) {
  const std::shared_ptr<std::uint64_t> words = memory.my_words();
  if (number >= num_marks && read_mark(words.get(), number) <= number - num_marks) {
    throw LimitError("shared tensors",
                     "this rank still holds those of " + std::to_string(num_marks) +
                         " steps ago; more steps at a time cannot be told apart",
                     "Let go of old steps, or set exchange.tp_copies: own");
  }
  return std::make_shared<Lease>(words, number);
}

}  // namespace

std::optional<ErrorReport> share_columns(const boost::mpi::communicator& comm, NodeMemory& memory, int lender,
                                         const std::function<bool(const FieldSpec&)>& wanted,
                                         std::vector<PackedMicroBatch>& micro_batches) {
  if (micro_batches.empty()) return std::nullopt;
  const std::uint64_t number = memory.count_loan();
  std::vector<FieldSpec> fields;
  Announcement told;
  std::optional<ErrorReport> error;
  if (comm.rank() == lender) {
    for (const Column& column : micro_batches.front().fields) fields.push_back(column.spec());
    error = try_locally([&] { told = lend(comm, memory, number, micro_batches); });
  }
  boost::mpi::broadcast(comm, fields, lender);
  check_mpi(MPI_Bcast(&told, sizeof told, MPI_BYTE, lender, comm), "MPI_Bcast");
  // A lender that failed says so itself when errors are compared.
  if (comm.rank() != lender && told.num_extents >= 0) {
    error = try_locally([&] {
      borrow({memory, lender, told, take_lease(memory, number)}, fields, wanted, micro_batches);
    });
  }
  return error;
}

void end_returned_loans() {
  OpenLoans::of_process().end_returned();
}

}  // namespace evenkeel
