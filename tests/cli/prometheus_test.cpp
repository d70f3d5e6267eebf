#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/prometheus_metrics.hpp"
#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using cli::PrometheusMetrics;
using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// A socket on 127.0.0.1, closed by the destructor.
class Socket {
 public:
  explicit Socket(int port = 0) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(static_cast<std::uint16_t>(port));
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  ~Socket() { ::close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Binds a port and returns it.
  [[nodiscard]] int listen() {
    EXPECT_EQ(::bind(socket_, raw(), sizeof(address_)), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(::getsockname(socket_, raw(), &size), 0);
    return ntohs(address_.sin_port);
  }
  [[nodiscard]] std::string get(const std::string& path) {
    EXPECT_EQ(::connect(socket_, raw(), sizeof(address_)), 0);
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    EXPECT_EQ(::send(socket_, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    std::string answer;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::recv(socket_, buffer.data(), buffer.size(), 0)) > 0;)
      answer.append(buffer.data(), static_cast<std::size_t>(got));
    return answer;
  }

 private:
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{};
  int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
};

TEST(Prometheus, is_available_during_the_run) {
  PrometheusMetrics metrics({"127.0.0.1:0", {}}, "1.2.3");
  ASSERT_NE(metrics.port(), 0);
  EXPECT_THAT(Socket(metrics.port()).get("/metrics"), HasSubstr("evenkeel_build_info{version=\"1.2.3\"} 1"));
  StepFigures figures;
  figures.tokens = 100;
  figures.profile = "odd \"name\"\\";
  metrics.set_planned_steps(2);
  metrics.publish_pass(figures);
  metrics.publish_pass(figures);
  const std::string answer = Socket(metrics.port()).get("/metrics");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("\nevenkeel_planned_steps 2\n"));
  EXPECT_THAT(answer, HasSubstr("\nevenkeel_tokens_total{profile=\"odd \\\"name\\\"\\\\\"} 200\n"));
}

/// Returns the values of a file by name and labels.
std::map<std::string, double> values_in(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t space = line.rfind(' ');
    values[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return values;
}

class PrometheusOfARun : public testing::Test {
 protected:
  PrometheusOfARun() {
    const std::string rollouts = (scratch_ / "rollouts.jsonl").string();
    EXPECT_EQ(run_evenkeel("synth --samples 48 --response-max 800 --out " + rollouts).status, 0);
    write_text(scratch_ / "job.yaml",
               "source: {kind: jsonl, path: " + rollouts + "}\nbatch: {global_batch: 12}\n");
  }
  [[nodiscard]] ProgramResult run(const std::string& options) const {
    return mpirun_evenkeel(3, "run " + (scratch_ / "job.yaml").string() + " " + options);
  }

  ScratchFolder scratch_;
};

TEST_F(PrometheusOfARun, has_the_sums_of_the_report_in_a_file) {
  const std::string file = (scratch_ / "run.prom").string();
  const ProgramResult result =
      run("--prometheus-file " + file + " --report " + (scratch_ / "report").string());
  ASSERT_EQ(result.status, 0) << result.err;
  const std::map<std::string, double> values = values_in(read_text(file));
  double tokens = 0;
  double sent = 0;
  const nlohmann::json report = nlohmann::json::parse(read_text(scratch_ / "report/report.json"));
  for (const auto& step : report.at("steps")) {
    tokens += step.at("tokens").get<double>();
    sent += step.at("bytes").at("sent").get<double>();
  }
  EXPECT_EQ(values.at("evenkeel_passes_total{profile=\"\"}"), 4);
  EXPECT_EQ(values.at("evenkeel_tokens_total{profile=\"\"}"), tokens);
  EXPECT_EQ(values.at("evenkeel_moved_bytes_total{kind=\"between_ranks\",profile=\"\"}"), sent);
  // The times of the slowest ranks, in addition to the means.
  const nlohmann::json& latest = report.at("steps").back();
  double waited = 0;
  for (const auto& step : report.at("steps")) waited += step.at("longest_waited_seconds").get<double>();
  EXPECT_NEAR(values.at("evenkeel_longest_waited_seconds_total{profile=\"\"}"), waited, 1e-6);
  EXPECT_GE(waited, values.at("evenkeel_waited_seconds_total{profile=\"\"}"));
  for (const std::string phase : {"read", "exchange"}) {
    const std::string labels = "{phase=\"" + phase + "\",profile=\"\"}";
    EXPECT_GE(values.at("evenkeel_slowest_phase_seconds_total" + labels),
              values.at("evenkeel_phase_seconds_total" + labels));
    EXPECT_EQ(values.at("evenkeel_slowest_rank" + labels), latest.at("slowest_ranks").at(phase));
  }
  // Each one is documented on the page under its name.
  const std::string page = read_text(EVENKEEL_SOURCE_DIR "/docs/report.md");
  for (const auto& [name, value] : values)
    EXPECT_THAT(page, HasSubstr("`" + name.substr(0, name.find('{')) + "`"));
}

TEST_F(PrometheusOfARun, fails_before_the_run_if_the_port_is_in_use) {
  Socket other;
  const ProgramResult result =
      run("--prometheus " + std::to_string(other.listen()) + " --report " + (scratch_ / "report").string());
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("the port is in use"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "report"));
}

TEST_F(PrometheusOfARun, refuses_an_invalid_address_with_a_sentence) {
  for (const std::string wrong : {"localhost:9464", "99999", "-1", "1.2.3.4", "1.2.3.4:", "a", "80s", "80,81",
                                  "[::1]:9464", "1.2.3.400:1"}) {
    const ProgramResult result = run_evenkeel("run job.yaml --prometheus=" + wrong);
    EXPECT_EQ(result.status, 2) << wrong << result.err;
    EXPECT_THAT(result.err, HasSubstr("--prometheus: '" + wrong +
                                      "' is neither a port from 0 to 65535 nor an IPv4 address"))
        << wrong;
  }
}

}  // namespace
}  // namespace evenkeel
