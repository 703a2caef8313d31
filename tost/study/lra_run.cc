#include "tost/study/lra_run.h"

#include "tost/base/file.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

SweepOptions options_of(const LraTask& task, const SweepOptions& options) {
  SweepOptions own = options;
  own.out = options.out / task.name;
  return own;
}

void write_table(const LraTable& table, const SweepOptions& options) {
  using nlohmann::json;
  const auto write = [&](const char* name, const std::string& bytes) {
    write_file_atomic(options.out / name, bytes);
  };
  write("lra.json", json_text(to_json(table), 2) + "\n");
  write("lra.csv", lra_csv(table));
  write("lra.md", lra_markdown(table));
  write("index.html", lra_page(table, options.command).html());
}

}  // namespace

std::map<std::string, std::vector<SweepStep>> lra_steps(const LraPlan& plan,
                                                        const SweepOptions& options) {
  std::map<std::string, std::vector<SweepStep>> steps;
  for (const LraTask& task : plan.tasks) {
    steps[task.name] = sweep_steps(task.spec, make_plan(task.spec), options_of(task, options));
  }
  return steps;
}

LraResult run_lra(const LraPlan& plan, const std::string& title, const SweepOptions& options,
                  SweepListener& listener, const std::atomic<bool>* stop) {
  LraResult result;
  std::map<std::string, SweepSummary> summaries;
  // What earlier calls have done stands in the table from the first.
  for (const auto& [name, steps] : lra_steps(plan, options)) {
    for (const LraTask& task : plan.tasks) {
      if (task.name == name) summaries[name] = summarize(task.spec, make_plan(task.spec), steps);
    }
  }
  make_directories(options.out);
  for (const LraTask& task : plan.tasks) {
    const SweepResult done = run_sweep(task.spec, options_of(task, options), listener, stop);
    summaries[task.name] = summarize(task.spec, make_plan(task.spec), done.steps);
    result.failed += done.failed;
    result.table = lra_table(plan, summaries, title);
    write_table(result.table, options);
    if ((result.interrupted = done.interrupted)) break;
  }
  return result;
}

}  // namespace tost
