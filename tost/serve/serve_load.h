// An open-loop load for a running server: texts are asked for at random times, whether or not
// earlier ones have ended, as users do. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

struct ServeLoad {
  std::string host = "127.0.0.1";  // numeric
  int64_t port = 8080;
  std::string model, key;  // empty: none is named
  double rate = 4;         // requests a second, Poisson
  int64_t requests = 100;
  int64_t prompt_bytes = 200;  // 1 to twice as many, uniform
  int64_t tokens = 64;         // new ones, likewise
  uint64_t seed = 0;
};

struct ServeLoadResult {
  std::vector<double> first;    // seconds to the first token, one an answered request; ascending
  std::vector<double> between;  // seconds between tokens; ascending
  int64_t refused = 0;          // status 429
  int64_t failed = 0;           // anything else that is not a whole answer
  std::string failure;          // why the first of them failed
  int64_t tokens = 0;
  double seconds = 0;  // from the first request to the last answer
};

// Throws a usage Error for settings out of range, a data Error where nothing listens or all
// requests fail.
ServeLoadResult run_serve_load(const ServeLoad& load);

// Of ascending values, the smallest that is not below a share p of them; NaN of none.
double percentile(const std::vector<double>& values, double p);

}  // namespace tost
