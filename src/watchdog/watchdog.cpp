#include "evenkeel/watchdog/watchdog.hpp"

#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/activity.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "mesh/nodes.hpp"
#include "watchdog/datagrams.hpp"
#include "watchdog/first_to_tell.hpp"
#include "watchdog/messages.hpp"
#include "watchdog/own_signs.hpp"
#include "watchdog/rank_table.hpp"
#include "watchdog/times.hpp"
#include "watchdog/verdict.hpp"

namespace evenkeel {
namespace {

HostName own_host() noexcept {
  HostName host{};
  ::gethostname(host.data(), host.size() - 1);
  return host;
}

Introduction introduce(int rank, const Datagrams& datagrams) {
  Introduction mine;
  mine.host = own_host();
  if (rank == 0) {
    std::random_device device;
    mine.secret = std::uint64_t{device()} << 32 | device();
  }
  for (const std::uint32_t address : own_addresses()) {
    if (static_cast<std::size_t>(mine.num_addresses) == mine.addresses.size()) break;
    mine.addresses[static_cast<std::size_t>(mine.num_addresses++)] = address;
  }
  mine.port = datagrams.port();
  return mine;
}

// Judges are the first rank, and the first of another node: whatever one machine or link does, one of them
// sees it.
int second_judge_among(std::span<const int> nodes) {
  const auto other = std::ranges::find_if(nodes, [&](int node) { return node != nodes.front(); });
  return other == nodes.end() ? 1 : static_cast<int>(other - nodes.begin());
}

int leave_at_finalize(MPI_Comm /*self*/, int /*key*/, void* /*value*/, void* /*state*/) {
  leave_for_good("MPI_Finalize");
  return MPI_SUCCESS;
}

// From there on a rank polls MPI and does nothing else, which must not look like work.
void notice_finalize() {
  static bool is_noticed = false;
  if (std::exchange(is_noticed, true)) return;
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_at_finalize, &key, nullptr),
            "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
}

/// What takes memory that there is not is left out, and comes up again with the next sign of life: a process
/// without memory has other errors to tell.
template <typename Work>
void with_memory(Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
  }
}

/// Signals are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

class Watchdog::Parts {
 public:
  /// Begins to watch this process. What fails is told when ranks meet.
  Parts(int rank, WatchdogSettings settings, Unheard before_all_have_met)
      : settings_(std::move(settings)),
        times_(settings_.seconds, 1),
        rank_(rank),
        unheard_(before_all_have_met),
        host_(own_host()),
        alone_(std::vector<std::string>(1, std::string(text_of(host_)))) {
    begun_([&] {
      datagrams_.emplace();
      const SignalsBlocked blocked;
      thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    });
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    thread_.request_stop();
    if (datagrams_) datagrams_->wake();
  }

  /// Collective: ranks tell each other where they are, and begin to watch each other.
  void meet(const Communicator& comm);
  void set_seconds(double seconds);

 private:
  /// A rank that signs of life go to.
  struct Judge {
    int rank = 0;
    std::vector<sockaddr_in> addresses;  // maybe; one of them once it has answered
    double heard_at = 0;
    bool is_heard = false;
    bool has_ended = false;
  };

  // Of the program's thread.
  void know_first_judge(const Introduction& judge);
  void know_all(std::span<const Introduction> all, std::span<const int> nodes);
  void become_judge();
  void give_signs();

  // Of the watchdog's, under the lock.
  void watch(const std::stop_token& stop);
  void pass_time();
  void tick();
  void send_signs(const SignOfLife& sign);
  void hear(const Datagrams::Received& received);
  void hear_sign(const SignMessage& message, const sockaddr_in& from);
  void hear_goodbye(int rank);
  void decide();
  void decide_for_all();
  void decide_without_judges();
  void decide_alone();
  void warn_of_unheard(std::span<const RankSigns> signs);
  void end_job(WatchdogReport report);
  void say_goodbye();
  [[nodiscard]] Judge* judge_of(int rank) noexcept;
  [[nodiscard]] bool judges() const noexcept { return table_.has_value(); }
  [[nodiscard]] DatagramHeader header(DatagramKind kind) const noexcept { return {secret_, kind, rank_}; }
  /// More often while ranks end one after another: see WatchdogTimes::patience_of().
  [[nodiscard]] double between_ticks() const noexcept {
    return has_met_ ? times_.interval : times_.interval / 4;
  }

  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;  // of all that follows, but for datagrams while they are received
  WatchdogSettings settings_;
  WatchdogTimes times_;
  int rank_;
  int ranks_ = 1;  // as far as is known
  Unheard unheard_;
  GuardedWork begun_;
  std::uint64_t secret_ = 0;
  HostName host_;
  std::optional<Datagrams> datagrams_;
  std::vector<Judge> judges_;           // those known so far: none, the first, both
  std::optional<RankTable> table_;      // of a judge
  std::vector<sockaddr_in> told_from_;  // of a judge: whence each rank was heard
  RankTable alone_;                     // of this process, as long as nobody else watches it
  FirstToTell first_to_tell_;
  OwnSigns own_;
  Clock::time_point last_ = Clock::now();
  double now_ = 0;  // seconds in which this rank could watch: those in which it was suspended do not count
  double sampled_at_ = 0;
  double next_tick_ = 0;
  double next_sign_ = 0;
  bool has_met_ = false;
  bool is_asked_for_signs_ = false;
  std::condition_variable gave_signs_;
  bool has_warned_ = false;
  bool is_over_ = false;
  std::jthread thread_;  // last: it uses the others
};

// Whoever has given signs has been heard, and will be missed when it is stopped: the first rank has heard all
// that have come as far as to agree, and both judges all that have met. Who has not come is known by that.
void Watchdog::Parts::meet(const Communicator& comm) {
  const Phase phase("watchdogs meet");
  GuardedWork work(begun_);
  Introduction mine;
  std::vector<Introduction> all;
  work([&] {
    all.resize(static_cast<std::size_t>(comm.size()));
    mine = introduce(rank_, *datagrams_);
    const std::lock_guard lock(mutex_);
    ranks_ = comm.size();
    times_ = WatchdogTimes(times_.whole, ranks_);
    secret_ = mine.secret;
    if (rank_ == 0) become_judge();
  });
  Introduction first = mine;
  comm.broadcast(first, 0);
  work([&] {
    if (first.port == 0) return;  // which all ranks are told next
    know_first_judge(first);
    give_signs();
  });
  work.agree(comm);
  comm.all_gather<Introduction>(mine, all);
  const std::vector<int> nodes = nodes_of_ranks(comm);
  if (comm.foreign() == nullptr) notice_finalize();
  together(comm, [&] { know_all(all, nodes); });
  // Not sooner: a judge that does not know that it is one does not listen.
  together(comm, [&] { give_signs(); });
  const std::lock_guard lock(mutex_);
  has_met_ = true;
}

void Watchdog::Parts::set_seconds(double seconds) {
  const std::lock_guard lock(mutex_);
  times_ = WatchdogTimes(seconds, ranks_);
}

// Its node is not known yet. An address of this machine's own that is meant for another one's harms nobody.
void Watchdog::Parts::know_first_judge(const Introduction& judge) {
  const std::lock_guard lock(mutex_);
  secret_ = judge.secret;
  judges_.push_back({0, addresses_of(judge, true)});
}

void Watchdog::Parts::know_all(std::span<const Introduction> all, std::span<const int> nodes) {
  const std::lock_guard lock(mutex_);
  const int second = second_judge_among(nodes);
  const auto at = static_cast<std::size_t>(second);
  judges_.push_back({second, addresses_of(all[at], nodes[at] == nodes[static_cast<std::size_t>(rank_)])});
  if (judge_of(rank_) == nullptr) return;
  if (!judges()) become_judge();
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    table_->knows_host(static_cast<int>(rank), text_of(all[rank].host));
}

void Watchdog::Parts::become_judge() {
  table_.emplace(std::vector<std::string>(static_cast<std::size_t>(ranks_)));
  told_from_.resize(static_cast<std::size_t>(ranks_));
}

// Waits until the watchdog's thread has sent them.
void Watchdog::Parts::give_signs() {
  std::unique_lock lock(mutex_);
  is_asked_for_signs_ = true;
  datagrams_->wake();
  gave_signs_.wait(lock, [this] { return !is_asked_for_signs_ || is_over_; });
}

Watchdog::Parts::Judge* Watchdog::Parts::judge_of(int rank) noexcept {
  const auto found = std::ranges::find(judges_, rank, &Judge::rank);
  return found == judges_.end() ? nullptr : &*found;
}

// Ranks begin together. Their signs of life must not arrive so but for the first, or a judge of many would
// lose some each time.
void Watchdog::Parts::watch(const std::stop_token& stop) {
  constexpr double golden_ratio = 0.6180339887498949;
  double whole = 0;
  std::unique_lock lock(mutex_);
  next_sign_ = times_.interval * std::modf(rank_ * golden_ratio, &whole);
  while (!stop.stop_requested() && !is_over_) {
    pass_time();
    if (is_asked_for_signs_ || now_ >= next_tick_) with_memory([&] { tick(); });
    const double left = std::max(0.0, next_tick_ - now_);
    lock.unlock();
    const auto received = datagrams_->receive(static_cast<int>(std::ceil(left * 1000)));
    lock.lock();
    if (!received || is_over_) continue;
    pass_time();
    with_memory([&] { hear(*received); });
  }
  if (!is_over_) say_goodbye();
  is_over_ = true;
  gave_signs_.notify_all();
}

// A longer time than it takes to watch was spent in a debugger, or with the whole job suspended.
void Watchdog::Parts::pass_time() {
  const Clock::time_point now = Clock::now();
  const double passed = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  now_ += std::min(passed, 2 * times_.interval);
}

void Watchdog::Parts::tick() {
  own_.sample(now_ - std::exchange(sampled_at_, now_));
  const SignOfLife sign = sign_of(own_.progress(), own_.threads());
  alone_.hears(0, sign, now_);
  if (judges()) {
    table_->hears(rank_, sign, now_);
    table_->knows_host(rank_, text_of(host_));
  }
  const bool is_asked = std::exchange(is_asked_for_signs_, false);
  if (is_asked || now_ >= next_sign_) send_signs(sign);
  if (is_asked) gave_signs_.notify_all();
  if (now_ >= next_sign_) next_sign_ = now_ + times_.interval;
  next_tick_ = std::min(next_sign_, now_ + between_ticks());
  decide();
}

void Watchdog::Parts::send_signs(const SignOfLife& sign) {
  const SignMessage message{header(DatagramKind::sign), sign, host_};
  for (const Judge& judge : judges_) {
    if (judge.rank == rank_) continue;
    for (const sockaddr_in& address : judge.addresses) datagrams_->send(address, bytes_of(message));
  }
}

void Watchdog::Parts::hear(const Datagrams::Received& received) {
  if (received.bytes.size() < sizeof(DatagramHeader)) return;
  const DatagramHeader header = *message_in<DatagramHeader>(received.bytes.first(sizeof(DatagramHeader)));
  if (secret_ == 0 || header.secret != secret_ || header.rank == rank_) return;
  if (header.kind == DatagramKind::sign) {
    if (const auto message = message_in<SignMessage>(received.bytes)) hear_sign(*message, received.from);
  } else if (header.kind == DatagramKind::goodbye) {
    hear_goodbye(header.rank);
  } else if (Judge* judge = judge_of(header.rank); judge != nullptr && header.kind == DatagramKind::heard) {
    judge->addresses.assign(1, received.from);
    judge->heard_at = now_;
    judge->is_heard = true;
  } else if (const auto verdict = message_in<VerdictMessage>(received.bytes); verdict && judge != nullptr) {
    is_over_ = true;
    const std::array<char, 1024>& text = verdict->text;
    if (settings_.ends) settings_.ends({{text.data(), strnlen(text.data(), text.size())}, {}});
  }
}

void Watchdog::Parts::hear_sign(const SignMessage& message, const sockaddr_in& from) {
  const int rank = message.header.rank;
  if (!judges() || rank < 0 || rank >= table_->size()) return;
  table_->hears(rank, message.sign, now_);
  table_->knows_host(rank, text_of(message.host));
  told_from_[static_cast<std::size_t>(rank)] = from;
  datagrams_->send(from, bytes_of(header(DatagramKind::heard)));
}

void Watchdog::Parts::hear_goodbye(int rank) {
  if (judges() && rank >= 0 && rank < table_->size()) table_->ends(rank);
  if (Judge* judge = judge_of(rank)) judge->has_ended = true;
}

void Watchdog::Parts::decide() {
  if (times_.whole == 0) return;
  judges() ? decide_for_all() : decide_without_judges();
}

void Watchdog::Parts::decide_for_all() {
  const bool is_first = rank_ == 0;
  const double patience = times_.patience + (is_first ? 0 : times_.grace);
  const std::vector<RankSigns> signs = table_->signs(now_);
  if (is_first && has_met_) warn_of_unheard(signs);
  const Verdict verdict = judge(signs, patience, has_met_ ? Unheard::may_be_well : unheard_);
  if (verdict.kind == Verdict::Kind::healthy) return;
  WatchdogReport report;
  report.ranks = table_->ranks(now_);
  report.message = message_of(verdict, report.ranks, times_.whole);
  end_job(std::move(report));
}

// Where those that are known cannot be heard any more, this rank's machine is cut off, or so is the rest.
void Watchdog::Parts::decide_without_judges() {
  if (judges_.empty() || (!has_met_ && !judges_.front().is_heard)) return decide_alone();
  for (const Judge& judge : judges_) {
    if (!judge.is_heard || judge.has_ended || now_ - judge.heard_at <= times_.patience_of(rank_)) return;
  }
  std::vector<int> silent;
  for (const Judge& judge : judges_) silent.push_back(judge.rank);
  end_job({message_of_silence(rank_, silent, times_.whole), {}});
}

// As long as nobody else can know.
void Watchdog::Parts::decide_alone() {
  if (unheard_ == Unheard::may_be_well) return;
  const double patience = times_.patience_of(rank_);
  if (judge(alone_.signs(now_), patience).kind == Verdict::Kind::healthy) return;
  WatchedRank own = alone_.ranks(now_).front();
  own.rank = rank_;
  end_job({message_of_waiting(own, times_.whole), {}});
}

void Watchdog::Parts::warn_of_unheard(std::span<const RankSigns> signs) {
  if (has_warned_ || now_ <= times_.patience) return;
  has_warned_ = true;
  const std::vector<int> ranks = unheard(signs);
  if (ranks.empty() || !settings_.warns) return;
  settings_.warns("the watchdog does not hear " + named(ranks) +
                  ": datagrams (UDP, IPv4) do not get through. It can only see that other ranks fall silent");
}

void Watchdog::Parts::end_job(WatchdogReport report) {
  is_over_ = true;
  const bool tells = has_met_ || first_to_tell_.is_this();
  with_memory([&] {
    if (tells && settings_.tells) settings_.tells(report);
  });
  VerdictMessage message{header(DatagramKind::verdict)};
  report.message.copy(message.text.data(), message.text.size() - 1);
  constexpr int times = 3;  // one may get lost
  for (int i = 0; i < times && judges(); ++i) {
    for (int rank = 0; rank < table_->size(); ++rank) {
      if (rank != rank_ && table_->has_heard(rank))
        datagrams_->send(told_from_[static_cast<std::size_t>(rank)], bytes_of(message));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Those that nobody can tell see meanwhile that somebody has.
  if (tells && !has_met_)
    std::this_thread::sleep_for(std::chrono::duration<double>(times_.until_all_end(rank_)));
  if (settings_.ends) settings_.ends(report);
}

void Watchdog::Parts::say_goodbye() {
  const DatagramHeader message = header(DatagramKind::goodbye);
  for (const Judge& judge : judges_) {
    if (judge.rank == rank_) continue;
    for (const sockaddr_in& address : judge.addresses) datagrams_->send(address, bytes_of(message));
  }
  if (!judges()) return;
  for (int rank = 0; rank < table_->size(); ++rank) {
    if (rank != rank_ && table_->has_heard(rank))
      datagrams_->send(told_from_[static_cast<std::size_t>(rank)], bytes_of(message));
  }
}

Watchdog::Watchdog(const Communicator& comm, WatchdogSettings settings) {
  require_ranks_of_one_group(comm);
  fail_together(comm, try_locally([&] {
                  if (settings.seconds >= 0) return;
                  throw InputError("seconds of a Watchdog", std::to_string(settings.seconds) + " are below 0",
                                   "Use 0 to watch nothing");
                }));
  if (comm.size() == 1 || settings.seconds == 0) return;
  parts_ = together(
      comm, [&] { return std::make_unique<Parts>(comm.rank(), std::move(settings), Unheard::may_be_well); });
  parts_->meet(comm);
}

Watchdog::Watchdog(OneRank own, WatchdogSettings settings)
    : parts_(std::make_unique<Parts>(own.rank, std::move(settings), Unheard::has_not_come)) {}

void Watchdog::meet(const Communicator& comm) {
  require_ranks_of_one_group(comm);
  EVENKEEL_PRECONDITION(cheap, parts_ != nullptr);
  if (comm.size() == 1) {
    parts_.reset();
  } else {
    parts_->meet(comm);
  }
}

void Watchdog::set_seconds(double seconds) {
  EVENKEEL_PRECONDITION(cheap, seconds >= 0, seconds);
  if (seconds == 0) parts_.reset();
  if (parts_) parts_->set_seconds(seconds);
}

Watchdog::~Watchdog() = default;

void Watchdog::tell_progress() noexcept {
  evenkeel::tell_progress();
}

}  // namespace evenkeel
