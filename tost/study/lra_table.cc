#include "tost/study/lra_table.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

constexpr char kPathX[] = "pathx";
constexpr double kMostMore = 0.1;  // parameters beyond the reference's that pass without remark
constexpr double kGuess = 0.5;     // Path-X where it was not run

using BySeed = std::map<int64_t, double>;

const VariantSummary* find(const SweepSummary& summary, const std::string& mixer) {
  for (const VariantSummary& v : summary.variants) {
    if (v.variant == mixer) return &v;
  }
  return nullptr;
}

LraCell cell_of(const VariantSummary& v, const VariantSummary* reference) {
  LraCell cell{.top1 = v.score,
               .parameters = v.parameters,
               .more = {},
               .seconds = v.seconds,
               .cpu_seconds = v.cpu_seconds,
               .steps = v.steps.empty() ? 0 : v.steps.back(),
               .failed = v.failed};
  if (reference != nullptr && reference->parameters > 0 && v.parameters > 0) {
    cell.more = double(v.parameters) / double(reference->parameters) - 1;
  }
  return cell;
}

// Seed by seed over `tasks`; empty where a task has no run that is done.
BySeed averages(const std::map<std::string, BySeed>& scores,
                const std::vector<std::string>& tasks) {
  BySeed sums;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto found = scores.find(tasks[i]);
    if (found == scores.end()) return {};
    BySeed next;
    for (const auto& [seed, value] : found->second) {
      if (i == 0) next[seed] = value;
      const auto sum = sums.find(seed);
      if (sum != sums.end()) next[seed] = sum->second + value;
    }
    sums = std::move(next);
  }
  for (auto& [seed, value] : sums) value /= double(tasks.size());
  return sums;
}

MeanSpread spread_of(const BySeed& values) {
  std::vector<double> list;
  for (const auto& [seed, value] : values) list.push_back(value);
  return mean_spread(list);
}

void add_averages(LraRow& row, std::map<std::string, BySeed> scores) {
  std::vector<std::string> tasks = lra_tasks();
  const std::vector<std::string> five(tasks.begin(), tasks.end() - 1);
  const BySeed mean = averages(scores, five);
  row.mean_of_five = spread_of(mean);
  row.path_x_assumed = !scores.contains(kPathX);
  if (row.path_x_assumed) {
    for (const auto& [seed, value] : mean) scores[kPathX][seed] = kGuess;
  }
  row.mean_of_six = spread_of(averages(scores, tasks));
}

std::string percent(double share) {
  return format_text("%+.1f %%", 100 * share);
}

void remark_on(const LraRow& row, LraTable& table) {
  for (const auto& [task, cell] : row.cells) {
    if (cell.more && *cell.more > kMostMore) {
      table.remarks.push_back(cat(row.mixer, " has ", percent(*cell.more), " parameters of ",
                                  table.reference, " in ", lra_title(task),
                                  ", more than the 10 % that the benchmark allows."));
    }
    if (cell.failed > 0) {
      table.remarks.push_back(cat(cell.failed, cell.failed == 1 ? " run of " : " runs of ",
                                  row.mixer, " failed in ", lra_title(task),
                                  "; its table says why."));
    }
  }
}

}  // namespace

LraTable lra_table(const LraPlan& plan, const std::map<std::string, SweepSummary>& summaries,
                   const std::string& title) {
  LraTable table{
      .title = title, .tasks = {}, .reference = plan.reference, .rows = {}, .remarks = {}};
  for (const LraTask& task : plan.tasks) table.tasks.push_back(task.name);
  for (const LraMissing& missing : plan.missing) table.remarks.push_back(missing.why);
  for (const auto& mixer : plan.tasks.front().spec.grid.front().values) {
    LraRow row;
    row.mixer = mixer.get<std::string>();
    std::map<std::string, BySeed> scores;
    for (const auto& [task, summary] : summaries) {
      const VariantSummary* found = find(summary, row.mixer);
      if (found == nullptr || (found->by_seed.empty() && found->failed == 0)) continue;
      row.cells[task] = cell_of(*found, find(summary, plan.reference));
      if (!found->by_seed.empty()) scores[task] = found->by_seed;
    }
    add_averages(row, std::move(scores));
    remark_on(row, table);
    table.rows.push_back(std::move(row));
  }
  return table;
}

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
