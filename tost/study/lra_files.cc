#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/study/lra_table.h"
#include "tost/study/sweep_report.h"

namespace tost {
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
      cells[task] = {{"top1", to_json(c.top1)},
                     {"parameters_more", c.more ? json(*c.more) : json()},
                     {"seconds", to_json(c.seconds)},
                     {"cpu_seconds", to_json(c.cpu_seconds)}};
      cells[task].update(TOST_MEMBERS(c, parameters, steps, failed));
    }
    rows.push_back({{"mixer", row.mixer},
                    {"tasks", cells},
                    {"mean_of_five", to_json(row.mean_of_five)},
                    {"mean_of_six", to_json(row.mean_of_six)},
                    {"path_x_assumed", row.path_x_assumed}});
  }
  return {{"title", table.title},
          {"tasks", table.tasks},
          {"reference", table.reference},
          {"rows", rows},
          {"remarks", table.remarks}};
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
