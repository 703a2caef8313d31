// tost bench serve: what a running server gives under a load of random arrivals.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/serve/serve_load.h"

namespace tost {
namespace {

struct BenchServeFlags {
  bool json = false;
  ServeLoad load;
};

nlohmann::json percentiles(const std::vector<double>& values) {
  nlohmann::json object{{"count", values.size()}};
  for (const auto& [name, p] : {std::pair{"p50_ms", 0.5}, {"p95_ms", 0.95}, {"p99_ms", 0.99}}) {
    const double value = percentile(values, p);
    object[name] = value == value ? nlohmann::json(1e3 * value) : nlohmann::json();
  }
  return object;
}

void print_row(const char* name, const std::vector<double>& values) {
  std::printf("%-20s %9.1f %9.1f %9.1f\n", name, 1e3 * percentile(values, 0.5),
              1e3 * percentile(values, 0.95), 1e3 * percentile(values, 0.99));
}

void run_bench_serve(const BenchServeFlags& o) {
  const auto r = run_serve_load(o.load);
  const double rate = r.seconds > 0 ? double(r.tokens) / r.seconds : 0;
  if (o.json) {
    auto report = TOST_MEMBERS(r, refused, failed, tokens, seconds);
    report.update({{"rate", o.load.rate},
                   {"requests", o.load.requests},
                   {"answered", r.first.size()},
                   {"failure", r.failed > 0 ? nlohmann::json(r.failure) : nlohmann::json()},
                   {"tokens_per_s", rate},
                   {"first_token", percentiles(r.first)},
                   {"between_tokens", percentiles(r.between)}});
    return print_json(report);
  }
  std::printf("%lld requests, %g a second: %zu answered, %lld refused, %lld failed\n",
              static_cast<long long>(o.load.requests), o.load.rate, r.first.size(),
              static_cast<long long>(r.refused), static_cast<long long>(r.failed));
  if (r.failed > 0) std::printf("The first failure: %s\n", r.failure.c_str());
  std::printf("%lld tokens in %.1f s, %.1f a second\n", static_cast<long long>(r.tokens), r.seconds,
              rate);
  std::printf("%-20s %9s %9s %9s\n", "milliseconds", "p50", "p95", "p99");
  print_row("to the first token", r.first);
  print_row("between tokens", r.between);
}

}  // namespace

void add_bench_serve_command(CLI::App& bench) {
  auto options = std::make_shared<BenchServeFlags>();
  auto& load = options->load;
  CLI::App* command = bench.add_subcommand("serve", "A running server under random arrivals");
  const auto add = [command](const char* name, auto& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str();
  };
  add("--host", load.host, "Address of the server");
  add("--port", load.port, "Its port");
  add("--rate", load.rate, "Requests a second, on average");
  add("--requests", load.requests, "Number of requests");
  add("--prompt-bytes", load.prompt_bytes, "Mean length of prompts");
  add("--tokens", load.tokens, "Mean number of new tokens");
  add("--seed", load.seed, "Of lengths and times");
  command->add_option("--model", load.model, "Model to ask, where there are several");
  command->add_option("--key", load.key, "Key that the server wants to see");
  command->add_flag("--json", options->json, "Print JSON");
  add_example(*command, "  tost bench serve --port 8080 --rate 8 --requests 200");
  command->callback([options] { run_bench_serve(*options); });
}

}  // namespace tost
