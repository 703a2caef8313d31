#include "tost/train/metrics_log.h"

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxBytes = int64_t{1} << 30;

// Null where the line is not JSON.
json object_of(const std::string& line) {
  try {
    return parse_json(line, "the line");
  } catch (const Error&) {
    return nullptr;
  }
}

bool stays(const json& line, int64_t last_step, int64_t rollbacks) {
  if (line.value("kind", json()) == "event") {
    const json before = line.value("rollbacks", json());
    if (before.is_number_integer() && before != rollbacks) return before < rollbacks;
  }
  return line["step"].get<int64_t>() <= last_step;
}

// The part of `text` that a run at last_step had written.
std::string lines_up_to(const std::string& text, int64_t last_step, int64_t rollbacks,
                        const fs::path& path) {
  std::string kept;
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const json object = object_of(line);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
      fail_data("'", path.string(), "' line ", number,
                " is not a JSON object with a step; move the file away to resume.");
    }
    if (stays(object, last_step, rollbacks)) kept += line + "\n";
  }
  return kept;
}

OutputFile open_log(const fs::path& path, int64_t last_step, int64_t rollbacks) {
  if (path_exists(path)) {
    const std::string text = read_file(path, kMaxBytes);
    const std::string kept = lines_up_to(text, last_step, rollbacks, path);
    if (kept.size() != text.size()) write_file_atomic(path, kept);
  }
  return OutputFile(path, OutputFile::Mode::kAppend);
}

}  // namespace

MetricsLog::MetricsLog(const fs::path& path, int64_t last_step, int64_t rollbacks)
    : file_(open_log(path, last_step, rollbacks)) {
  sync_directory(path.parent_path());  // else a crash can take the whole file, flushed or not
}

void MetricsLog::add(const json& line) {
  file_.write(json_text(line) + "\n");
}

void MetricsLog::flush() {
  file_.sync();
}

}  // namespace tost
