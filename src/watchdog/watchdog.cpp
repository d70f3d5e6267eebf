#include "evenkeel/watchdog/watchdog.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "base/activity.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "watchdog/judge.hpp"
#include "watchdog/own_progress.hpp"
#include "watchdog/socket.hpp"

namespace evenkeel {
namespace {

constexpr double heartbeats_per_second = 2000;  // rate that rank 0 can always handle

// Marks the rank as ending when MPI_Finalize begins. In MPI_Finalize, a rank only polls, which must not be
// mistaken for work.
void register_finalize_hook() {
  static bool is_noticed = false;
  if (std::exchange(is_noticed, true)) return;
  constexpr auto leave = [](MPI_Comm, int, void*, void*) {
    begin_exit("MPI_Finalize");
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave, &key, nullptr), "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
}

// Returns whether this process is the first to call the function, among the processes that a launcher has
// started on this machine. The first process binds an abstract address (which is not a file) until `socket`
// is closed.
bool claim_first_on_machine([[maybe_unused]] int& socket) {
#ifdef __linux__
  if (::getppid() == 1) return true;  // the launcher has ended
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("evenkeel-watchdog-{}-{}", ::getuid(), ::getppid());
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 || errno != EADDRINUSE;
#else
  return true;
#endif
}

void print_line(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

/// Thread and state of a watchdog. The judge is rank 0, or the lowest rank whose watchdog still runs. All
/// other ranks send heartbeats to the judge, which answers with its own heartbeat, and only check whether the
/// judge is silent. Until a rank gets its first answer, it evaluates only its own state.
class Watchdog::Runner {
 public:
  /// Starts to watch this process. Errors of the constructor are thrown later, by start_watching(). `ranks`
  /// is the number of ranks known so far, including this one.
  Runner(int rank, int ranks, Unheard before_met, WatchdogSettings settings)
      : settings_(std::move(settings)), rank_(rank), unheard_before_meeting_(before_met) {
    resize(static_cast<std::size_t>(ranks));
    startup_([&] {
      socket_.emplace();
      own_state().host = socket_->peer_info().host.data();
      thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    });
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() {
    thread_.request_stop();
    if (socket_) socket_->wake();
    if (thread_.joinable()) thread_.join();
    if (first_on_machine_ >= 0) ::close(first_on_machine_);
  }

  // Exchanges addresses. Rank 0 introduces itself first, so it knows which ranks have arrived while it waits
  // for the others. When start_watching() returns, all ranks have sent a heartbeat to rank 0, and rank 0 has
  // sent one to all. Therefore, a rank that stops later is noticed.
  void start_watching(const Communicator& comm) {
    const Phase phase("watchdogs meet");
    GuardedWork work(startup_);
    PeerInfo mine;
    std::vector<PeerInfo> all;
    work([&] {
      all.resize(static_cast<std::size_t>(comm.size()));
      mine = socket_->peer_info();
      std::random_device device;
      mine.secret = std::uint64_t{device()} << 32U | device();
      const std::lock_guard lock(mutex_);
      resize(all.size());
      if (rank_ == 0) secret_ = mine.secret;
    });
    PeerInfo first = mine;
    comm.broadcast(first, 0);
    work([&] {
      if (first.port != 0) record_peers_and_send_heartbeat(std::span(&first, 1));
    });
    work.agree(comm);
    comm.all_gather<PeerInfo>(mine, all);
    if (comm.non_mpi_ranks() == nullptr) register_finalize_hook();
    run_together(comm, [&] { record_peers_and_send_heartbeat(all); });
    const std::lock_guard lock(mutex_);
    has_met_ = true;
  }

  void set_seconds(double seconds) {
    const std::lock_guard lock(mutex_);
    settings_.seconds = seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : char {
    heartbeat = 's',
    answer = 'a',
    verdict = 'v',
    goodbye = 'g'
  };  // only heartbeats are answered

  void record_peers_and_send_heartbeat(std::span<const PeerInfo> ranks) {
    const std::lock_guard lock(mutex_);
    secret_ = ranks.front().secret;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks_[rank].was_heard) continue;
      addresses_[rank] = ranks[rank].endpoints();
      ranks_[rank].host = ranks[rank].host.data();
    }
    send_to_partners(Kind::heartbeat, own_heartbeat());
  }

  void watch(const std::stop_token& stop) {
    sigset_t signals;  // block all signals, so that the program's own threads get them
    sigfillset(&signals);
    pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    std::unique_lock lock(mutex_);
    // Distributes the heartbeats of the ranks over time.
    next_heartbeat_ = interval() * std::fmod(rank_ * 0.618, 1);
    while (!stop.stop_requested() && !is_over_) {
      try {
        advance_clock();
        if (now_ >= next_tick_) tick();
        if (is_over_) break;
        const double left = std::max(0.0, next_tick_ - now_);
        lock.unlock();
        sockaddr_in from{};
        const std::string datagram = socket_->receive(static_cast<int>(std::ceil(left * 1000)), from);
        lock.lock();
        advance_clock();
        if (!is_over_) handle_datagram(datagram, from);
      } catch (const std::bad_alloc&) {  // the program itself reports that memory has run out
        if (!lock.owns_lock()) lock.lock();
      }
    }
    if (!is_over_) send_to_partners(Kind::goodbye, "");
    is_over_ = true;
  }

  // Precondition of the functions below: the lock is held.

  // Advances now_ by at most two intervals per call. If more time has passed, the process was in a debugger,
  // or the whole job was suspended.
  void advance_clock() {
    const Clock::time_point now = Clock::now();
    const double passed = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
    now_ += std::min(passed, 2 * interval());
  }

  void tick() {
    next_tick_ = now_ + interval() / 4;
    progress_.sample(now_ - std::exchange(sampled_at_, now_));
    own_state().record_heartbeat(own_heartbeat(), now_);
    if (!is_judge() && now_ >= next_heartbeat_) {
      send_to_partners(Kind::heartbeat, own_heartbeat());
      next_heartbeat_ = now_ + interval();
    }
    if (settings_.seconds > 0) judge_and_act();
  }

  void handle_datagram(const std::string& datagram, const sockaddr_in& from) {
    std::istringstream in(datagram);
    std::uint64_t secret = 0;
    char kind = 0;
    std::size_t rank = 0;
    int to = 0;  // intended receiver; must be checked, since other nodes use the same loopback address
    if (!(in >> secret) || secret_ == 0 || secret != secret_) return;
    if (!(in >> kind >> rank >> to) || to != rank_ || rank >= ranks_.size()) return;
    const std::string text{std::istreambuf_iterator<char>(in.ignore()), {}};
    if (kind == static_cast<char>(Kind::verdict)) {
      is_over_ = true;
      if (settings_.terminate) settings_.terminate({text, {}});
    } else if (kind == static_cast<char>(Kind::goodbye)) {
      ranks_[rank].has_ended = true;
    } else {
      ranks_[rank].record_heartbeat(text, now_);
      addresses_[rank].assign(1, from);
      if (kind != static_cast<char>(Kind::heartbeat)) return;
      send(rank, Kind::answer, own_heartbeat());
      // `rank`, which is lower than this rank, no longer hears the judge and reports first. Wait for its
      // report.
      if (!is_judge() && rank < own_index()) reports_at_ = now_ + interval() / 2;
    }
  }

  void judge_and_act() {
    for (RankState& rank : ranks_) rank.update_times(now_);
    if (rank_ == 0 && has_met_ && now_ > patience() && !std::exchange(has_warned_, true))
      warn_about_unheard_ranks();
    const bool hears_judge = !is_judge() && ranks_[judge_index()].was_heard;
    if (hears_judge && ranks_[judge_index()].silent_seconds <= patience()) forget_answers();
    const Verdict verdict = judge(
        ranks_, patience(), has_met_ || hears_judge ? Unheard::may_be_running : unheard_before_meeting_);
    if (verdict.kind == Verdict::Kind::healthy || !prepare_report()) return;
    const bool is_alone = !has_met_ && !hears_judge && (rank_ != 0 || ranks_.size() == 1);
    if (is_alone) return end_job({message_of_waiting(own_state(), settings_.seconds), {}});
    end_job({message_of(verdict, ranks_, settings_.seconds), {ranks_.begin(), ranks_.end()}});
  }

  // Returns whether this rank may report now. If a rank no longer hears the judge, it first asks all other
  // ranks for their activities, to include them in the report. If several ranks ask, the lowest one reports.
  bool prepare_report() {
    if (is_judge() || !has_met_) return true;
    if (std::exchange(has_asked_, true)) return now_ >= reports_at_;
    reports_at_ = std::max(reports_at_, next_tick_);
    send_to_all(Kind::heartbeat, own_heartbeat());
    return false;
  }

  // Discards the answers of other ranks, which are outdated after the judge is heard again.
  void forget_answers() {
    has_asked_ = false;
    for (RankState& rank : ranks_) rank.was_heard = rank.rank == rank_ || &rank == &ranks_[judge_index()];
  }

  void warn_about_unheard_ranks() {
    const std::vector<int> ranks = unheard_ranks(ranks_);
    if (ranks.empty() || !settings_.warn) return;
    settings_.warn("the watchdog receives nothing from " + format_ranks(ranks) +
                   ", so it can detect only failures of the other ranks: datagrams (UDP, IPv4) are probably "
                   "blocked. Allow them between all machines of the job");
  }

  void end_job(const WatchdogReport& report) {
    is_over_ = true;
    const bool is_first = has_met_ || claim_first_on_machine(first_on_machine_);
    static_cast<void>(try_locally([&] {
      if (is_first && settings_.report) settings_.report(report);
      for (int i = 0; i < 3; ++i) {  // sent several times, since a datagram may be lost
        send_to_all(Kind::verdict, report.message);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }));
    // Give unreachable ranks time to notice the problem on their own, and to see that this rank has already
    // reported it.
    if (!has_met_ && is_first)
      std::this_thread::sleep_for(std::chrono::duration<double>(settings_.seconds * 0.9375 - patience()));
    if (settings_.terminate) settings_.terminate(report);
  }

  void send(std::size_t rank, Kind kind, const std::string& text) const {
    const std::string datagram =
        fmt::format("{} {} {} {}\n{}", secret_, static_cast<char>(kind), rank_, rank, text);
    for (const sockaddr_in& place : addresses_[rank]) socket_->send(place, datagram);
  }
  void send_to_all(Kind kind, const std::string& text) const {
    for (const RankState& rank : ranks_) {
      if (rank.rank != rank_) send(static_cast<std::size_t>(rank.rank), kind, text);
    }
  }
  /// Sends `text` to the judge or, if this rank is the judge, to all other ranks.
  void send_to_partners(Kind kind, const std::string& text) const {
    is_judge() ? send_to_all(kind, text) : send(judge_index(), kind, text);
  }

  void resize(std::size_t ranks) {
    ranks_.resize(ranks);
    addresses_.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) ranks_[rank].rank = static_cast<int>(rank);
  }
  [[nodiscard]] std::size_t own_index() const noexcept { return static_cast<std::size_t>(rank_); }
  [[nodiscard]] RankState& own_state() noexcept { return ranks_[own_index()]; }
  [[nodiscard]] std::size_t judge_index() const noexcept {
    return static_cast<std::size_t>(std::ranges::find(ranks_, false, &RankState::has_ended) - ranks_.begin());
  }
  [[nodiscard]] bool is_judge() const noexcept { return judge_index() == own_index(); }
  [[nodiscard]] std::string own_heartbeat() {
    return format_heartbeat(progress_.count(), own_state().host, activities());
  }
  /// Returns the seconds between heartbeats.
  [[nodiscard]] double interval() const noexcept {
    const double most = std::max(1.0, static_cast<double>(ranks_.size()) / heartbeats_per_second);
    return std::min((settings_.seconds > 0 ? settings_.seconds : 60) / 16, most);
  }
  /// Returns the seconds to wait before this rank gives a verdict. Ranks other than the judge wait longer, in
  /// ascending order of ranks, so that the first one can report for all.
  [[nodiscard]] double patience() const noexcept {
    return settings_.seconds * (is_judge() ? 0.75 : 0.9375 - 0.1 / rank_);
  }

  std::mutex mutex_;  // guards all members below
  WatchdogSettings settings_;
  int rank_;
  Unheard unheard_before_meeting_;
  GuardedWork startup_;
  std::uint64_t secret_ = 0;
  std::optional<Socket> socket_;
  std::vector<RankState> ranks_;
  // Possible addresses of each rank. After a heartbeat of the rank has arrived, only the address that sent
  // it.
  std::vector<std::vector<sockaddr_in>> addresses_;
  OwnProgress progress_;
  Clock::time_point last_ = Clock::now();
  double now_ = 0;  // elapsed seconds, without the time for which this rank was suspended
  double sampled_at_ = 0;
  double next_tick_ = 0;
  double next_heartbeat_ = 0;
  double reports_at_ = 0;      // earliest time to report that the judge is silent
  int first_on_machine_ = -1;  // socket of claim_first_on_machine()
  bool has_asked_ = false;
  bool has_met_ = false;
  bool has_warned_ = false;
  bool is_over_ = false;
  std::jthread thread_;  // declared last, since it uses the other members
};

Watchdog::Watchdog(const Communicator& comm, WatchdogSettings settings) {
  require_ranks_of_one_group(comm);
  fail_together(comm, try_locally([&] {
                  if (settings.seconds >= 0) return;
                  throw InputError("watchdog seconds",
                                   fmt::format("is {:g}; it must be at least 0", settings.seconds),
                                   "Use 0 to disable the watchdog");
                }));
  if (comm.size() == 1 || settings.seconds == 0) return;
  runner_ = run_together(comm, [&] {
    return std::make_unique<Runner>(comm.rank(), comm.size(), Unheard::may_be_running, std::move(settings));
  });
  runner_->start_watching(comm);
}

Watchdog::Watchdog(OneRank own, WatchdogSettings settings)
    : runner_(
          std::make_unique<Runner>(own.rank, own.rank + 1, Unheard::has_not_arrived, std::move(settings))) {}

void Watchdog::start_watching(const Communicator& comm) {
  require_ranks_of_one_group(comm);
  EVENKEEL_PRECONDITION(cheap, runner_ != nullptr);
  comm.size() == 1 ? runner_.reset() : runner_->start_watching(comm);
}

void Watchdog::set_seconds(double seconds) {
  EVENKEEL_PRECONDITION(cheap, seconds >= 0, seconds);
  if (seconds == 0) runner_.reset();
  if (runner_) runner_->set_seconds(seconds);
}

Watchdog::~Watchdog() = default;

void Watchdog::record_progress() noexcept {
  evenkeel::record_progress();
}

WatchdogSettings default_watchdog_settings(double seconds) {
  WatchdogSettings settings;
  settings.seconds = seconds;
  settings.report = [](const WatchdogReport& report) { print_line("evenkeel: error: " + report.text()); };
  settings.terminate = [](const WatchdogReport&) { std::_Exit(EXIT_FAILURE); };
  settings.warn = [](const std::string& text) { print_line("evenkeel: warning: " + text); };
  return settings;
}

}  // namespace evenkeel
