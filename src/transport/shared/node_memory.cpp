#include "transport/shared/node_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <random>
#include <string>

#include "mesh/fail_together.hpp"
#include "transport/comm_attribute.hpp"

namespace evenkeel {
namespace {

std::uint64_t secret_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

[[noreturn]] void throw_unreadable(pid_t process, const std::string& what, const std::string& reason) {
  throw IoError(
      "shared memory", what + " of process " + std::to_string(process) + reason,
      "Run the ranks of a node as one user in one container, with /proc mounted and a sufficient limit on "
      "open files, or set exchange.path: point-to-point and exchange.tp_copies: own");
}

}  // namespace

MappedFile::MappedFile(pid_t process, std::int64_t file) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw_unreadable(process, "cannot open the memory", std::string(": ") + std::strerror(errno));
  struct stat status {};
  void* begin = MAP_FAILED;
  if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
    begin = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
  }
  close(descriptor);
  if (begin == MAP_FAILED)
    throw_unreadable(process, "cannot map the memory", std::string(": ") + std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(begin), static_cast<std::size_t>(status.st_size)};
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

HeapBytes allocate_heap_bytes(std::size_t bytes) {
  return {static_cast<std::byte*>(SharedHeap::instance().allocate(bytes)), ReleaseToHeap{bytes}};
}

SharedBuffer::SharedBuffer(std::size_t bytes) {
  const std::size_t size = std::max(bytes, SharedHeap::smallest_block);
  data_ = allocate_heap_bytes(size);
  const std::optional<SharedHeap::Place> place = SharedHeap::instance().find(data_.get(), size);
  if (!place) {
    throw LimitError("shared memory",
                     "the system cannot create a memory file of " + std::to_string(size) + " bytes",
                     "Raise the limits on memory and on open files, or set exchange.path: point-to-point and "
                     "exchange.tp_copies: own");
  }
  place_ = *place;
}

NodeMemory& NodeMemory::get(const Communicator& comm) {
  return comm_attribute<NodeMemory>(comm, [&] {
    const Communicator node = comm.split_by_node();
    auto memory = run_together(comm, [&] {
      return std::unique_ptr<NodeMemory>(
          new NodeMemory(static_cast<std::size_t>(comm.size()), static_cast<std::size_t>(node.size())));
    });
    memory->connect_neighbors(comm, node);
    return memory;
  });
}

void NodeMemory::connect_neighbors(const Communicator& comm, const Communicator& node) {
  any_rank_has_neighbors_ = comm.all_reduce(node.size(), ReduceOp::max) > 1;
  GuardedWork work;
  Introduction own;
  if (node.size() > 1) work([&] { own = make_introduction(comm.rank()); });
  node.all_gather<Introduction>(own, introductions_);
  for (const Introduction& other : introductions_) {
    if (other.place.file >= 0 && other.rank != comm.rank()) work([&] { open_neighbor_memory(other); });
  }
  try {
    work.agree(comm);
  } catch (const Error&) {
    unavailability_ = current_exception_report();
  }
}

namespace {

/// Allocates words that are never freed. A lender may read a borrower's words after the borrower's service
/// and communicator have been destroyed, and must not find unrelated data there.
std::shared_ptr<SharedBuffer> allocate_kept_words(std::size_t bytes) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<SharedBuffer>>& kept = *new std::vector<std::shared_ptr<SharedBuffer>>;
  const std::lock_guard lock(mutex);
  return kept.emplace_back(std::make_shared<SharedBuffer>(bytes));
}

}  // namespace

NodeMemory::Introduction NodeMemory::make_introduction(int rank) {
  Introduction mine{rank, getpid(), {}, secret_number()};
  words_ = allocate_kept_words(num_words * sizeof mine.secret);
  std::memset(words_->data(), 0, num_words * sizeof mine.secret);
  std::memcpy(words_->data(), &mine.secret, sizeof mine.secret);
  mine.place = words_->place();
  return mine;
}

void NodeMemory::open_neighbor_memory(const Introduction& other) {
  const auto rank = static_cast<int>(other.rank);
  processes_[static_cast<std::size_t>(rank)] = static_cast<pid_t>(other.process);
  words_of_neighbors_[rank] = other.place;
  const auto seen = view(rank, other.place, sizeof other.secret);
  if (std::memcmp(seen.data(), &other.secret, seen.size()) != 0)
    throw_unreadable(process_of(rank), "found unexpected bytes in the memory", "");
}

std::span<const std::byte> NodeMemory::view(int rank, const SharedHeap::Place& place, std::size_t bytes) {
  return {view_shared(rank, place, bytes).get(), bytes};
}

std::shared_ptr<const std::byte> NodeMemory::view_shared(int rank, const SharedHeap::Place& place,
                                                         std::size_t bytes) {
  std::shared_ptr<MappedFile>& file = files_[{rank, place.file}];
  if (!file) file = std::make_shared<MappedFile>(process_of(rank), place.file);
  const auto offset = static_cast<std::size_t>(place.offset);
  if (offset + bytes > file->bytes().size()) {
    throw IoError("shared memory", "bytes " + std::to_string(offset) + " to " +
                                       std::to_string(offset + bytes) + " of rank " + std::to_string(rank) +
                                       " are outside its memory file of " +
                                       std::to_string(file->bytes().size()) + " bytes");
  }
  return {file, file->bytes().data() + offset};
}

std::shared_ptr<std::uint64_t> NodeMemory::own_words() const {
  return {words_, reinterpret_cast<std::uint64_t*>(words_->data())};
}

std::shared_ptr<const std::uint64_t> NodeMemory::words_of(int rank) {
  const auto words = view_shared(rank, words_of_neighbors_.at(rank), num_words * sizeof(std::uint64_t));
  return {words, reinterpret_cast<const std::uint64_t*>(words.get())};
}

}  // namespace evenkeel
