#include "buffer/current_job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/hash.hpp"
#include "base/text/parse_number.hpp"
#include "stream/event.hpp"

namespace evenkeel {

using nlohmann::json;

CurrentJob CurrentJob::make_next_job(const Acceptance& accepts, std::int64_t last_arrival) const {
  std::random_device device;
  return {number + 1, fmt::format("{:08x}{:08x}", device(), device()), false, accepts, last_arrival};
}

std::string format_job(const CurrentJob& job) {
  return json{{"number", job.number},
              {"nonce", job.nonce},
              {"has_left", job.has_left},
              {"accepts", json_of(job.acceptance)},
              {"unchecked", job.unchecked}}
      .dump();
}

CurrentJob parse_job(const std::string& text) {
  try {
    const json in = json::parse(text);
    return {stream::require_integer(in.at("number"), "job"), in.at("nonce"), in.at("has_left"),
            parse_acceptance(in.at("accepts")), stream::require_integer(in.at("unchecked"), "job")};
  } catch (const json::exception& error) {
    throw InputError("job", std::string("cannot be read: ") + error.what(),
                     "Restore the store from a backup");
  }
}

std::string pass_of(const CurrentJob& job, std::string_view rules) {
  return fmt::format("{}-{}-{:016x}", job.number, job.nonce, fnv1a_64(rules));
}

void require_pass(const std::string& pass, const CurrentJob& job, std::string_view rules) {
  const std::string expected = pass_of(job, rules);
  if (pass == expected) return;
  const std::string number = std::to_string(job.number);
  const std::string other = pass.substr(0, pass.find('-'));
  if (pass.substr(0, pass.rfind('-')) == expected.substr(0, expected.rfind('-'))) {
    throw RulesError("job " + number, "began with different rules than the buffer has now",
                     "Start the buffer with the same options as before, or start the job again");
  }
  if (job.number == 0 || parse_as<std::int64_t>(other).value_or(0) > job.number) {
    throw FencedError("job " + other,
                      "is unknown to the buffer, whose store has " +
                          (job.number == 0 ? "no job" : "job " + number + " as its latest"),
                      "Start the buffer with the store that it had, or start the job from the beginning");
  }
  throw FencedError("job " + other,
                    std::string("is fenced: ") + (other == number ? "another job " : "job ") + number +
                        (job.has_left ? " has begun since" : " now trains from the buffer"),
                    "A buffer serves only the job that began last. End this one");
}

}  // namespace evenkeel
