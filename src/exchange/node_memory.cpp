#include "exchange/node_memory.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "evenkeel/mesh/nodes.hpp"
#include "exchange/kept_with.hpp"

namespace evenkeel {
namespace {

/// What a rank tells its neighbours: where in its heap they find a number that they cannot know otherwise.
/// Process numbers alone prove nothing: in another container the same number is another process.
struct Introduction {
  std::int64_t rank = 0;
  std::int64_t process = 0;
  SharedHeap::Place place;
  std::uint64_t secret = 0;
};

std::uint64_t secret_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::vector<Introduction> gather(const boost::mpi::communicator& node, const Introduction& mine) {
  std::vector<Introduction> all(static_cast<std::size_t>(node.size()));
  check_mpi(
      MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof(Introduction), MPI_BYTE, MPI_Comm(node)),
      "MPI_Allgather");
  return all;
}

[[noreturn]] void throw_unreadable(pid_t process, const std::string& what) {
  throw IoError("shared memory",
                what + " of process " + std::to_string(process) + ": " + std::strerror(errno),
                "Ranks of one node must run as one user in one container, with /proc mounted");
}

}  // namespace

MappedFile::MappedFile(pid_t process, std::int64_t file) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_unreadable(process, "cannot open the memory");
  struct stat status {};
  void* begin = MAP_FAILED;
  if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
    begin = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
  }
  close(descriptor);
  if (begin == MAP_FAILED) throw_unreadable(process, "cannot map the memory");
  bytes_ = {static_cast<const std::byte*>(begin), static_cast<std::size_t>(status.st_size)};
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

HeapBytes heap_bytes(std::size_t bytes) {
  return {static_cast<std::byte*>(SharedHeap::of_process().allocate(bytes)), ReleaseToHeap{bytes}};
}

SharedBuffer::SharedBuffer(std::size_t bytes) {
  const std::size_t size = std::max(bytes, SharedHeap::smallest_block);
  data_ = heap_bytes(size);
  const std::optional<SharedHeap::Place> place = SharedHeap::of_process().find(data_.get(), size);
  if (!place) {
    throw LimitError("shared memory", "the system gives no memory file of " + std::to_string(size) + " bytes",
                     "Raise the limits on memory and on open files, or set exchange.path: point-to-point");
  }
  place_ = *place;
}

NodeMemory& NodeMemory::of(const boost::mpi::communicator& comm) {
  return kept_with<NodeMemory>(comm, [&] { return std::unique_ptr<NodeMemory>(new NodeMemory(comm)); });
}

NodeMemory::NodeMemory(const boost::mpi::communicator& comm)
    : processes_(static_cast<std::size_t>(comm.size()), 0) {
  const boost::mpi::communicator node = ranks_of_node(comm);
  any_neighbours_ = boost::mpi::all_reduce(comm, node.size() > 1, std::logical_or<>());
  meet_neighbours(node, comm.rank());
  try {
    fail_together(comm, obstacle_);
  } catch (const Error& first) {
    obstacle_ = first.report();
  }
}

void NodeMemory::meet_neighbours(const boost::mpi::communicator& node, int rank) {
  if (node.size() == 1) return;
  Introduction mine{rank, getpid(), {}, 0};
  obstacle_ = try_locally([&] {
    mine.secret = secret_number();
    words_ = std::make_shared<SharedBuffer>(num_words * sizeof mine.secret);
    std::memset(words_->data(), 0, num_words * sizeof mine.secret);
    std::memcpy(words_->data(), &mine.secret, sizeof mine.secret);
    mine.place = words_->place();
  });
  for (const Introduction& other : gather(node, mine)) {
    const auto at = static_cast<int>(other.rank);
    if (at == rank) continue;
    processes_[static_cast<std::size_t>(at)] = static_cast<pid_t>(other.process);
    words_of_neighbours_[at] = other.place;
    if (obstacle_ || other.place.file < 0) continue;
    obstacle_ = try_locally([&] {
      const auto seen = view(at, other.place, sizeof other.secret);
      if (std::memcmp(seen.data(), &other.secret, seen.size()) != 0)
        throw_unreadable(process_of(at), "found other bytes than expected in the memory");
    });
  }
}

std::span<const std::byte> NodeMemory::view(int rank, const SharedHeap::Place& place, std::size_t bytes) {
  return {hold(rank, place, bytes).get(), bytes};
}

std::shared_ptr<const std::byte> NodeMemory::hold(int rank, const SharedHeap::Place& place,
                                                  std::size_t bytes) {
  std::shared_ptr<MappedFile>& file = files_[{rank, place.file}];
  if (!file) file = std::make_shared<MappedFile>(process_of(rank), place.file);
  const auto offset = static_cast<std::size_t>(place.offset);
  if (offset + bytes > file->bytes().size()) {
    throw IoError("shared memory", "bytes " + std::to_string(offset) + " to " +
                                       std::to_string(offset + bytes) + " of rank " + std::to_string(rank) +
                                       " lie outside its file of " + std::to_string(file->bytes().size()));
  }
  return {file, file->bytes().data() + offset};
}

std::shared_ptr<std::uint64_t> NodeMemory::my_words() const {
  return {words_, reinterpret_cast<std::uint64_t*>(words_->data())};
}

std::shared_ptr<const std::uint64_t> NodeMemory::words_of(int rank) {
  const auto words = hold(rank, words_of_neighbours_.at(rank), num_words * sizeof(std::uint64_t));
  return {words, reinterpret_cast<const std::uint64_t*>(words.get())};
}

}  // namespace evenkeel
