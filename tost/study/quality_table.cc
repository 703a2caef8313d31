#include "tost/study/quality_table.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/study/run_score.h"

namespace tost {
namespace {

QualityCell cell_of(const QualityTaskResult& result, const std::string& contestant,
                    const std::vector<double>& rates) {
  QualityCell cell{.contestant = contestant};
  for (const double rate : rates) {
    const auto* tried = find_variant(result.tried, tuning_variant(contestant, rate));
    if (tried == nullptr) continue;
    cell.failed += tried->failed;
    if (std::isfinite(tried->score.mean)) cell.tried[rate] = tried->score.mean;
  }
  const auto rate = result.rates.find(contestant);
  if (rate != result.rates.end()) cell.rate = rate->second;
  const auto bytes = result.task->state_bytes.find(contestant);
  if (bytes != result.task->state_bytes.end()) cell.state_bytes = bytes->second;
  const VariantSummary* found = find_variant(result.summary, contestant);
  if (found == nullptr) return cell;
  cell.parameters = found->parameters;
  cell.score = found->score;
  cell.cpu_seconds = found->cpu_seconds;
  cell.failed += found->failed;
  for (const auto& [name, value] : found->scores) {
    if (!starts_with(name, kCaseScore)) continue;
    cell.cases[name.substr(std::string(kCaseScore).size())] = value;
  }
  return cell;
}

QualityTaskTable task_table(const QualityTaskResult& result, const std::vector<double>& rates) {
  const SweepSummary& summary = result.summary;
  QualityTaskTable task{.name = result.task->name,
                        .title = result.task->title,
                        .metric = summary.metric,
                        .split = summary.split,
                        .causal = result.task->causal};
  for (const VariantSummary& v : summary.variants) {
    if (!v.steps.empty()) task.steps = std::max(task.steps, v.steps.back());
  }
  for (const SweepVariant& one : result.task->spec.variants) {
    task.cells.push_back(cell_of(result, one.name, rates));
  }
  return task;
}

void remark_on(const QualityTaskTable& task, QualityTable& table) {
  for (const QualityCell& cell : task.cells) {
    if (cell.failed == 0) continue;
    table.remarks.push_back(cat(cell.failed, cell.failed == 1 ? " run of " : " runs of ",
                                cell.contestant, " failed in ", task.title,
                                "; the tables of its sweeps say why."));
  }
}

}  // namespace

bool lower_is_better(const std::string& metric) {
  return metric == "loss";
}

const VariantSummary* find_variant(const SweepSummary& summary, const std::string& name) {
  for (const VariantSummary& v : summary.variants) {
    if (v.variant == name) return &v;
  }
  return nullptr;
}

QualityTable quality_table(const QualityPlan& plan, const std::vector<QualityTaskResult>& results,
                           const QualityHeading& heading) {
  QualityTable table{.heading = heading, .rates = plan.learning_rates, .tasks = {}, .remarks = {}};
  for (const QualityMissing& missing : plan.missing) table.remarks.push_back(missing.why);
  for (const QualityTaskResult& result : results) {
    table.tasks.push_back(task_table(result, plan.learning_rates));
    remark_on(table.tasks.back(), table);
  }
  if (results.size() < plan.tasks.size()) {
    table.remarks.push_back(cat(plan.tasks.size() - results.size(), " of ", plan.tasks.size(),
                                " tasks are not done yet; the same command resumes."));
  }
  return table;
}

}  // namespace tost
