#include "tost/study/lra_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/bench/bench_table.h"
#include "tost/io/parse_json.h"
#include "tost/study/sweep_report.h"

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

namespace {

using nlohmann::json;

constexpr char kMinus[] = "–";  // nothing

const LraCell* find(const LraRow& row, const std::string& task) {
  const auto found = row.cells.find(task);
  return found == row.cells.end() ? nullptr : &found->second;
}

// A column a task, whose text `show_cell` gives.
Table by_task(const LraTable& table, const std::string& caption, auto show_cell) {
  Table out;
  out.caption = caption;
  out.header = {"mixer"};
  for (const std::string& task : table.tasks) out.header.push_back(lra_title(task));
  for (const LraRow& row : table.rows) {
    std::vector<TableCell> cells{{.text = row.mixer, .strong = true}};
    for (const std::string& task : table.tasks) {
      const LraCell* cell = find(row, task);
      cells.push_back(number_cell(cell == nullptr ? kMinus : show_cell(*cell)));
    }
    out.rows.push_back(std::move(cells));
  }
  return out;
}

Table accuracy_table(const LraTable& table) {
  Table out =
      by_task(table, "Accuracy, %", [](const LraCell& cell) { return show(cell.top1, 100, 2); });
  out.header.insert(out.header.end(), {"mean of 5", "mean of 6"});
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const LraRow& row = table.rows[i];
    out.rows[i].push_back(number_cell(show(row.mean_of_five, 100, 2)));
    const std::string six = show(row.mean_of_six, 100, 2);
    out.rows[i].push_back(
        number_cell(row.mean_of_six.n > 0 && row.path_x_assumed ? six + " *" : six));
  }
  return out;
}

std::string show_parameters(const LraCell& cell) {
  if (cell.parameters == 0) return kMinus;
  std::string text = human_number(cell.parameters);
  if (cell.more) {
    const double percent = 100 * *cell.more;
    text += format_text(" (%+.1f %%)", std::abs(percent) < 0.05 ? 0.0 : percent);
  }
  return text;
}

std::string show_time(const LraCell& cell) {
  const auto seconds = [](const MeanSpread& s) { return show({s.n, s.mean, NAN}, 1, 0); };
  return cat(seconds(cell.seconds), " / ", seconds(cell.cpu_seconds), " / ",
             cell.steps > 0 ? human_number(cell.steps) : kMinus);
}

// "± is the sample standard deviation over 3 seeds. ", or "1 to 3 seeds" where cells differ;
// nothing where no cell has more than one.
std::string spread_words(const LraTable& table) {
  int64_t fewest = std::numeric_limits<int64_t>::max(), most = 0;
  for (const LraRow& row : table.rows) {
    for (const auto& [task, cell] : row.cells) {
      fewest = std::min(fewest, cell.top1.n);
      most = std::max(most, cell.top1.n);
    }
  }
  if (most < 2) return "";
  return cat("± is the sample standard deviation over ",
             fewest < most ? cat(fewest, " to ", most) : cat(most), " seeds. ");
}

std::string notes_of(const LraTable& table) {
  std::string text =
      cat(spread_words(table), "The mean of 5 leaves Path-X out, that of 6 counts it");
  bool assumed = false;
  for (const LraRow& row : table.rows) assumed = assumed || row.path_x_assumed;
  text += assumed ? " (* as 50 where it was not run)." : ".";
  return text + " A mean is left out where a task is.";
}

std::string csv_number(double value) {
  return std::isfinite(value) ? json_text(json(value)) : "";
}

}  // namespace

std::vector<Table> lra_tables(const LraTable& table) {
  return {
      accuracy_table(table),
      by_task(table, cat("Parameters, and how many more than ", table.reference), show_parameters),
      by_task(table, "Seconds of training on the clock / of the processor / steps", show_time)};
}

json to_json(const LraTable& table) {
  json rows = json::array();
  for (const LraRow& row : table.rows) {
    json cells = json::object();
    for (const auto& [task, c] : row.cells) {
      cells[task] = TOST_MEMBERS(c, top1, parameters, seconds, cpu_seconds, steps, failed);
      cells[task]["parameters_more"] = member_json(c.more);
    }
    rows.push_back(TOST_MEMBERS(row, mixer, mean_of_five, mean_of_six, path_x_assumed));
    rows.back()["tasks"] = std::move(cells);
  }
  json object = TOST_MEMBERS(table, title, tasks, reference, remarks);
  object["rows"] = std::move(rows);
  return object;
}

std::string lra_csv(const LraTable& table) {
  std::string text =
      "mixer,task,seeds,top1,top1_spread,parameters,parameters_more,seconds,cpu_seconds,steps\n";
  for (const LraRow& row : table.rows) {
    for (const std::string& task : table.tasks) {
      const LraCell* c = find(row, task);
      if (c == nullptr) continue;
      text += cat(csv_field(row.mixer), ",", task, ",", c->top1.n, ",", csv_number(c->top1.mean),
                  ",", csv_number(c->top1.spread), ",", c->parameters, ",",
                  csv_number(c->more.value_or(NAN)), ",", csv_number(c->seconds.mean), ",",
                  csv_number(c->cpu_seconds.mean), ",", c->steps, "\n");
    }
  }
  return text;
}

std::string lra_markdown(const LraTable& table) {
  std::string text = "# " + escape_markdown(table.title) + "\n";
  for (const Table& each : lra_tables(table)) text += "\n" + to_markdown(each);
  text += "\n" + notes_of(table) + "\n";
  for (const std::string& remark : table.remarks) text += "\n" + escape_markdown(remark) + "\n";
  return text;
}

Page lra_page(const LraTable& table, const std::string& command) {
  Page page(table.title, "");
  page.section("results", "Results", notes_of(table));
  for (const Table& each : lra_tables(table)) page.table(each);
  for (const std::string& remark : table.remarks) page.note(remark);
  page.section("about", "About");
  page.facts({{"Command", command},
              {"Every number", "lra.json, lra.csv"},
              {"Runs, curves", "index.html in each task's folder"}});
  return page;
}

}  // namespace tost
