#include "io/files/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing_support::read_text;
using testing_support::ScratchFolder;
using testing_support::write_text;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::ptrdiff_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

bool has_nameless_files(const std::filesystem::path& folder) {
#ifdef O_TMPFILE
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
#else
  static_cast<void>(folder);
  return false;
#endif
}

TEST(AtomicFile, replaces_an_older_file_when_it_is_complete) {
  const ScratchFolder scratch;
  write_text(scratch / "file", "old");
  AtomicFile file(scratch / "file");
  file.write(bytes_of("new, and longer"));
  EXPECT_EQ(read_text(scratch / "file"), "old");
  file.commit();
  EXPECT_EQ(read_text(scratch / "file"), "new, and longer");
  EXPECT_EQ(files_in(scratch.path()), 1);
}

TEST(AtomicFile, has_the_permissions_of_the_process) {
  const ScratchFolder scratch;
  const mode_t before = ::umask(027);
  AtomicFile file(scratch / "file");
  file.commit_to_disk();
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(scratch / "file").permissions(), std::filesystem::perms(0640));
}

TEST(AtomicFile, leaves_no_file_if_it_is_not_committed) {
  const ScratchFolder scratch;
  { AtomicFile(scratch / "file").write(bytes_of("half")); }
  EXPECT_EQ(files_in(scratch.path()), 0);
}

TEST(AtomicFile, leaves_no_file_if_the_process_is_killed) {
  const ScratchFolder scratch;
  if (!has_nameless_files(scratch.path())) GTEST_SKIP() << "the file system has no files without a name";
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(scratch / "file");
    file.write(bytes_of("half"));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files_in(scratch.path()), 0);
}

TEST(AtomicFile, uses_another_temporary_name_if_a_crash_left_one) {
  const ScratchFolder scratch;
  write_text(scratch / ("file.tmp-" + std::to_string(::getpid()) + "-0"), "left");
  AtomicFile file(scratch / "file");
  file.write(bytes_of("whole"));
  file.commit();
  EXPECT_EQ(read_text(scratch / "file"), "whole");
  EXPECT_EQ(files_in(scratch.path()), 2);
}

TEST(AtomicFile, in_a_missing_folder_is_an_error_that_names_it) {
  const ScratchFolder scratch;
  try {
    AtomicFile file(scratch / "none/file");
    FAIL() << "there is no folder";
  } catch (const IoError& error) {
    EXPECT_EQ(error.report().where, (scratch / "none/file").string());
    EXPECT_EQ(error.report().message, "cannot be created: No such file or directory");
  }
}

}  // namespace
}  // namespace evenkeel
