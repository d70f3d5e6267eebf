#include "source/arriving/own_buffer.hpp"

#include <unistd.h>

#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "base/text/host_port.hpp"
#include "buffer/buffer.hpp"
#include "buffer/door.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

stream::StreamSettings rules_of(const ArrivalSettings& settings) {
  stream::StreamSettings rules;
  rules.group_size = settings.group_size.value_or(1);
  rules.min_group = settings.min_group;
  rules.deadline = settings.deadline;
  rules.max_staleness = settings.max_staleness;
  rules.on_stale = settings.on_stale.value_or(OnStale::wait);
  rules.validate();
  return rules;
}

/// The key has been looked at when it was read.
DoorSettings door_of(const ArrivalSettings& settings, const std::string& token) {
  DoorSettings door;
  const HostPort listen = host_and_port(settings.listen).value();
  door.address = listen.host;
  door.port = listen.port;
  door.token = token;
  return door;
}

bool is_any_address(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}

std::string name_of_machine() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw IoError("this machine", "has no name");
  return name.data();
}

}  // namespace

struct OwnBuffer::Parts {
  Parts(const ArrivalSettings& settings, const std::string& token)
      : address(door_of(settings, token).address),
        buffer(settings.store == "memory" ? make_memory_store(settings.capacity)
                                          : open_lmdb_store(settings.dir, settings.capacity),
               rules_of(settings)),
        door(buffer, door_of(settings, token)),
        thread([this] { door.serve(); }) {}
  ~Parts() {
    buffer.stop();
    door.stop();
    thread.join();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  std::string address;
  Buffer buffer;
  Door door;
  std::thread thread;
};

OwnBuffer::OwnBuffer(const ArrivalSettings& settings, const std::string& token)
    : parts_(std::make_unique<Parts>(settings, token)) {}

OwnBuffer::~OwnBuffer() = default;

std::string OwnBuffer::url() const {
  if (!is_any_address(parts_->address)) return parts_->door.url();
  return "http://" + name_of_machine() + ":" + std::to_string(parts_->door.port());
}

bool OwnBuffer::is_open_to_others() const {
  return !is_loopback(parts_->address);
}

}  // namespace evenkeel
