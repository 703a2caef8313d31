#include "tost/study/quality_run.h"

#include <cmath>

#include "tost/base/file.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

SweepOptions in_folder(const SweepOptions& options, const std::string& name) {
  SweepOptions own = options;
  own.out = options.out / name;
  return own;
}

void write_files(const QualityTable& table, const std::filesystem::path& out) {
  write_file_atomic(out / "quality.json", json_text(to_json(table), 2) + "\n");
  write_file_atomic(out / "quality.md", quality_markdown(table));
  write_file_atomic(out / "index.html", quality_page(table).html());
}

class QualityRunner {
 public:
  QualityRunner(const QualityPlan& plan, const SweepOptions& options, SweepListener& listener,
                const std::atomic<bool>* stop, QualityResult& result)
      : plan_(plan), options_(options), listener_(listener), stop_(stop), result_(result) {}

  // Nothing when interrupted before the task's own sweep.
  std::optional<QualityTaskResult> run(const QualityTask& task) {
    QualityTaskResult found{.task = &task, .rates = {}, .tried = {}, .summary = {}};
    if (plan_.learning_rates.size() == 1) {
      for (const auto& one : task.spec.variants) found.rates[one.name] = plan_.learning_rates[0];
    } else {
      const SweepSpec spec = tuning_sweep(task, plan_.learning_rates);
      found.tried = sweep(spec, task.name + "-rates");
      if (result_.interrupted) return std::nullopt;
      found.rates = best_rates(task, plan_.learning_rates, found.tried);
    }
    if (!found.rates.empty()) found.summary = sweep(final_sweep(task, found.rates), task.name);
    return found;
  }

 private:
  SweepSummary sweep(const SweepSpec& spec, const std::string& folder) {
    const SweepResult done = run_sweep(spec, in_folder(options_, folder), listener_, stop_);
    result_.failed += done.failed;
    result_.interrupted = done.interrupted;
    return summarize(spec, make_plan(spec), done.steps);
  }

  const QualityPlan& plan_;
  const SweepOptions& options_;
  SweepListener& listener_;
  const std::atomic<bool>* stop_;
  QualityResult& result_;
};

}  // namespace

std::map<std::string, double> best_rates(const QualityTask& task, const std::vector<double>& rates,
                                         const SweepSummary& summary) {
  const bool lower = lower_is_better(summary.metric);
  std::map<std::string, double> chosen;
  for (const SweepVariant& one : task.spec.variants) {
    double best = NAN;
    for (const double rate : rates) {
      const VariantSummary* tried = find_variant(summary, tuning_variant(one.name, rate));
      if (tried == nullptr || !std::isfinite(tried->score.mean)) continue;
      const double score = tried->score.mean;
      if (std::isfinite(best) && (lower ? score >= best : score <= best)) continue;
      best = score;
      chosen[one.name] = rate;
    }
  }
  return chosen;
}

QualityResult run_quality(const QualityPlan& plan, const QualityHeading& heading,
                          const SweepOptions& options, SweepListener& listener,
                          const std::atomic<bool>* stop) {
  QualityResult result;
  make_directories(options.out);
  QualityRunner runner(plan, options, listener, stop, result);
  std::vector<QualityTaskResult> done;
  for (const QualityTask& task : plan.tasks) {
    auto found = runner.run(task);
    if (found) done.push_back(*std::move(found));
    result.table = quality_table(plan, done, heading);
    write_files(result.table, options.out);
    if (result.interrupted) break;
  }
  return result;
}

}  // namespace tost
