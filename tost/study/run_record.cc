#include "tost/study/run_record.h"

#include <array>
#include <cmath>
#include <set>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/store/metadata.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kRecordFile[] = "result.json";
constexpr int64_t kMaxBytes = int64_t{16} << 20;
constexpr size_t kMostNesting = 24;
constexpr std::array kStates{"started", "trained", "done", "failed"};

std::optional<double> optional_number(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

std::optional<int64_t> optional_whole(const json& value) {
  if (value.is_null()) return std::nullopt;
  return whole_number(value);
}

// A number that is not finite is written as null.
double number_of(const json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

std::vector<double> numbers_of(const json& values) {
  std::vector<double> numbers;
  for (const json& value : values) numbers.push_back(number_of(value));
  return numbers;
}

std::vector<int64_t> whole_numbers_of(const json& values) {
  std::vector<int64_t> numbers;
  for (const json& value : values) numbers.push_back(whole_number(value));
  return numbers;
}

RunState state_of(const std::string& name) {
  for (size_t i = 0; i < kStates.size(); ++i) {
    if (name == kStates[i]) return static_cast<RunState>(i);
  }
  fail_data("the state '", name, "' is none");
}

RunRecord record_from(const json& object) {
  RunRecord record;
  record.state = state_of(object.at("state").get<std::string>());
  record.settings = object.at("settings");
  record.pretrain = object.at("pretrain");
  record.begun = object.contains("begun") ? optional_whole(object["begun"]) : kBegunUnknown;
  record.error = object.at("error").get<std::string>();
  record.parameters = whole_number(object.at("parameters"));
  record.seconds = optional_number(object.at("seconds"));
  record.cpu_seconds = optional_number(object.at("cpu_seconds"));
  record.metric = object.at("metric").get<std::string>();
  for (const auto& [name, value] : object.at("scores").items()) {
    record.scores[name] = number_of(value);
  }
  record.scored_by = object.at("scored_by");
  for (const auto& [kind, values] : object.at("corrupted").items()) {
    record.corrupted[kind] = numbers_of(values);
  }
  record.heads = optional_whole(object.at("heads"));
  record.head_width = optional_whole(object.at("head_width"));
  const json& curve = object.at("curve");
  record.curve = {whole_numbers_of(curve.at("steps")), whole_numbers_of(curve.at("epochs")),
                  numbers_of(curve.at("values"))};
  if (record.curve.steps.size() != record.curve.values.size() ||
      record.curve.epochs.size() != record.curve.values.size()) {
    fail_data("its curve's lists differ in length");
  }
  return record;
}

// "lr is 0.003 there and 0.001 now".
std::string difference(const json& there, const json& now, const std::string& before = "") {
  std::set<std::string> keys;
  if (!there.is_object() || !now.is_object()) return before + "settings differ";
  for (const json* side : {&there, &now}) {
    for (const auto& item : side->items()) keys.insert(item.key());
  }
  for (const std::string& key : keys) {
    const json a = there.value(key, json()), b = now.value(key, json());
    if (a == b) continue;
    if (a.is_object() && b.is_object()) return difference(a, b, before + key + ".");
    const auto shown = [](const json& value) {
      return value.is_null() ? "not set" : json_text(value);
    };
    return cat(before, key, " is ", shown(a), " there and ", shown(b), " now");
  }
  return "";
}

}  // namespace

json to_json(const RunRecord& r) {
  json object = TOST_MEMBERS(r, settings, pretrain, begun, error, parameters, seconds, cpu_seconds,
                             metric, scores, scored_by, corrupted, heads, head_width);
  object["state"] = kStates[static_cast<size_t>(r.state)];
  object["curve"] = TOST_MEMBERS(r.curve, steps, epochs, values);
  return object;
}

std::optional<RunRecord> read_record(const fs::path& run) {
  const fs::path path = run / kRecordFile;
  if (!path_exists(path)) return std::nullopt;
  const auto fail = [&](const std::string& why) {
    fail_data("'", path.string(), "' is not a record of a sweep's run (", why,
              "); move its folder away to train the run again.");
  };
  const std::string text = read_file(path, kMaxBytes);
  try {
    const json object = parse_json(text, "it", {.nesting = kMostNesting});
    if (!object.is_object()) fail_data("not a JSON object");
    return record_from(object);
  } catch (const std::exception& error) {  // of the JSON library too
    const std::string why = error.what();
    fail(why.substr(0, why.size() - ends_with(why, ".")));
  }
  return std::nullopt;
}

void write_record(const fs::path& run, const RunRecord& record) {
  write_file_atomic(run / kRecordFile, json_text(to_json(record), 2) + "\n");
}

RunAction choose_action(const RunRecord* record, const json& settings, const json& pretrain,
                        const json& scored_by, bool overwrite, const std::string& where) {
  if (record == nullptr) return RunAction::kTrain;
  const bool failed = record->state == RunState::kFailed;
  if (record->settings != settings || record->pretrain != pretrain) {
    if (overwrite || failed) return RunAction::kRedo;
    const bool main = record->settings != settings;
    const std::string what = main ? difference(record->settings, settings)
                                  : difference(record->pretrain, pretrain, "pretrain: ");
    fail_usage("The run in '", where, "' was made with other settings (", what,
               "); train it again with --overwrite, or choose another --out.");
  }
  if (failed && overwrite) return RunAction::kRedo;
  if (failed || record->state == RunState::kStarted) return RunAction::kResume;
  const bool scored = record->state == RunState::kDone && record->scored_by == scored_by;
  return scored ? RunAction::kKeep : RunAction::kScore;
}

std::string action_name(RunAction action) {
  switch (action) {
    case RunAction::kTrain:
      return "train";
    case RunAction::kResume:
      return "resume";
    case RunAction::kRedo:
      return "train again";
    case RunAction::kScore:
      return "score";
    case RunAction::kKeep:
      return "keep";
  }
  return "";
}

}  // namespace tost
