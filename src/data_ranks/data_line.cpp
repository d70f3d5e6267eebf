#include "data_ranks/data_line.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <boost/serialization/optional.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <list>
#include <memory>
#include <span>

#include "base/activity.hpp"
#include "base/poll_pause.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/mpi_call.hpp"
#include "transport/archive_bytes.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t not_known = -1;

std::string data_ranks_in_words(std::int64_t data) {
  return data == 1 ? "rank 0 is the data rank" : "ranks 0 to " + std::to_string(data - 1) + " are data ranks";
}

// `words` has two a rank: its part, and how many data ranks it knows of.
/// What a rank tells the others of itself.
using OwnWords = std::array<std::int64_t, 3>;

FirstMeeting meeting_of(std::span<const OwnWords> words) {
  FirstMeeting meeting;
  std::optional<int>& data = meeting.data_ranks;
  std::size_t first = 0;
  bool anybody_serves = false;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    const auto [part, known, watches] = words[rank];
    if (part == static_cast<std::int64_t>(Part::undecided)) meeting.are_all_decided = false;
    if (watches == 0) meeting.all_watch = false;
    anybody_serves = anybody_serves || part == static_cast<std::int64_t>(Part::serves);
    if (known == not_known) continue;
    if (!data) {
      data = static_cast<int>(known);
      first = rank;
    } else if (known != *data) {
      throw ConfigError("mesh.data_ranks",
                        "is " + std::to_string(*data) + " on rank " + std::to_string(first) + " and " +
                            std::to_string(known) + " on rank " + std::to_string(rank),
                        "Give every rank the same configuration, data ranks and trainers alike");
    }
  }
  if (!data || (*data == 0 && !anybody_serves)) return meeting;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    const auto part = static_cast<Part>(words[rank][0]);
    const bool should_serve = static_cast<std::int64_t>(rank) < *data;
    if (part == Part::undecided && !(should_serve && anybody_serves)) continue;
    if (should_serve == (part == Part::serves)) continue;
    const std::string who = "rank " + std::to_string(rank);
    if (*data == 0) {
      throw ConfigError("mesh.data_ranks", "is 0, but " + who + " serves",
                        "Set it to the number of ranks that run `evenkeel serve`");
    }
    throw ConfigError("mesh.data_ranks",
                      "is " + std::to_string(*data) + ", so that " + data_ranks_in_words(*data) + ", but " +
                          who + (should_serve ? " trains" : " serves"),
                      "Start exactly the first ranks with serve: mpirun -n " + std::to_string(*data) +
                          " evenkeel serve CONFIG : -n ... trainer (with Open MPI 5, --rank-by slot)");
  }
  return meeting;
}

/// What travels of a call before its texts.
struct CallHeader {
  DataCallKind kind = DataCallKind::finish;
  std::int32_t accepts_changes = 0;
  std::uint64_t service = 0;
  std::int64_t number = 0;
  std::uint64_t held = 0;
  std::uint64_t released = 0;
  StepOrigin step;
  std::int64_t text_bytes = 0;  ///< -1: they could not be made
};

/// The texts of a call, as they travel.
struct CallTexts {
  std::string profile;
  std::vector<std::string> names;
  std::string state;
  bool has_state = false;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& profile& names& state& has_state;
  }
};

constexpr int call_tag = 1;

/// A service that has gone, of which the trainer may still hold passes.
struct EndedService {
  std::uint64_t service = 0;
  HeldPasses held;
};

struct Line {
  MPI_Comm world = MPI_COMM_NULL;  // the caller's: only compared
  Communicator everyone;
  Communicator trainers_or_data;  // the ranks with this one's part
  int data_ranks = 0;
  bool serves = false;
  // On trainers.
  std::list<EndedService> ended;
  std::uint64_t streams = 0;

  [[nodiscard]] int first_data_rank() const { return everyone.size() - data_ranks; }
};

std::unique_ptr<Line>& line() {
  static std::unique_ptr<Line> kept;
  return kept;
}

bool is_same(MPI_Comm one, MPI_Comm other) {
  int result = MPI_UNEQUAL;
  check_mpi(MPI_Comm_compare(one, other, &result), "MPI_Comm_compare");
  return result == MPI_IDENT;
}

void send(const Line& to, const CallHeader& header, std::string_view text) {
  const Waiting waiting("MPI_Send");
  for (int rank = to.first_data_rank(); rank < to.everyone.size(); ++rank) {
    check_mpi(MPI_Send(&header, sizeof header, MPI_BYTE, rank, call_tag, to.everyone), "MPI_Send");
    if (text.empty()) continue;
    check_mpi(MPI_Send(text.data(), static_cast<int>(text.size()), MPI_BYTE, rank, call_tag, to.everyone),
              "MPI_Send");
  }
}

// One whose last pass the trainer has let go of since it ended; 0 where there is none.
std::uint64_t take_released(std::list<EndedService>& ended) {
  const auto found = std::ranges::find_if(ended, [](EndedService& one) { return !one.held.first(); });
  if (found == ended.end()) return 0;
  const std::uint64_t service = found->service;
  ended.erase(found);
  return service;
}

// When MPI_Finalize begins, the trainers make no more calls: the data ranks may end.
int let_data_ranks_end(MPI_Comm /*self*/, int /*key*/, void* /*value*/, void* /*state*/) {
  try {
    DataLine::take_up();
    return MPI_SUCCESS;
  } catch (const MpiError&) {
    return MPI_ERR_OTHER;
  }
}

void call_at_finalize() {
  int key = MPI_KEYVAL_INVALID;
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, let_data_ranks_end, &key, nullptr),
            "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
}

Communicator lay_line(const Communicator& world, const Config& config, Part part,
                      const std::function<void()>& watch = {}) {
  require_ranks_of_one_group(world);
  const int data = config.mesh.data_ranks;
  if (const Line* known = line().get(); known != nullptr) {
    const bool is_known = is_same(known->world, world);
    if (is_known && data == known->data_ranks) return known->everyone;
    if (is_known) {
      throw ConfigError("mesh.data_ranks",
                        "is " + std::to_string(data) + ", and was " + std::to_string(known->data_ranks) +
                            " when the data ranks were met",
                        "Use the same number for all services of a communicator");
    }
    if (data > 0) {
      throw InputError(
          "communicator", "differs from the first one that was used with data ranks",
          "Make all services, prefetchers and streams over the communicator of `evenkeel serve`");
    }
  }
  bool are_all_decided = false;
  while (!are_all_decided) {
    const FirstMeeting meeting = meet(world, part, data, static_cast<bool>(watch));
    are_all_decided = meeting.are_all_decided;
    if (meeting.all_watch) watch();
  }
  if (data == 0) return world;
  if (world.foreign() != nullptr) {
    throw ConfigError("mesh.data_ranks", "is " + std::to_string(data) + ", and data ranks need MPI",
                      "Set it to 0, or start all ranks under mpirun");
  }
  fail_together(world, try_on_replicated_data([&] { static_cast<void>(config.grid(world.size())); }));
  auto made = together(world, [] { return std::make_unique<Line>(); });
  made->world = world;
  made->data_ranks = data;
  made->serves = part == Part::serves;
  made->everyone = world.split(0, made->serves ? world.size() + world.rank() : world.rank());
  made->trainers_or_data = made->everyone.split(made->serves ? 1 : 0, world.rank());
  line() = std::move(made);
  if (line()->everyone.rank() == 0) call_at_finalize();
  return line()->everyone;
}

}  // namespace

FirstMeeting meet(const Communicator& world, Part part, std::optional<int> mine, bool watches) {
  const OwnWords own{static_cast<std::int64_t>(part), mine.value_or(not_known), watches ? 1 : 0};
  std::vector<OwnWords> words =
      together(world, [&] { return std::vector<OwnWords>(static_cast<std::size_t>(world.size())); });
  world.all_gather<OwnWords>(own, words);
  FirstMeeting meeting;
  fail_together(world, try_on_replicated_data([&] { meeting = meeting_of(words); }));
  return meeting;
}

void fail_to_meet(const Communicator& world, const ErrorReport& error) {
  require_ranks_of_one_group(world);
  // Where data ranks were met before, nobody meets.
  if (const Line* known = line().get(); known == nullptr || !is_same(known->world, world))
    fail_together(world, error);  // as meet() begins
  throw_in_any_case(error);
}

Communicator DataLine::ranks(const Communicator& world, const Config& config) {
  return lay_line(world, config, Part::trains);
}

Communicator DataLine::lay(const Communicator& world, const Config& config,
                           const std::function<void()>& watch) {
  return lay_line(world, config, Part::serves, watch);
}

void DataLine::take_up() {
  const std::unique_ptr<Line> last = std::move(line());
  if (last && !last->serves && last->everyone.rank() == 0) send(*last, {}, {});
}

std::uint64_t DataLine::count_stream() noexcept {
  return ++line()->streams;
}

bool DataLine::is_newest_stream(std::uint64_t number) noexcept {
  return line() && line()->streams == number;
}

bool DataLine::is_laid() noexcept {
  return line() != nullptr;
}

const Communicator& DataLine::data_ranks() noexcept {
  return line()->trainers_or_data;
}

int DataLine::first_data_rank() noexcept {
  return line()->first_data_rank();
}

void DataLine::tell(const DataCall& call, GuardedWork& work) {
  if (!line()) {
    throw InputError("data ranks", "were dismissed, and are called again",
                     "Dismiss them after the last stream, prefetcher and service over them was destroyed");
  }
  if (line()->serves || line()->everyone.rank() != 0) return;
  std::string text;
  work([&] {
    text = to_archive(
        CallTexts{call.profile, call.names, call.state.value_or(std::string()), call.state.has_value()});
  });
  const CallHeader header{call.kind, call.accepts_changes ? 1 : 0, call.service, call.number,
                          call.held, take_released(line()->ended), call.step,    std::ssize(text)};
  send(*line(), header, text);
}

void DataLine::tell_to_make(DataCall call, const Resumption* from, GuardedWork& work) {
  if (from != nullptr) {
    call.accepts_changes = from->changed == ChangedJob::accepted;
    work([&] { call.state = to_text(from->state); });
  }
  tell(call, work);
}

void DataLine::tell_of_end(const DataCall& call, HeldPasses held, GuardedWork& work) {
  const bool tells = line() && !line()->serves && line()->everyone.rank() == 0;
  if (tells && !held.empty()) work([&] { line()->ended.push_back({call.service, std::move(held)}); });
  tell(call, work);
}

DataCall DataLine::listen(GuardedWork& work, const std::function<void()>& meanwhile) {
  const Communicator& everyone = line()->everyone;
  const Waiting waiting("MPI_Iprobe", WaitFor::trainer);
  const PollPause pause;
  for (int arrived = 0;;) {
    check_mpi(MPI_Iprobe(0, call_tag, everyone, &arrived, MPI_STATUS_IGNORE), "MPI_Iprobe");
    if (arrived != 0) break;
    meanwhile();
    pause();
  }
  CallHeader header;
  check_mpi(MPI_Recv(&header, sizeof header, MPI_BYTE, 0, call_tag, everyone, MPI_STATUS_IGNORE), "MPI_Recv");
  DataCall call;
  call.kind = header.kind;
  call.service = header.service;
  call.number = header.number;
  call.held = header.held;
  call.released = header.released;
  call.step = header.step;
  call.accepts_changes = header.accepts_changes != 0;
  if (header.text_bytes <= 0) return call;
  // Profiles, names and a state of at most 64 KiB: no more than an int counts.
  std::string text;
  work([&] { text.resize(static_cast<std::size_t>(header.text_bytes)); });
  if (work.failed()) {
    // Taken off the line all the same: a receive without room cuts it off.
    char scrap = 0;
    static_cast<void>(MPI_Recv(&scrap, 1, MPI_BYTE, 0, call_tag, everyone, MPI_STATUS_IGNORE));
    return call;
  }
  check_mpi(MPI_Recv(text.data(), static_cast<int>(text.size()), MPI_BYTE, 0, call_tag, everyone,
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
  work([&] {
    CallTexts texts;
    from_archive(std::move(text), texts);
    call.profile = std::move(texts.profile);
    call.names = std::move(texts.names);
    if (texts.has_state) call.state = std::move(texts.state);
  });
  return call;
}

}  // namespace evenkeel
