// A library for LD_PRELOAD between a program and MPI: it injects a fault into one rank at an MPI call, or
// changes the order of events without harm. Its settings are environment variables:
//
// - FAULT: the fault, one of the words in `suffer` and `disturb` below; `record` only counts calls
// - FAULT_RANK: the rank of MPI_COMM_WORLD that gets the fault
// - FAULT_CALL: the MPI call, such as MPI_Allreduce
// - FAULT_PHASE: the program's phase, named as in base/activity; empty for any phase
// - FAULT_NTH: which of these calls, counted from 1
// - FAULT_NUMBER: milliseconds, MiB or a seed, depending on the fault
// - FAULT_FOLDER: the folder for the files `begun.RANK` (written at a rank's first call of MPI), `suffered`,
// and
//   with `record` calls.RANK
// - FAULT_ACTIVITY: the address of evenkeel::activities() in the program's file, in hexadecimal, from nm
//
// An injected error does what MPI would do: it calls the communicator's error handler, then the call returns
// its code. The requested operation is not executed, so other ranks wait for this one.

#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/activity.hpp"

// Every call that Evenkeel or Boost.MPI may make while MPI is initialized, and that can fail or block, with
// its number of arguments.
// clang-format off
#define CALLS_OF_MPI(call)                                                         \
  call(Allgather, 7) call(Allgatherv, 8) call(Allreduce, 6) call(Alltoall, 7) call(Alltoallv, 9)       \
  call(Alltoallw, 9) call(Barrier, 1) call(Bcast, 5) call(Comm_compare, 3) call(Comm_create_group, 4)  \
  call(Comm_create_keyval, 4) call(Comm_dup, 2) call(Comm_free, 1) call(Comm_get_attr, 4)              \
  call(Comm_group, 2) call(Comm_set_attr, 3) call(Comm_set_errhandler, 2) call(Comm_split, 4)          \
  call(Comm_split_type, 5) call(Comm_test_inter, 2) call(Finalize, 0) call(Gather, 8) call(Gatherv, 9) \
  call(Get_address, 2) call(Get_count, 3) call(Group_free, 1) call(Group_range_incl, 4)                \
  call(Iallreduce, 7) call(Iprobe, 5) call(Irecv, 7) call(Isend, 7) call(Mprobe, 5) call(Mrecv, 5)     \
  call(Op_create, 3) call(Op_free, 1) call(Pack, 7) call(Pack_size, 4) call(Probe, 4) call(Recv, 7)    \
  call(Reduce, 7) call(Scan, 6) call(Scatter, 8) call(Scatterv, 9) call(Send, 6) call(Test, 3)         \
  call(Testall, 4) call(Type_commit, 1) call(Type_contiguous, 3) call(Type_create_hindexed, 5)         \
  call(Type_create_struct, 5) call(Type_free, 1) call(Unpack, 7) call(Wait, 2) call(Waitall, 3)        \
  call(Waitany, 4)
// clang-format on

namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

long number(const char* name, long otherwise) {
  const std::string value = setting(name);
  return value.empty() ? otherwise : std::stol(value);
}

std::uintptr_t address_of_program() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        *static_cast<std::uintptr_t*>(found) = info->dlpi_addr;
        return 1;  // the first one is the program
      },
      &address);
  return address;
}

/// Returns the phase of the program that the calling thread is in.
std::string phase_of_thread() {
  using Activities = decltype(&evenkeel::activities);
  static const std::string place = setting("FAULT_ACTIVITY");
  if (place.empty()) return "";
  static const auto ask =
      reinterpret_cast<Activities>(address_of_program() + std::stoull(place, nullptr, 16));
  const auto self = static_cast<std::int32_t>(syscall(SYS_gettid));
  for (const evenkeel::ThreadActivity& thread : ask()) {
    if (thread.thread == self && thread.phase != nullptr) return thread.phase;
  }
  return "its own code";
}

void sleep_for(long milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// Limits memory to what the process has now plus `more` bytes.
void limit_memory(std::uint64_t more) {
  std::ifstream sizes("/proc/self/statm");
  std::uint64_t pages = 0;
  sizes >> pages;
  const rlim_t limit = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + more;
  const rlimit limits{limit, limit};
  setrlimit(RLIMIT_AS, &limits);
}

/// Makes all later attempts to open a file fail.
void limit_descriptors() {
  const int next = open("/dev/null", O_RDONLY);
  close(next);
  const rlimit limits{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
  setrlimit(RLIMIT_NOFILE, &limits);
}

/// Simulates that the node's link is down.
void cut_link() {
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq link{};
  std::strcpy(link.ifr_name, "eth0");
  ioctl(any, SIOCGIFFLAGS, &link);
  link.ifr_flags = static_cast<short>(link.ifr_flags & ~IFF_UP);
  ioctl(any, SIOCSIFFLAGS, &link);
  close(any);
}

/// Injects the fault into the calling rank; returns the result of the call.
int suffer(const std::string& fault, long amount, MPI_Comm comm) {
  if (fault == "error") {
    MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
  }
  if (fault == "delay") sleep_for(amount);
  if (fault == "never") {
    while (true) pause();
  }
  if (fault == "kill") raise(SIGKILL);
  if (fault == "stop") raise(SIGSTOP);
  if (fault == "term") raise(SIGTERM);
  if (fault == "int") raise(SIGINT);
  if (fault == "memory") limit_memory(static_cast<std::uint64_t>(amount) << 20U);
  if (fault == "descriptors") limit_descriptors();
  if (fault == "cut") cut_link();
  return MPI_SUCCESS;
}

/// Delays sends until their thread makes another call, and then sends those to higher ranks first. Messages
/// to the same rank keep their order, as MPI guarantees. This uses persistent requests, because the caller
/// has them before they start.
class HeldSends {
 public:
  int hold(const void* values, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
           MPI_Request* request) {
    const int code = PMPI_Send_init(values, count, type, rank, tag, comm, request);
    if (code == MPI_SUCCESS) held_.push_back({rank, *request});
    return code;
  }
  void let_go() {
    std::ranges::stable_sort(held_, std::ranges::greater{}, &Held::rank);
    for (Held& send : held_) PMPI_Start(&send.request);
    held_.clear();
  }

 private:
  struct Held {
    int rank;
    MPI_Request request;
  };
  std::vector<Held> held_;
};

thread_local HeldSends held_sends;

class Faults {
 public:
  ~Faults() { write_record(); }

  /// Runs before a call. If the result is not MPI_SUCCESS, the call returns it.
  int before(const char* call, MPI_Comm comm) {
    if (rank_ >= 0 && !has_begun_.exchange(true)) std::ofstream(folder_ + "/begun." + std::to_string(rank_));
    if (fault_.empty()) return MPI_SUCCESS;
    disturb(call);
    const std::string phase = records_ || is_at(call) ? phase_of_thread() : "";
    if (records_) record(phase, call);
    if (!is_at(call) || (!phase_.empty() && phase != phase_) || ++met_ != nth_) return MPI_SUCCESS;
    std::ofstream(folder_ + "/suffered") << call << " in " << phase << std::endl;
    return suffer(fault_, amount_, comm);
  }

  [[nodiscard]] bool holds_sends() const { return is_here_ && fault_ == "overtake"; }

 private:
  [[nodiscard]] bool is_at(const char* call) const { return is_here_ && call_ == call; }

  /// Runs in every call; must not have any visible effect.
  void disturb(const char* call) {
    if (fault_ == "overtake" && std::strcmp(call, "MPI_Isend") != 0) held_sends.let_go();
    if (fault_ == "late" && is_here_ && std::strstr(call, "end") != nullptr) sleep_for(amount_);
    if (fault_ != "uneven") return;
    thread_local std::mt19937_64 draw(static_cast<std::uint64_t>(amount_ * 64 + rank_));
    if (draw() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw() % 3000));
  }

  void record(const std::string& phase, const char* call) {
    const std::lock_guard lock(mutex_);
    ++calls_[{phase, call}];
  }

  void write_record() {
    if (!records_) return;
    const std::lock_guard lock(mutex_);
    std::ofstream file(folder_ + "/calls." + std::to_string(rank_));
    for (const auto& [place, times] : calls_)
      file << place.first << "\t" << place.second << "\t" << times << "\n";
  }

  const std::string fault_ = setting("FAULT");
  const std::string call_ = setting("FAULT_CALL");
  const std::string phase_ = setting("FAULT_PHASE");
  const std::string folder_ = setting("FAULT_FOLDER");
  const long amount_ = number("FAULT_NUMBER", 0);
  const long nth_ = number("FAULT_NTH", 1);
  const long rank_ = number("OMPI_COMM_WORLD_RANK", -1);
  const bool is_here_ = rank_ >= 0 && rank_ == number("FAULT_RANK", -1);
  const bool records_ = rank_ >= 0 && fault_ == "record";
  std::atomic<long> met_{0};
  std::atomic<bool> has_begun_{false};
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, long> calls_;
};

Faults& faults() {
  static Faults all;
  return all;
}

/// Returns the communicator among a call's arguments, whose error handler receives an error.
template <typename Argument>
void find_communicator(MPI_Comm& found, const Argument& argument) {
  if constexpr (std::is_same_v<Argument, MPI_Comm>) {
    if (found == MPI_COMM_WORLD && argument != MPI_COMM_NULL) found = argument;
  }
}

/// Returns the result of a call: that of `real` unless a fault is injected.
template <typename... Arguments>
int call_of_mpi(const char* name, int (*real)(Arguments...), Arguments... arguments) {
  MPI_Comm comm = MPI_COMM_WORLD;
  (find_communicator(comm, arguments), ...);
  const int code = faults().before(name, comm);
  if (code != MPI_SUCCESS) return code;
  if constexpr (std::is_same_v<decltype(real), decltype(&PMPI_Isend)>) {
    if (real == &PMPI_Isend && faults().holds_sends()) return held_sends.hold(arguments...);
  }
  return real(arguments...);
}

/// The type of an argument of a function.
template <int number, typename... Arguments>
std::tuple_element_t<number, std::tuple<Arguments...>> argument_of(int (*)(Arguments...));

}  // namespace

#define ARGUMENT(name, number) decltype(argument_of<number>(&PMPI_##name))
#define PARAMETERS_0(name)
#define PARAMETERS_1(name) ARGUMENT(name, 0) a
#define PARAMETERS_2(name) PARAMETERS_1(name), ARGUMENT(name, 1) b
#define PARAMETERS_3(name) PARAMETERS_2(name), ARGUMENT(name, 2) c
#define PARAMETERS_4(name) PARAMETERS_3(name), ARGUMENT(name, 3) d
#define PARAMETERS_5(name) PARAMETERS_4(name), ARGUMENT(name, 4) e
#define PARAMETERS_6(name) PARAMETERS_5(name), ARGUMENT(name, 5) f
#define PARAMETERS_7(name) PARAMETERS_6(name), ARGUMENT(name, 6) g
#define PARAMETERS_8(name) PARAMETERS_7(name), ARGUMENT(name, 7) h
#define PARAMETERS_9(name) PARAMETERS_8(name), ARGUMENT(name, 8) i
#define VALUES_0
#define VALUES_1 , a
#define VALUES_2 , a, b
#define VALUES_3 , a, b, c
#define VALUES_4 , a, b, c, d
#define VALUES_5 , a, b, c, d, e
#define VALUES_6 , a, b, c, d, e, f
#define VALUES_7 , a, b, c, d, e, f, g
#define VALUES_8 , a, b, c, d, e, f, g, h
#define VALUES_9 , a, b, c, d, e, f, g, h, i
#define DEFINE(name, count)                                                                    \
  extern "C" __attribute__((visibility("default"))) int MPI_##name(PARAMETERS_##count(name)) { \
    return call_of_mpi("MPI_" #name, &PMPI_##name VALUES_##count);                             \
  }

CALLS_OF_MPI(DEFINE)
