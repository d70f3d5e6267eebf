#pragma once

#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/server.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel::arriving_test {

using testing_support::received;
using testing_support::rollout_line;

/// A buffer in this process that can be closed, and reopened at the same port.
class OpenBuffer {
 public:
  explicit OpenBuffer(stream::StreamSettings settings, const DeclaredFormats& formats = {})
      : buffer_(std::make_unique<Buffer>(make_memory_store(1 << 20), settings, formats)) {
    open(0);
  }
  ~OpenBuffer() {
    buffer_->stop();
    close();
  }

  Buffer& operator*() { return *buffer_; }
  Buffer* operator->() { return buffer_.get(); }
  [[nodiscard]] std::string url() const { return server_->url(); }
  void open(int port) {
    server_.emplace(*buffer_, ServerSettings{.port = port});
    thread_ = std::thread([this] { server_->serve(); });
  }
  void open_again() { open(closed_port_); }
  void close() {
    closed_port_ = server_->port();
    server_->stop();
    thread_.join();
  }
  void close_and_open_again() {
    std::promise<void> closed;
    close_and_open_again(std::chrono::milliseconds(0), closed);
  }
  void close_and_open_again(std::chrono::milliseconds pause, std::promise<void>& closed) {
    const int port = server_->port();
    close();
    server_.reset();
    closed.set_value();
    std::this_thread::sleep_for(pause);
    open(port);
  }

 private:
  std::unique_ptr<Buffer> buffer_;
  std::optional<BufferServer> server_;
  int closed_port_ = 0;
  std::thread thread_;
};

class Arriving : public testing::Test {
 protected:
  ~Arriving() override { world_.barrier(); }

  void open(const stream::StreamSettings& settings, const DeclaredFormats& formats = {}) {
    if (world_.rank() == 0) {
      buffer_ = std::make_unique<OpenBuffer>(settings, formats);
      path_ = "'" + buffer_->url() + "'";
    }
    boost::mpi::broadcast(world_, path_, 0);
  }
  void open_groups_of(std::int64_t size) { open(testing_support::groups_of(size)); }

  template <typename Act>
  void on_buffer(Act&& act) {
    if (buffer_) act(**buffer_);
    world_.barrier();
  }
  /// Sends groups "g<from>" .. "g<to - 1>" with two samples each, whose tokens start with their number.
  void send_groups(int from, int to, int version = 0) {
    on_buffer([&](Buffer& buffer) {
      for (int g = from; g < to; ++g) {
        const std::string name = "g" + std::to_string(g);
        buffer.accept_samples(
            received(rollout_line(name, 1, version, g + 1) + rollout_line(name, 0, version, g + 1)));
      }
    });
  }
  void end() {
    on_buffer([](Buffer& buffer) { buffer.end_stream(); });
  }
  [[nodiscard]] Config config_of(const std::vector<std::string>& overrides = {}) const {
    return parse_config("source: {kind: stream, path: " + path_ + "}\nbatch: {global_batch: 4}\n", "test",
                        overrides);
  }

  /// Returns the lengths of a step's samples, over all ranks.
  [[nodiscard]] std::vector<std::int64_t> lengths_of(SampleStream& stream, std::int64_t step) const {
    std::vector<std::int64_t> mine;
    const RaggedBatch batch = stream.read(step);
    for (const SampleShape& shape : batch.samples()) mine.push_back(shape.length());
    std::vector<std::vector<std::int64_t>> of_ranks;
    boost::mpi::all_gather(world_, mine, of_ranks);
    std::vector<std::int64_t> all;
    for (const auto& of_rank : of_ranks) all.insert(all.end(), of_rank.begin(), of_rank.end());
    return all;
  }

  boost::mpi::communicator world_;
  std::unique_ptr<OpenBuffer> buffer_;  // on rank 0
  std::string path_;                    // source.path
};

}  // namespace evenkeel::arriving_test
