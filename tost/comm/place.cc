// Reads rank, number of processes and address from torchrun's environment variables.
#include <charconv>
#include <cstdlib>
#include <random>

#include "tost/base/text.h"
#include "tost/comm/backends.h"
#include "tost/comm/group.h"

namespace tost {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t number_of(const char* name, int64_t low, int64_t high) {
  const std::string text = variable(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high)
    return value;
  fail_usage("The environment variable ", name, " is '", text, "', not a number from ", low, " to ",
             high, "; start the run with torchrun, which sets it.");
}

// The number of times that torchrun has restarted the run.
int64_t restarts_from_environment() {
  return variable("TORCHELASTIC_RESTART_COUNT").empty()
             ? 0
             : number_of("TORCHELASTIC_RESTART_COUNT", 0, int64_t{1} << 30);
}

}  // namespace

std::string launch_from_environment() {
  if (variable("TORCHELASTIC_USE_AGENT_STORE") != "True") return "";
  std::random_device random;
  const std::string drawn = format_text("%08x%08x%08x%08x", random(), random(), random(), random());
  return agreed_in_store(variable("MASTER_ADDR"), number_of("MASTER_PORT", 1, 65535),
                         cat("tost/", variable("TORCHELASTIC_RUN_ID"), "/launch"), drawn);
}

std::optional<GroupPlace> place_from_environment() {
  if (variable("RANK").empty() || variable("WORLD_SIZE").empty()) return std::nullopt;
  GroupPlace place;
  place.world = number_of("WORLD_SIZE", 1, 1 << 20);
  place.rank = number_of("RANK", 0, place.world - 1);
  if (place.world == 1) return place;
  place.address = variable("MASTER_ADDR");
  if (place.address.empty()) {
    fail_usage("WORLD_SIZE is ", place.world,
               " but MASTER_ADDR is not set; start the run with torchrun, which sets both.");
  }
  place.port = number_of("MASTER_PORT", 1, 65535);
  place.serves_store = variable("TORCHELASTIC_USE_AGENT_STORE") != "True";
  place.attempt = cat(variable("TORCHELASTIC_RUN_ID"), "/", restarts_from_environment());
  place.one_machine = variable("LOCAL_WORLD_SIZE") == variable("WORLD_SIZE");
  place.local_rank =
      variable("LOCAL_RANK").empty() ? place.rank : number_of("LOCAL_RANK", 0, place.world - 1);
  return place;
}

}  // namespace tost
