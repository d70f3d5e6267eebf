#include "buffer/values/client_area.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "buffer/value_frames.hpp"
#include "buffer/values/value_server.hpp"
#include "buffer/values/value_store.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing_support::make_frame;
using testing_support::ScratchFolder;

constexpr std::int64_t bytes_of_value = 300'000;

/// A file of this process.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  void write(const std::string& bytes) const {
    ASSERT_EQ(::pwrite(descriptor_, bytes.data(), bytes.size(), 0), std::ssize(bytes));
  }
  [[nodiscard]] std::string read(std::size_t bytes) const {
    std::string read(bytes, '\0');
    EXPECT_EQ(::pread(descriptor_, read.data(), bytes, 0), std::ssize(read));
    return read;
  }

 private:
  const int descriptor_;
};

class ClientAreas : public testing::Test {
 protected:
  ClientAreas()
      : store_(make_memory_store(64 << 20)),
        server_(store_, {.port = 0, .socket = scratch_.path() / "socket"}, {}),
        serving_([this] { server_.serve(); }),
        local_((scratch_.path() / "socket").string()) {
    local_.set_address_family(AF_UNIX);
    while (!local_.Get("/v1/status")) std::this_thread::sleep_for(1ms);
  }
  ~ClientAreas() override {
    store_.stop();
    server_.stop();
    serving_.join();
  }

  /// Puts a frame of this process's memory, in pieces of this size, which the area lists.
  httplib::Result put(const OpenFile& area, const std::string& frame, std::size_t piece) {
    std::string list;
    for (std::size_t at = 0; at < frame.size(); at += piece)
      list += listed(frame.data() + at, std::min(piece, frame.size() - at));
    area.write(list);
    return put(std::to_string(area.descriptor()), std::to_string(list.size() / 16));
  }
  httplib::Result put(const std::string& descriptor, const std::string& pieces) {
    return local_.Post("/v1/values", {{"Evenkeel-Area", descriptor}, {"Evenkeel-Pieces", pieces}}, "",
                       "application/octet-stream");
  }
  static std::string listed(const char* address, std::size_t bytes) {
    const std::array<std::uint64_t, 2> piece{reinterpret_cast<std::uint64_t>(address), bytes};
    std::string text(sizeof piece, '\0');
    std::memcpy(text.data(), piece.data(), text.size());
    return text;
  }
  httplib::Result get(const OpenFile& file, const std::string& query) {
    return local_.Post("/v1/values/get", {{"Evenkeel-Area", std::to_string(file.descriptor())}}, query,
                       "application/json");
  }
  static std::string frame() {
    return make_frame(R"({"indexes":[0],"fields":{"a":{"dtype":"U8","shape":[300000]}}})",
                      std::string(bytes_of_value, 'x'));
  }

  ScratchFolder scratch_;
  ValueStore store_;
  ValueServer server_;
  std::thread serving_;
  httplib::Client local_;
};

TEST_F(ClientAreas, take_the_place_of_bodies) {
  const OpenFile area(::memfd_create("evenkeel-area", MFD_CLOEXEC));
  std::string values;
  for (int i = 0; i < 100'000; ++i) values += "ab" + std::to_string(i % 10);
  const std::string put_frame = make_frame(
      R"({"indexes":[5,6],"fields":{"a":{"dtype":"U8","shapes":[[299990],[0]]},"b":{"dtype":"U8","shapes":[[3],[7]]}}})",
      values);
  for (const std::size_t piece : {std::size_t{7}, std::size_t{4096}, put_frame.size()}) {
    const auto answer = put(area, put_frame, piece);
    ASSERT_EQ(answer->status, 200) << answer->body;
    EXPECT_EQ(json::parse(answer->body)["bytes"], bytes_of_value);
  }
  const auto got = get(area, R"({"indexes":[6,5],"fields":["b","a"]})");
  ASSERT_EQ(got->status, 200) << got->body;
  EXPECT_EQ(got->body, "");
  const std::string found = area.read(std::stoul(got->get_header_value("Evenkeel-Body")));
  const std::size_t begin = frame_prefix + size_in_prefix(found);
  EXPECT_EQ(begin % 64, 0U);
  EXPECT_EQ(found.substr(begin, 10), values.substr(299'993, 7) + values.substr(299'990, 3));
  EXPECT_TRUE(found.substr(begin + 64) == values.substr(0, 299'990)) << "each field is aligned";
}

TEST_F(ClientAreas, have_no_small_answers_and_none_that_cannot_be_written) {
  const OpenFile area(::memfd_create("evenkeel-area", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(put(area, frame(), 100'000)->status, 200);
  const std::string all = R"({"indexes":[0],"fields":["a"]})";
  const std::string part = R"({"indexes":[0],"fields":["a"],"slices":{"a":{"axis":0,"ranges":[[1,4]]}}})";
  EXPECT_THAT(get(area, part)->body, HasSubstr("xxx"));
  EXPECT_FALSE(get(area, part)->has_header("Evenkeel-Body"));
  ASSERT_TRUE(get(area, all)->has_header("Evenkeel-Body"));
  ASSERT_EQ(::ftruncate(area.descriptor(), 1000), 0);
  ASSERT_EQ(::fcntl(area.descriptor(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_GT(get(area, all)->body.size(), 300'000U);
  EXPECT_EQ(get(area, R"({"indexes":[1],"fields":["a"]})")->status, 404);
}

TEST_F(ClientAreas, that_list_what_cannot_be_read_are_refused) {
  const OpenFile area(::memfd_create("evenkeel-area", MFD_CLOEXEC));
  const std::string frame = this->frame();
  const std::string descriptor = std::to_string(area.descriptor());
  const auto refusal = [&](const std::string& list, const std::string& pieces) {
    EXPECT_EQ(::ftruncate(area.descriptor(), 0), 0);
    area.write(list);
    const auto answer = put(descriptor, pieces);
    return std::to_string(answer->status) + " " + answer->body;
  };
  const std::string whole = listed(frame.data(), frame.size());
  EXPECT_THAT(refusal("", "1"), HasSubstr("ends before it has listed 1 pieces"));
  EXPECT_THAT(refusal(whole.substr(0, 15), "1"), HasSubstr("400"));
  EXPECT_THAT(refusal(whole, "2"), HasSubstr("400"));
  EXPECT_THAT(refusal(whole, "65537"), HasSubstr("400"));
  EXPECT_THAT(refusal(listed(frame.data(), 0), "1"), HasSubstr("lists a piece of 0 bytes"));
  EXPECT_THAT(refusal(listed(nullptr, 100'000), "1"), HasSubstr("that cannot be read: Bad address"));
  EXPECT_THAT(refusal(listed(frame.data(), 200'000) + listed(nullptr, frame.size() - 200'000), "2"),
              HasSubstr("424"));
  EXPECT_THAT(refusal(listed(frame.data(), frame.size() - 1), "1"), HasSubstr("422"));
  EXPECT_THAT(refusal(listed(frame.data(), std::size_t{1} << 40), "1"), HasSubstr("413"));
  EXPECT_EQ(store_.status().values, 0);
  EXPECT_THAT(refusal(whole, "1"), HasSubstr("200"));
}

/// What a client that gives up does: it sends a request, and closes the connection before it has the answer.
TEST_F(ClientAreas, of_clients_that_are_gone_are_not_stored) {
  const OpenFile area(::memfd_create("evenkeel-area", MFD_CLOEXEC));
  const std::string frame = this->frame();
  area.write(listed(frame.data(), frame.size()));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy((scratch_.path() / "socket").string(), address.sun_path);
  const std::string request =
      "POST /v1/values HTTP/1.1\r\nContent-Length: 0\r\nEvenkeel-Area: " + std::to_string(area.descriptor()) +
      "\r\nEvenkeel-Pieces: 1\r\n\r\n";
  std::string answer;
  while (!answer.starts_with("HTTP/1.1 400")) {  // unless the server was faster
    store_.clear({});
    const OpenFile connection(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(connection.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    ASSERT_EQ(::send(connection.descriptor(), request.data(), request.size(), 0), std::ssize(request));
    ::shutdown(connection.descriptor(), SHUT_WR);
    answer.resize(1000);
    answer.resize(
        static_cast<std::size_t>(::recv(connection.descriptor(), answer.data(), answer.size(), MSG_WAITALL)));
  }
  EXPECT_THAT(answer, HasSubstr("the client has closed the connection"));
  EXPECT_EQ(store_.status().values, 0);
}

TEST_F(ClientAreas, are_memory_files_of_this_name_and_of_the_client) {
  const auto refusal = [&](const std::string& descriptor) {
    const auto answer = put(descriptor, "1");
    return std::to_string(answer->status) + " " + answer->body;
  };
  const auto refusal_of = [&](const OpenFile& file) { return refusal(std::to_string(file.descriptor())); };
  EXPECT_THAT(refusal_of(OpenFile(::memfd_create("other", MFD_CLOEXEC))), HasSubstr("424"));
  const std::string path = (scratch_.path() / "memfd:evenkeel-area").string();
  EXPECT_THAT(refusal_of(OpenFile(::open(path.c_str(), O_RDWR | O_CREAT, 0600))), HasSubstr("424"));
  EXPECT_THAT(refusal_of(OpenFile(::open("/dev/zero", O_RDWR))), HasSubstr("not a memory file"));
  EXPECT_THAT(refusal("999999"), HasSubstr("cannot be opened at /proc/"));
  for (const char* wrong : {"-1", "1x", "/etc/passwd", "99999999999"})
    EXPECT_THAT(refusal(wrong), HasSubstr("400"));
  const OpenFile of_another(::memfd_create("evenkeel-area", MFD_CLOEXEC));
  if (::fchown(of_another.descriptor(), ::getuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give a file to another user";
  EXPECT_THAT(refusal_of(of_another), HasSubstr("of the same user"));
}

TEST_F(ClientAreas, are_refused_over_tcp) {
  const OpenFile area(::memfd_create("evenkeel-area", MFD_CLOEXEC));
  const std::string frame = this->frame();
  area.write(listed(frame.data(), frame.size()));
  httplib::Client remote("127.0.0.1", server_.port());
  const httplib::Headers headers{{"Evenkeel-Area", std::to_string(area.descriptor())},
                                 {"Evenkeel-Pieces", "1"}};
  const auto refused = remote.Post("/v1/values", headers, "", "application/octet-stream");
  EXPECT_EQ(refused->status, 424);
  EXPECT_THAT(refused->body, HasSubstr("only be used over the server's UNIX socket"));
}

}  // namespace
}  // namespace evenkeel
