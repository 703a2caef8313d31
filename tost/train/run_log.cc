#include "tost/train/run_log.h"

#include <cmath>

#include "tost/store/run_layout.h"

namespace tost {

using nlohmann::json;

RunLog::RunLog(const std::filesystem::path& run, int64_t first_step, int64_t rollbacks,
               std::string unit)
    : rollbacks_(rollbacks),
      unit_(std::move(unit)),
      // Nothing is kept of a process that died before its first checkpoint, not even step 0.
      files_(new Files{FolderPlace(run), MetricsLog(run / kMetricsFile,
                                                    first_step > 0 ? first_step : -1, rollbacks)}) {
}

void RunLog::add_step(const StepReport& report) {
  json line{{"epoch", report.epoch + 1},
            {"loss", report.loss},
            {"lr", report.lr},
            {unit_ + "_per_s", report.samples_per_s},
            {"wait_share", report.wait_share}};
  if (std::isfinite(report.accuracy)) line["accuracy"] = report.accuracy;
  if (report.peers) {
    line["peer_wait_share"] = report.peers->waiting;
    line["slowest_rank"] = report.peers->slowest_rank;
  }
  add("train", report.step, std::move(line));
}

void RunLog::add_eval(const json& metrics) {
  add("eval", metrics.at("step").get<int64_t>(), metrics);
  flush();
}

void RunLog::add_sample(int64_t step, const std::string& text) {
  add("sample", step, {{"text", text}});
}

void RunLog::add_bound(int64_t step, const json& measured) {
  add("bound", step, measured);
}

void RunLog::add_event(const std::string& event, int64_t step, const json& facts) {
  json line = facts;
  line["event"] = event;
  line["rollbacks"] = rollbacks_;
  add("event", step, std::move(line));
  flush();
}

void RunLog::add(const std::string& kind, int64_t step, json line) {
  if (files_ == nullptr) return;
  line["kind"] = kind;
  line["step"] = step;
  files_->place.check();
  files_->metrics.add(line);
}

void RunLog::flush() {
  if (files_ == nullptr) return;
  files_->place.check();
  files_->metrics.flush();
}

}  // namespace tost
