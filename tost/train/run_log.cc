#include "tost/train/run_log.h"

#include <cmath>
#include <functional>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxLine = size_t{64} << 20;

// The object in a line of the log; null if the line is not JSON.
json object_of(const std::string& line) {
  try {
    return parse_json(line, "the line");
  } catch (const Error&) {
    return nullptr;
  }
}

bool is_retained(const json& line, int64_t last_step, int64_t rollbacks) {
  if (line.value("kind", json()) == "event") {
    const json before = line.value("rollbacks", json());
    if (before.is_number_integer() && before != rollbacks) return before < rollbacks;
  }
  return line["step"].get<int64_t>() <= last_step;
}

// Calls `line` with each line of the file that ends with a line break.
void each_line(const fs::path& path, size_t piece_bytes,
               const std::function<void(const std::string&)>& line) {
  InputFile file(path);
  std::string piece(piece_bytes, '\0'), rest;
  while (const size_t count = file.read(piece.data(), piece.size())) {
    size_t begin = 0;
    for (size_t end; (end = piece.find('\n', begin)) < count; begin = end + 1) {
      line(rest.append(piece, begin, end - begin));
      rest.clear();
    }
    rest.append(piece, begin, count - begin);
    if (rest.size() > kMaxLine) {
      fail_data("'", path.string(), "' has a line of more than ", kMaxLine,
                " bytes, which no run has written; move the file away to resume.");
    }
  }
}

// Whether a run at last_step would have written the line.
bool is_retained(const std::string& line, int64_t number, int64_t last_step, int64_t rollbacks,
                 const fs::path& path) {
  const json object = object_of(line);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
    fail_data("'", path.string(), "' line ", number,
              " is not a JSON object with a step; move the file away to resume.");
  }
  return is_retained(object, last_step, rollbacks);
}

// Opens the log, and rewrites it only if lines are dropped.
OutputFile open_log(const fs::path& path, int64_t last_step, int64_t rollbacks, size_t piece) {
  if (path_exists(path)) {
    int64_t number = 0, bytes_left = 0;
    each_line(path, piece, [&](const std::string& line) {
      if (is_retained(line, ++number, last_step, rollbacks, path))
        bytes_left += std::ssize(line) + 1;
    });
    if (bytes_left != file_bytes(path)) {
      AtomicFile file(path);
      each_line(path, piece, [&](const std::string& line) {
        if (is_retained(line, number, last_step, rollbacks, path)) file.write(line + "\n");
      });
      file.finish();
    }
  }
  return OutputFile(path, OutputFile::Mode::kAppend);
}

}  // namespace

MetricsLog::MetricsLog(const fs::path& path, int64_t last_step, int64_t rollbacks,
                       size_t piece_bytes)
    : file_(open_log(path, last_step, rollbacks, piece_bytes)) {
  sync_directory(path.parent_path());  // else a crash can take the whole file, flushed or not
}

void MetricsLog::add(const json& line) {
  file_.write(json_text(line) + "\n");
}

void MetricsLog::flush() {
  file_.sync();
}

RunLog::RunLog(const std::filesystem::path& run, int64_t first_step, int64_t rollbacks,
               std::string unit)
    : rollbacks_(rollbacks),
      unit_(std::move(unit)),
      // Drops all lines, even of step 0, of a process that died before its first checkpoint.
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
