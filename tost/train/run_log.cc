#include "tost/train/run_log.h"

#include <cmath>

#include "tost/io/parse_json.h"
#include "tost/store/run_layout.h"

namespace tost {

using nlohmann::json;

RunLog::RunLog(const std::filesystem::path& run, int64_t first_step, int64_t rollbacks,
               std::string unit)
    : rollbacks_(rollbacks),
      unit_(std::move(unit)),
      // Nothing is kept of a process that died before its first checkpoint, not even step 0.
      files_(new Files{FolderPlace(run),
                       MetricsLog(run / kMetricsFile, first_step > 0 ? first_step : -1, rollbacks),
                       EventFile(run, first_step > 0 ? first_step + 1 : 0)}) {}

void RunLog::add_step(const StepReport& report) {
  if (files_ == nullptr) return;
  json line{{"kind", "train"},
            {"step", report.step},
            {"epoch", report.epoch + 1},
            {"loss", report.loss},
            {"lr", report.lr},
            {unit_ + "_per_s", report.samples_per_s},
            {"wait_share", report.wait_share}};
  Scalars scalars{{"train/loss", report.loss},
                  {"train/lr", report.lr},
                  {"speed/" + unit_ + "_per_s", report.samples_per_s},
                  {"speed/wait_share", report.wait_share}};
  if (std::isfinite(report.accuracy)) {
    line["accuracy"] = report.accuracy;
    scalars.emplace_back("train/accuracy", report.accuracy);
  }
  if (report.peers) {
    line["peer_wait_share"] = report.peers->waiting;
    line["slowest_rank"] = report.peers->slowest_rank;
    scalars.emplace_back("speed/peer_wait_share", report.peers->waiting);
  }
  add(line);
  files_->events.add(report.step, scalars);
}

void RunLog::add_eval(const json& metrics) {
  if (files_ == nullptr) return;
  json line = metrics;
  line["kind"] = "eval";
  add(line);
  Scalars scalars;
  for (const auto& [key, value] : metrics.items()) {
    if (value.is_number() && key != "step" && key != "epoch") {
      scalars.emplace_back("eval/" + key, value.get<double>());
    }
  }
  files_->events.add(metrics.at("step").get<int64_t>(), scalars);
  flush();
}

void RunLog::add_sample(int64_t step, const std::string& text) {
  add({{"kind", "sample"}, {"step", step}, {"text", text}});
}

void RunLog::add_bound(int64_t step, const json& measured) {
  if (files_ == nullptr) return;
  json line = measured;
  line["kind"] = "bound";
  line["step"] = step;
  add(line);
  Scalars scalars;
  for (const json& layer : measured.at("layers")) {
    const std::string number = json_text(layer.at("layer"));
    for (const auto& [key, value] : layer.items()) {
      if (key == "layer") continue;
      scalars.emplace_back("bound/" + key + "/" + number, value.get<double>());
    }
  }
  files_->events.add(step, scalars);
}

void RunLog::add_event(const std::string& event, int64_t step, const json& facts) {
  json line = facts;
  line["kind"] = "event";
  line["event"] = event;
  line["step"] = step;
  line["rollbacks"] = rollbacks_;
  add(line);
  flush();
}

void RunLog::add(const json& line) {
  if (files_ == nullptr) return;
  files_->place.check();
  files_->metrics.add(line);
}

void RunLog::flush() {
  if (files_ == nullptr) return;
  files_->place.check();
  files_->metrics.flush();
  files_->events.flush();
}

}  // namespace tost
