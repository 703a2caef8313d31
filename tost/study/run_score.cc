#include "tost/study/run_score.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/parse_json.h"
#include "tost/store/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The evaluations in a run's log, in order.
std::vector<json> read_evaluations(const fs::path& run) {
  const fs::path path = run / kMetricsFile;
  const std::string text = read_file(path, int64_t{1} << 30);
  std::vector<json> found;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    json line = parse_json(std::string_view(text).substr(begin, end - begin),
                           cat("A line of '", path.string(), "'"));
    if (!line.is_object()) fail_data("'", path.string(), "' has a line that is not a JSON object.");
    if (line.value("kind", json()) == "eval") found.push_back(std::move(line));
  }
  return found;
}

double number(const json& line, const std::string& key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_number() ? value->get<double>() : std::nan("");
}

int64_t integer(const json& line, const char* key) {
  const auto value = line.find(key);
  if (value == line.end() || !value->is_number_integer()) {
    fail_data("An evaluation in ", kMetricsFile, " has no integer '", key,
              "'; train the run again.");
  }
  return value->get<int64_t>();
}

ScoreCurve curve_of(const std::vector<json>& evaluations, const std::string& metric) {
  ScoreCurve curve;
  for (const json& line : evaluations) {
    curve.steps.push_back(integer(line, "step"));
    curve.epochs.push_back(integer(line, "epoch"));
    curve.values.push_back(number(line, metric));
  }
  return curve;
}

// What the kind logs, and the accuracy of every case of recall.
std::map<std::string, double> logged_scores(const RunKind& kind, const json& evaluation) {
  std::map<std::string, double> scores;
  for (const std::string& key : kind.logged) scores[key] = number(evaluation, key);
  for (const json& one : evaluation.value("cases", json::array())) {
    if (!one.is_object()) continue;
    std::string name = kCaseScore + cat(integer(one, "length"));
    if (one.contains("pairs")) name += cat("/", integer(one, "pairs"));
    scores[name] = number(one, "accuracy");
  }
  return scores;
}

// Mixers without heads have them in their configuration all the same.
void read_heads(const fs::path& run, RunRecord& record) {
  const fs::path file = run / kModelInfoFile;
  const json model = parse_json(read_file(file, int64_t{64} << 20), cat("'", file.string(), "'"));
  if (!model.is_object() || !model.contains("config")) return;
  const json& config = model["config"];
  const double dim = number(config, "dim"), heads = number(config, "heads");
  const json mixer = config.value("mixer", json());
  if (mixer == "none" || mixer == "ssm" || config.value("architecture", json()) == "linear") return;
  if (!(heads >= 1 && dim >= heads)) return;
  record.heads = static_cast<int64_t>(heads);
  record.head_width = static_cast<int64_t>(dim / heads);
}

}  // namespace

json scoring_rule(const SweepSpec& spec, const RunKind& kind) {
  if (!kind.score) return {{"split", "validation"}, {"corruptions", nullptr}};
  json corruptions;
  if (spec.corruptions) {
    corruptions = {{"kinds", spec.corruptions->kinds},
                   {"strengths", spec.corruptions->strengths},
                   {"split", spec.corruptions->split}};
  }
  return {{"split", spec.split.empty() ? "test" : spec.split}, {"corruptions", corruptions}};
}

bool score_run(const fs::path& run, const RunKind& kind, const json& rule, RunRecord& record,
               const std::atomic<bool>* stop) {
  const std::vector<json> evaluations = read_evaluations(run);
  record.metric = kind.metric;
  if (kind.score) {
    auto found = kind.score(run, rule, stop);
    if (!found) return false;
    record.scores = std::move(found->scores);
    record.corrupted = std::move(found->corrupted);
  } else if (evaluations.empty()) {
    fail_data("'", run.string(), "' has no evaluation to read the ", record.metric, " from.");
  } else {
    record.scores = logged_scores(kind, evaluations.back());
  }
  record.curve = curve_of(evaluations, record.metric);
  read_heads(run, record);
  record.scored_by = rule;
  return true;
}

}  // namespace tost
