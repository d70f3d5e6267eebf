#include "evenkeel/data_ranks/serve.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "data_ranks/data_line.hpp"
#include "data_ranks/hosted/services.hpp"
#include "data_ranks/hosted/stream.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

/// What has been read, by any thread.
class Served {
 public:
  void add(const RaggedBatch& batch) {
    const std::lock_guard lock(mutex_);
    ++sums_.steps;
    sums_.samples += batch.size();
    for (const SampleShape& shape : batch.samples()) sums_.tokens += shape.length();
  }
  [[nodiscard]] ServedSamples sums() {
    const std::lock_guard lock(mutex_);
    return sums_;
  }

 private:
  std::mutex mutex_;
  ServedSamples sums_;
};

RaggedBatch read_from(const std::shared_ptr<ServedStream>& stream, std::int64_t step, Served& served) {
  if (!stream) {
    throw InputError("samples", "were requested, but no stream is open",
                     "Make a SampleStream over the same communicator on the trainers first");
  }
  RaggedBatch batch = stream->read(step);
  served.add(batch);
  return batch;
}

// Collective with trainers that make a stream. A rank that lacks the memory, or has not heard what for, says
// so where the others first agree.
std::shared_ptr<ServedStream> open_stream(const Communicator& everyone, const Config& config,
                                          const DataCall& call, std::int64_t most_steps, GuardedWork& work) {
  std::shared_ptr<ServedStream> stream;
  work([&] { stream = std::make_shared<ServedStream>(everyone, config); });
  work.agree(everyone);
  stream->open(config, call, most_steps);
  return stream;
}

/// What a data rank has while it serves.
class Serving {
 public:
  Serving(Communicator everyone, const Config& config, std::int64_t most_steps)
      : config_(config),
        most_steps_(most_steps),
        everyone_(std::move(everyone)),
        services_(everyone_, config, [this]() -> HostedServices::Reader {
          return [stream = newest_, this](std::int64_t step) { return read_from(stream, step, served_); };
        }) {}

  /// Answers the next call; false after the last one.
  [[nodiscard]] bool answer() {
    GuardedWork heard;
    const DataCall call = DataLine::listen(heard, [this] { services_.throw_lone_error(); });
    services_.let_go(call);
    switch (call.kind) {
      case DataCallKind::finish:
        DataLine::take_up();
        return false;
      case DataCallKind::open_stream:
        leave_errors_to_trainers(
            [&] { newest_ = open_stream(everyone_, config_, call, most_steps_, heard); });
        return true;
      case DataCallKind::describe_stream:
        leave_errors_to_trainers([&] { newest_->describe(); });
        return true;
      case DataCallKind::tell_delay:
        leave_errors_to_trainers([&] { newest_->tell_delay(); });
        return true;
      case DataCallKind::tell_arrivals:
        leave_errors_to_trainers([&] { newest_->tell_arrivals(); });
        return true;
      case DataCallKind::stop_waiting:
        if (newest_) newest_->stop_waiting();
        return true;
      case DataCallKind::publish_version:
        leave_errors_to_trainers([&] { newest_->publish(call.number); });
        return true;
      case DataCallKind::steps_trained:
        leave_errors_to_trainers([&] { newest_->trained(call.number); });
        return true;
      case DataCallKind::make_prefetcher:
        if (newest_) newest_->wait_again();  // after an earlier one, whose end stopped the waiting
        services_.answer(call, heard);
        return true;
      default:
        services_.answer(call, heard);
        return true;
    }
  }

  [[nodiscard]] ServedSamples sums() { return served_.sums(); }

 private:
  const Config& config_;
  std::int64_t most_steps_;
  Communicator everyone_;
  Served served_;
  std::shared_ptr<ServedStream> newest_;
  HostedServices services_;  // last: its threads use the others
};

}  // namespace

ServedSamples serve(const Communicator& world, const Config& config, std::int64_t most_steps) {
  Communicator everyone = DataLine::lay(world, config);
  auto serving = std::make_unique<Serving>(std::move(everyone), config, most_steps);
  try {
    while (serving->answer()) continue;
    return serving->sums();
  } catch (const Error& error) {
    // Its threads wait for ranks that this one cannot meet any more: whoever waited for them would never hear
    // of the error. So they stay, until the process ends.
    if (is_alone(error.report())) static_cast<void>(serving.release());
    throw;
  }
}

void dismiss_data_ranks() {
  DataLine::take_up();
}

}  // namespace evenkeel
