// The forms of the quality bench's table: text, JSON and page.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/study/quality_table.h"
#include "tost/study/sweep_report.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr char kNothing[] = "–";

std::string show_score(const QualityTaskTable& task, const MeanSpread& score) {
  const MetricView view = metric_view(task.metric);
  return show(score, view.scale, view.digits);
}

const QualityCell* cell_named(const QualityTaskTable& task, const std::string& contestant) {
  for (const QualityCell& cell : task.cells) {
    if (cell.contestant == contestant) return &cell;
  }
  return nullptr;
}

// Contestants by the tasks of one kind; no rows where there are none.
Table overview(const QualityTable& table, bool causal) {
  Table out;
  out.caption = causal ? "Causal models, all with a convolution over four tokens and no positions"
                       : "Classifiers that read in both directions";
  out.header = {"contestant"};
  std::vector<const QualityTaskTable*> tasks;
  std::vector<std::string> contestants;
  for (const QualityTaskTable& task : table.tasks) {
    if (task.causal != causal) continue;
    tasks.push_back(&task);
    out.header.push_back(cat(task.title, ", ", metric_view(task.metric).heading));
    for (const QualityCell& cell : task.cells) {
      if (std::find(contestants.begin(), contestants.end(), cell.contestant) == contestants.end()) {
        contestants.push_back(cell.contestant);
      }
    }
  }
  for (const std::string& contestant : contestants) {
    std::vector<TableCell> row{{.text = contestant, .strong = true}};
    for (const QualityTaskTable* task : tasks) {
      const QualityCell* cell = cell_named(*task, contestant);
      row.push_back(number_cell(cell == nullptr ? kNothing : show_score(*task, cell->score)));
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::vector<std::string> cases_of(const QualityTaskTable& task) {
  CaseNames names;
  for (const QualityCell& cell : task.cells) {
    for (const auto& [name, value] : cell.cases) names.add(name);
  }
  return names.ordered();
}

Table details(const QualityTaskTable& task) {
  Table out;
  out.caption = cat(task.title, ": ", human_number(task.steps), " steps, scored on ", task.split);
  const auto cases = cases_of(task);
  out.header = {"contestant", "parameters"};
  if (task.causal) out.header.push_back("state, bytes");
  out.header.insert(out.header.end(), {"learning rate", metric_view(task.metric).heading});
  for (const std::string& name : cases) out.header.push_back("at " + name);
  out.header.insert(out.header.end(), {"seeds", "CPU s a run"});
  for (const QualityCell& cell : task.cells) {
    std::vector<TableCell> row{{.text = cell.contestant, .strong = true}};
    row.push_back(number_cell(cell.parameters > 0 ? human_number(cell.parameters) : kNothing));
    if (task.causal) {
      row.push_back(number_cell(cell.state_bytes ? human_number(*cell.state_bytes) : kNothing));
    }
    row.push_back(number_cell(cell.rate ? format_text("%g", *cell.rate) : kNothing));
    row.push_back(number_cell(show_score(task, cell.score)));
    for (const std::string& name : cases) {
      const auto found = cell.cases.find(name);
      row.push_back(
          number_cell(found == cell.cases.end() ? kNothing : show(found->second, 100, 1)));
    }
    row.push_back(number_cell(cat(cell.score.n)));
    row.push_back(number_cell(show({cell.cpu_seconds.n, cell.cpu_seconds.mean, NAN}, 1, 1)));
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::string notes_of(const QualityTable& table) {
  std::string text =
      "± is the sample standard deviation over the seeds. Parameters are made equal by the width "
      "of the MLPs. ";
  if (table.rates.size() > 1) {
    text +=
        cat("The learning rate of every contestant and task is the best of ", table.rates.size(),
            " in one run each with seed ", kTuningSeed, ", which is not reported. ");
  }
  return text +
         "The state is what a model keeps of the longest sample. Cases of recall are length, "
         "or length/pairs.";
}

json cell_json(const QualityCell& cell) {
  json tried = json::array();
  for (const auto& [rate, score] : cell.tried) tried.push_back({{"lr", rate}, {"score", score}});
  json object =
      TOST_MEMBERS(cell, contestant, parameters, state_bytes, score, cases, cpu_seconds, failed);
  object.update({{"lr", member_json(cell.rate)}, {"tried", tried}});
  return object;
}

}  // namespace

std::vector<Table> quality_tables(const QualityTable& table) {
  std::vector<Table> all;
  for (const bool causal : {true, false}) {
    Table one = overview(table, causal);
    if (!one.rows.empty()) all.push_back(std::move(one));
  }
  for (const QualityTaskTable& task : table.tasks) all.push_back(details(task));
  return all;
}

json to_json(const QualityTable& table) {
  json tasks = json::array();
  for (const QualityTaskTable& task : table.tasks) {
    json cells = json::array();
    for (const QualityCell& cell : task.cells) cells.push_back(cell_json(cell));
    tasks.push_back(TOST_MEMBERS(task, title, metric, split, causal, steps));
    tasks.back().update({{"task", task.name}, {"contestants", cells}});
  }
  json object = TOST_MEMBERS(table.heading, command, machine, date);
  object.update({{"learning_rates", table.rates},
                 {"tuning_seed", kTuningSeed},
                 {"tasks", tasks},
                 {"remarks", table.remarks}});
  return object;
}

std::string quality_markdown(const QualityTable& table) {
  std::string text = "# Quality\n";
  for (const Table& each : quality_tables(table)) text += "\n" + to_markdown(each);
  text += "\n" + notes_of(table) + "\n";
  for (const std::string& remark : table.remarks) text += "\n" + escape_markdown(remark) + "\n";
  return text + "\n" + escape_markdown(table.heading.machine) + "\n";
}

Page quality_page(const QualityTable& table) {
  Page page("Quality", table.heading.date);
  page.section("results", "Results", notes_of(table));
  for (const Table& each : quality_tables(table)) page.table(each);
  for (const std::string& remark : table.remarks) page.note(remark);
  page.section("about", "About");
  page.facts({{"Command", table.heading.command},
              {"Machine", table.heading.machine},
              {"Every number", "quality.json"},
              {"Runs, curves", "index.html in each task's folder"}});
  return page;
}

}  // namespace tost
