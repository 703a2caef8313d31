#include "tost/study/sweep_summary.h"

#include <algorithm>
#include <set>

#include "tost/study/run_score.h"

namespace tost {
namespace {

using nlohmann::json;
using Records = std::vector<std::pair<int64_t, const RunRecord*>>;  // seed, a run that is done

MeanSpread over(const Records& records, auto value) {
  std::vector<double> values;
  for (const auto& [seed, record] : records) {
    const std::optional<double> found = value(*record);
    if (found) values.push_back(*found);
  }
  return mean_spread(values);
}

void add_scores(const Records& records, VariantSummary& summary) {
  std::set<std::string> names;
  for (const auto& [seed, record] : records) {
    for (const auto& [name, value] : record->scores) names.insert(name);
  }
  for (const std::string& name : names) {
    summary.scores[name] = over(records, [&](const RunRecord& record) -> std::optional<double> {
      const auto found = record.scores.find(name);
      if (found == record.scores.end()) return std::nullopt;
      return found->second;
    });
  }
}

void add_corrupted(const Records& records, const SweepSummary& sweep, VariantSummary& summary) {
  for (const std::string& kind : sweep.kinds) {
    // Records of an earlier rule have other strengths.
    const auto values_of = [&](const RunRecord& record) -> const std::vector<double>* {
      const auto found = record.corrupted.find(kind);
      if (found == record.corrupted.end() || found->second.size() != sweep.strengths.size())
        return nullptr;
      return &found->second;
    };
    for (size_t s = 0; s < sweep.strengths.size(); ++s) {
      const auto at_strength = [&](const RunRecord& record) -> std::optional<double> {
        const auto* values = values_of(record);
        if (values == nullptr) return std::nullopt;
        return (*values)[s];
      };
      summary.corrupted[kind].push_back(over(records, at_strength));
    }
    summary.corrupted_mean[kind] =
        over(records, [&](const RunRecord& record) -> std::optional<double> {
          const auto* values = values_of(record);
          if (values == nullptr) return std::nullopt;
          return mean_spread(*values).mean;
        });
  }
}

void add_curve(const Records& records, VariantSummary& summary) {
  if (records.empty()) return;
  const ScoreCurve& first = records.front().second->curve;
  for (size_t i = 0; i < first.steps.size(); ++i) {
    std::vector<double> values;
    for (const auto& [seed, record] : records) {
      const auto& steps = record->curve.steps;
      const auto at = std::find(steps.begin(), steps.end(), first.steps[i]) - steps.begin();
      if (size_t(at) < steps.size()) values.push_back(record->curve.values[size_t(at)]);
    }
    if (values.size() != records.size()) continue;
    summary.steps.push_back(first.steps[i]);
    summary.epochs.push_back(first.epochs[i]);
    summary.curve.push_back(mean_spread(values));
  }
}

VariantSummary summarize_variant(const std::string& variant, const std::vector<SweepStep>& steps,
                                 const SweepSummary& sweep) {
  VariantSummary summary;
  summary.variant = variant;
  Records records;
  for (const SweepStep& step : steps) {
    if (step.run.variant != variant || !step.record) continue;
    if (!step.record->error.empty()) ++summary.failed;
    if (step.record->state == RunState::kDone) records.emplace_back(step.run.seed, &*step.record);
  }
  for (const auto& [seed, record] : records) {
    summary.parameters = record->parameters;
    summary.heads = record->heads;
    summary.head_width = record->head_width;
    const auto score = record->scores.find(sweep.metric);
    if (score != record->scores.end()) summary.by_seed[seed] = score->second;
  }
  add_scores(records, summary);
  add_corrupted(records, sweep, summary);
  add_curve(records, summary);
  summary.score = summary.scores[sweep.metric];
  summary.seconds = over(records, [](const RunRecord& r) { return r.seconds; });
  summary.cpu_seconds = over(records, [](const RunRecord& r) { return r.cpu_seconds; });
  return summary;
}

}  // namespace

SweepSummary summarize(const SweepSpec& spec, const SweepPlan& plan,
                       const std::vector<SweepStep>& steps) {
  SweepSummary sweep;
  sweep.metric = plan.kind->metric;
  const json rule = scoring_rule(spec, *plan.kind);
  sweep.split = rule.at("split").get<std::string>();
  if (spec.corruptions) {
    sweep.corrupted_split = spec.corruptions->split;
    sweep.kinds = spec.corruptions->kinds;
    sweep.strengths = spec.corruptions->strengths;
  }
  for (const std::string& variant : plan.variants) {
    sweep.variants.push_back(summarize_variant(variant, steps, sweep));
    VariantSummary& added = sweep.variants.back();
    if (sweep.variants.size() == 1) continue;
    added.difference = paired_difference(added.by_seed, sweep.variants.front().by_seed);
  }
  return sweep;
}

MeanSpread mean_spread(const std::vector<double>& values) {
  MeanSpread result;
  result.n = static_cast<int64_t>(values.size());
  if (values.empty()) return result;
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  result.mean = sum / double(result.n);
  if (result.n < 2) return result;
  for (double value : values) squares += (value - result.mean) * (value - result.mean);
  result.spread = std::sqrt(squares / double(result.n - 1));
  return result;
}

MeanSpread paired_difference(const std::map<int64_t, double>& values,
                             const std::map<int64_t, double>& base) {
  std::vector<double> differences;
  for (const auto& [seed, value] : values) {
    const auto other = base.find(seed);
    if (other != base.end()) differences.push_back(value - other->second);
  }
  return mean_spread(differences);
}

}  // namespace tost
