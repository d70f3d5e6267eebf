#include "evenkeel/mesh/watchdog.hpp"

#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/datagrams.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "mesh/nodes.hpp"
#include "mesh/own_signs.hpp"
#include "mesh/rank_table.hpp"
#include "mesh/verdict.hpp"

namespace evenkeel {
namespace {

/// What ranks tell each other through MPI, once.
struct Introduction {
  static constexpr std::size_t most_addresses = 8;

  std::array<char, 64> host{};
  std::uint64_t secret = 0;  ///< of rank 0: what has another one is of another job
  std::array<std::uint32_t, most_addresses> addresses{};
  std::int32_t num_addresses = 0;
  std::int32_t port = 0;
};

enum class Kind : std::uint32_t {
  sign,     ///< of life; a judge answers it
  heard,    ///< a judge's answer
  verdict,  ///< a judge's, in words: the job ends
  goodbye   ///< the sender's watchdog goes, as it should
};

struct Header {
  std::uint64_t secret = 0;
  Kind kind = Kind::sign;
  std::int32_t rank = 0;
};

struct SignMessage {
  Header header;
  SignOfLife sign;
};

struct VerdictMessage {
  Header header;
  std::array<char, 1024> text{};
};

static_assert(sizeof(SignMessage) <= Datagrams::most_bytes &&
              sizeof(VerdictMessage) <= Datagrams::most_bytes);

template <typename Message>
std::span<const std::byte> bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}

template <typename Message>
std::optional<Message> message_in(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

Introduction introduce(int rank, const Datagrams& datagrams) {
  Introduction mine;
  ::gethostname(mine.host.data(), mine.host.size() - 1);
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

// The first rank, and the first of another node: whatever one machine or link does, one of them sees it.
std::array<int, 2> judges_among(std::span<const int> nodes) {
  const auto other = std::ranges::find_if(nodes, [&](int node) { return node != nodes.front(); });
  return {0, other == nodes.end() ? 1 : static_cast<int>(other - nodes.begin())};
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

void print_line(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

/// When what is done, in seconds. All that happens after an event is over within `whole`.
struct Times {
  Times(double seconds, int ranks)
      : whole(seconds), interval(std::min(seconds / 16, std::max(1.0, ranks / ranks_a_second))) {}

  static constexpr double ranks_a_second = 2000;  // that a judge hears without any trouble

  double whole;
  double interval;                  ///< between signs of life
  double patience = whole * 3 / 4;  ///< of the first judge
  double grace = whole / 12;        ///< more: of the other judge, and once more of the rest
};

}  // namespace

class Watchdog::Parts {
 public:
  Parts(const Communicator& comm, WatchdogSettings settings)
      : settings_(std::move(settings)), times_(settings_.seconds, comm.size()), rank_(comm.rank()) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    thread_.request_stop();
    if (datagrams_) datagrams_->wake();
  }

  /// Collective: ranks tell each other where they are, and begin to watch.
  void meet(const Communicator& comm);

 private:
  /// A rank that signs of life go to.
  struct Judge {
    int rank = 0;
    std::vector<sockaddr_in> addresses;  // maybe; one of them once it has answered
    double heard_at = 0;
    bool is_heard = false;
    bool has_ended = false;
  };

  void know_judges(std::span<const Introduction> all, std::span<const int> nodes);
  void watch(const std::stop_token& stop);
  void pass_time();
  void tick();
  void hear(const Datagrams::Received& received);
  void hear_sign(const SignMessage& message, const sockaddr_in& from);
  void hear_goodbye(int rank);
  void decide();
  void decide_without_judges();
  void warn_of_unheard(std::span<const RankSigns> signs);
  void end_job(WatchdogReport report);
  void say_goodbye();
  [[nodiscard]] Judge* judge_of(int rank) noexcept;
  [[nodiscard]] bool judges() const noexcept { return table_.has_value(); }
  [[nodiscard]] Header header(Kind kind) const noexcept { return {secret_, kind, rank_}; }

  using Clock = std::chrono::steady_clock;

  WatchdogSettings settings_;
  Times times_;
  int rank_;
  std::uint64_t secret_ = 0;
  std::optional<Datagrams> datagrams_;
  std::array<Judge, 2> judges_;
  std::optional<RankTable> table_;      // of a judge
  std::vector<sockaddr_in> told_from_;  // of a judge: whence each rank was heard
  OwnSigns own_;
  Clock::time_point last_ = Clock::now();
  double now_ = 0;  // seconds in which this rank could watch: those in which it was suspended do not count
  double next_tick_ = 0;
  std::latch first_sign_{1};
  bool has_warned_ = false;
  bool is_over_ = false;
  std::jthread thread_;  // last: it uses the others
};

void Watchdog::Parts::meet(const Communicator& comm) {
  GuardedWork work;
  Introduction mine;
  std::vector<Introduction> all;
  work([&] {
    datagrams_.emplace();
    mine = introduce(rank_, *datagrams_);
    all.resize(static_cast<std::size_t>(comm.size()));
  });
  work.agree(comm);
  comm.all_gather<Introduction>(mine, all);
  const std::vector<int> nodes = nodes_of_ranks(comm);
  if (comm.foreign() == nullptr) notice_finalize();
  together(comm, [&] {
    secret_ = all.front().secret;
    know_judges(all, nodes);
    const SignalsBlocked blocked;
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    // Whoever is stopped from here on has been heard, and will be missed.
    first_sign_.wait();
  });
}

void Watchdog::Parts::know_judges(std::span<const Introduction> all, std::span<const int> nodes) {
  const std::array<int, 2> ranks = judges_among(nodes);
  for (std::size_t j = 0; j < ranks.size(); ++j) {
    const auto at = static_cast<std::size_t>(ranks[j]);
    const Introduction& judge = all[at];
    const auto port = static_cast<std::uint16_t>(judge.port);
    judges_[j].rank = ranks[j];
    if (nodes[at] == nodes[static_cast<std::size_t>(rank_)])
      judges_[j].addresses.push_back(socket_address(loopback_address(), port));
    for (const std::uint32_t address :
         std::span(judge.addresses).first(static_cast<std::size_t>(judge.num_addresses)))
      judges_[j].addresses.push_back(socket_address(address, port));
  }
  if (judge_of(rank_) == nullptr) return;
  std::vector<std::string> hosts;
  for (const Introduction& other : all)
    hosts.emplace_back(other.host.data(), strnlen(other.host.data(), other.host.size()));
  table_.emplace(std::move(hosts));
  told_from_.resize(all.size());
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
  tick();
  first_sign_.count_down();
  next_tick_ = times_.interval * std::modf(rank_ * golden_ratio, &whole);
  while (!stop.stop_requested() && !is_over_) {
    pass_time();
    if (now_ >= next_tick_) {
      next_tick_ = now_ + times_.interval;
      tick();
    }
    const double left = std::max(0.0, next_tick_ - now_);
    if (const auto received = datagrams_->receive(static_cast<int>(std::ceil(left * 1000)))) {
      pass_time();
      hear(*received);
    }
  }
  if (!is_over_) say_goodbye();
}

// A longer time than it takes to watch was spent in a debugger, or with the whole job suspended.
void Watchdog::Parts::pass_time() {
  const Clock::time_point now = Clock::now();
  const double passed = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  now_ += std::min(passed, 2 * times_.interval);
}

void Watchdog::Parts::tick() {
  own_.sample(times_.interval);
  const SignMessage message{header(Kind::sign), sign_of(own_.progress(), own_.threads())};
  if (judges()) table_->hears(rank_, message.sign, now_);
  for (const Judge& judge : judges_) {
    if (judge.rank == rank_) continue;
    for (const sockaddr_in& address : judge.addresses) datagrams_->send(address, bytes_of(message));
  }
  judges() ? decide() : decide_without_judges();
}

void Watchdog::Parts::hear(const Datagrams::Received& received) {
  if (received.bytes.size() < sizeof(Header)) return;
  const Header header = *message_in<Header>(received.bytes.first(sizeof(Header)));
  if (header.secret != secret_ || header.rank == rank_) return;
  if (header.kind == Kind::sign) {
    if (const auto message = message_in<SignMessage>(received.bytes)) hear_sign(*message, received.from);
  } else if (header.kind == Kind::goodbye) {
    hear_goodbye(header.rank);
  } else if (Judge* judge = judge_of(header.rank); judge != nullptr && header.kind == Kind::heard) {
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
  told_from_[static_cast<std::size_t>(rank)] = from;
  datagrams_->send(from, bytes_of(header(Kind::heard)));
}

void Watchdog::Parts::hear_goodbye(int rank) {
  if (judges() && rank >= 0 && rank < table_->size()) table_->ends(rank);
  if (Judge* judge = judge_of(rank)) judge->has_ended = true;
}

void Watchdog::Parts::decide() {
  const bool is_first = rank_ == judges_.front().rank;
  const double patience = times_.patience + (is_first ? 0 : times_.grace);
  const std::vector<RankSigns> signs = table_->signs(now_);
  if (is_first) warn_of_unheard(signs);
  const Verdict verdict = judge(signs, patience);
  if (verdict.kind == Verdict::Kind::healthy) return;
  WatchdogReport report;
  report.ranks = table_->ranks(now_);
  report.message = message_of(verdict, report.ranks, times_.whole);
  end_job(std::move(report));
}

// Where both cannot be heard any more, this rank's machine is cut off, or so is the rest.
void Watchdog::Parts::decide_without_judges() {
  const double patience = times_.patience + 2 * times_.grace;
  for (const Judge& judge : judges_) {
    if (!judge.is_heard || judge.has_ended || now_ - judge.heard_at <= patience) return;
  }
  WatchdogReport report;
  report.message = "rank " + std::to_string(rank_) + " hears neither rank " +
                   std::to_string(judges_[0].rank) + " nor rank " + std::to_string(judges_[1].rank) +
                   " any more: they are stopped, or their machines or this one's link are down";
  end_job(std::move(report));
}

void Watchdog::Parts::warn_of_unheard(std::span<const RankSigns> signs) {
  if (has_warned_ || now_ <= times_.patience) return;
  has_warned_ = true;
  const std::vector<int> ranks = unheard(signs);
  if (ranks.empty() || !settings_.warns) return;
  settings_.warns("the watchdog does not hear " + named(ranks) +
                  ": datagrams (UDP, IPv4) do not get through. It sees only that others fall silent");
}

void Watchdog::Parts::end_job(WatchdogReport report) {
  is_over_ = true;
  if (settings_.tells) settings_.tells(report);
  VerdictMessage message{header(Kind::verdict)};
  report.message.copy(message.text.data(), message.text.size() - 1);
  constexpr int times = 3;  // one may get lost
  for (int i = 0; i < times && judges(); ++i) {
    for (int rank = 0; rank < table_->size(); ++rank) {
      if (rank != rank_ && table_->has_heard(rank))
        datagrams_->send(told_from_[static_cast<std::size_t>(rank)], bytes_of(message));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (settings_.ends) settings_.ends(report);
}

void Watchdog::Parts::say_goodbye() {
  const Header message = header(Kind::goodbye);
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

WatchdogSettings ending_the_process(double seconds) {
  constexpr std::size_t width = 120;
  WatchdogSettings settings;
  settings.seconds = seconds;
  settings.tells = [](const WatchdogReport& report) { print_line("evenkeel: error: " + report.text(width)); };
  settings.ends = [](const WatchdogReport&) { std::_Exit(EXIT_FAILURE); };
  settings.warns = [](const std::string& text) { print_line("evenkeel: warning: " + text); };
  return settings;
}

Watchdog::Watchdog(const Communicator& comm, WatchdogSettings settings) {
  require_ranks_of_one_group(comm);
  fail_together(comm, try_locally([&] {
                  if (settings.seconds >= 0) return;
                  throw InputError("seconds of a Watchdog", std::to_string(settings.seconds) + " are below 0",
                                   "Use 0 to watch nothing");
                }));
  if (comm.size() == 1 || settings.seconds == 0) return;
  parts_ = together(comm, [&] { return std::make_unique<Parts>(comm, std::move(settings)); });
  parts_->meet(comm);
}

Watchdog::~Watchdog() = default;

void Watchdog::tell_progress() noexcept {
  evenkeel::tell_progress();
}

}  // namespace evenkeel
