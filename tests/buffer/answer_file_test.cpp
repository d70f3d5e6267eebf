#include "buffer/values/answer_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/file_descriptor.hpp"
#include "buffer/value_frames.hpp"
#include "buffer/values/value_server.hpp"
#include "buffer/values/value_store.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing_support::make_frame;
using testing_support::ScratchFolder;

constexpr std::int64_t bytes_of_value = 300'000;
constexpr const char* all = R"({"indexes":[0],"fields":["a"]})";

std::string read(const FileDescriptor& file, std::size_t bytes) {
  std::string read(bytes, '\0');
  EXPECT_EQ(::pread(file.get(), read.data(), bytes, 0), std::ssize(read));
  return read;
}

class AnswerFiles : public testing::Test {
 protected:
  AnswerFiles()
      : store_(make_memory_store(64 << 20)),
        server_(store_, {.port = 0, .socket = scratch_.path() / "socket"}, {}),
        serving_([this] { server_.serve(); }),
        local_((scratch_.path() / "socket").string()) {
    local_.set_address_family(AF_UNIX);
    while (!local_.Get("/v1/status")) std::this_thread::sleep_for(1ms);
  }
  ~AnswerFiles() override {
    store_.stop();
    server_.stop();
    serving_.join();
  }

  void put(const std::string& frame) {
    const auto answer = local_.Post("/v1/values", frame, "application/octet-stream");
    ASSERT_EQ(answer->status, 200) << answer->body;
  }
  httplib::Result get(const FileDescriptor& file, const std::string& query = all) {
    return get(std::to_string(file.get()), query);
  }
  httplib::Result get(const std::string& descriptor, const std::string& query = all) {
    return local_.Post("/v1/values/get", {{"Evenkeel-Answer-File", descriptor}}, query, "application/json");
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

TEST_F(AnswerFiles, take_the_place_of_bodies) {
  const FileDescriptor file(::memfd_create("evenkeel-answer", MFD_CLOEXEC));
  std::string values;
  for (int i = 0; i < 100'000; ++i) values += "ab" + std::to_string(i % 10);
  put(make_frame(
      R"({"indexes":[5,6],"fields":{"a":{"dtype":"U8","shapes":[[299990],[0]]},"b":{"dtype":"U8","shapes":[[3],[7]]}}})",
      values));
  const auto got = get(file, R"({"indexes":[6,5],"fields":["b","a"]})");
  ASSERT_EQ(got->status, 200) << got->body;
  EXPECT_EQ(got->body, "");
  const std::string found = read(file, std::stoul(got->get_header_value("Evenkeel-Answer-Bytes")));
  const std::size_t begin = frame_prefix + decode_size(found);
  EXPECT_EQ(begin % 64, 0U);
  EXPECT_EQ(found.substr(begin, 10), values.substr(299'993, 7) + values.substr(299'990, 3));
  EXPECT_TRUE(found.substr(begin + 64) == values.substr(0, 299'990)) << "each field is aligned";
}

TEST_F(AnswerFiles, have_no_small_answers_and_none_that_cannot_be_written) {
  const FileDescriptor file(::memfd_create("evenkeel-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  put(frame());
  const std::string part = R"({"indexes":[0],"fields":["a"],"slices":{"a":{"axis":0,"ranges":[[1,4]]}}})";
  EXPECT_THAT(get(file, part)->body, HasSubstr("xxx"));
  EXPECT_FALSE(get(file, part)->has_header("Evenkeel-Answer-Bytes"));
  ASSERT_TRUE(get(file)->has_header("Evenkeel-Answer-Bytes"));
  ASSERT_EQ(::ftruncate(file.get(), 1000), 0);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_GT(get(file)->body.size(), 300'000U);
  EXPECT_EQ(get(file, R"({"indexes":[1],"fields":["a"]})")->status, 404);
}

TEST_F(AnswerFiles, are_memory_files_of_this_name_and_of_the_client) {
  put(frame());
  const auto refusal = [&](const std::string& descriptor) {
    const auto answer = get(descriptor);
    return std::to_string(answer->status) + " " + answer->body;
  };
  const auto refusal_of = [&](const FileDescriptor& file) { return refusal(std::to_string(file.get())); };
  EXPECT_THAT(refusal_of(FileDescriptor(::memfd_create("other", MFD_CLOEXEC))), HasSubstr("424"));
  const std::string path = (scratch_.path() / "memfd:evenkeel-answer").string();
  EXPECT_THAT(refusal_of(FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT, 0600))), HasSubstr("424"));
  EXPECT_THAT(refusal_of(FileDescriptor(::open("/dev/zero", O_RDWR))), HasSubstr("not a memory file"));
  EXPECT_THAT(refusal("999999"), HasSubstr("cannot be opened at /proc/"));
  for (const char* wrong : {"-1", "1x", "/etc/passwd", "99999999999"})
    EXPECT_THAT(refusal(wrong), HasSubstr("400"));
  const FileDescriptor of_another(::memfd_create("evenkeel-answer", MFD_CLOEXEC));
  if (::fchown(of_another.get(), ::getuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give a file to another user";
  EXPECT_THAT(refusal_of(of_another), HasSubstr("of the same user"));
}

TEST_F(AnswerFiles, are_refused_over_tcp) {
  const FileDescriptor file(::memfd_create("evenkeel-answer", MFD_CLOEXEC));
  put(frame());
  httplib::Client remote("127.0.0.1", server_.port());
  const auto refused = remote.Post("/v1/values/get", {{"Evenkeel-Answer-File", std::to_string(file.get())}},
                                   all, "application/json");
  EXPECT_EQ(refused->status, 424);
  EXPECT_THAT(refused->body, HasSubstr("only be used over the server's UNIX socket"));
}

}  // namespace
}  // namespace evenkeel
