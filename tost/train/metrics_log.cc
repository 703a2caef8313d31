#include "tost/train/metrics_log.h"

#include <functional>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxLine = size_t{64} << 20;

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

// Calls `line` with each line of the file that a line break ends.
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

// Whether the line is part of what a run at last_step had written.
bool stays(const std::string& line, int64_t number, int64_t last_step, int64_t rollbacks,
           const fs::path& path) {
  const json object = object_of(line);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
    fail_data("'", path.string(), "' line ", number,
              " is not a JSON object with a step; move the file away to resume.");
  }
  return stays(object, last_step, rollbacks);
}

// Only a file that loses lines is written again.
OutputFile open_log(const fs::path& path, int64_t last_step, int64_t rollbacks, size_t piece) {
  if (path_exists(path)) {
    int64_t number = 0, kept = 0;
    each_line(path, piece, [&](const std::string& line) {
      if (stays(line, ++number, last_step, rollbacks, path)) kept += std::ssize(line) + 1;
    });
    if (kept != file_bytes(path)) {
      AtomicFile file(path);
      each_line(path, piece, [&](const std::string& line) {
        if (stays(line, number, last_step, rollbacks, path)) file.write(line + "\n");
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

}  // namespace tost
