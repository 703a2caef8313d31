#include "tost/explain/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "explain_page.h"  // web/explain.html, made by the build
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"

namespace tost {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using torch::Tensor;

bool holds_report(const fs::path& folder) {
  const fs::path file = folder / "report.json";
  return is_plain_file(file) && !is_link(file) &&
         read_beginning(file, kReportMarker.size()) == kReportMarker;
}

// Finds a file that is not part of a report, and returns the file's name; "" if there is none.
std::string foreign_file(const fs::path& folder) {
  for (const FolderEntry& entry : folder_entries(folder)) {
    const std::string name = entry.path.filename().string();
    if ((name != "index.html" && name != "report.json") || entry.folder) return name;
  }
  return "";
}

void write_synced(const fs::path& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.sync();
  file.close();
}

void write_files(const fs::path& folder, const nlohmann::json& numbers) {
  make_directories(folder);
  write_synced(folder / "index.html", report_page(numbers));
  write_synced(folder / "report.json", report_text(numbers));
  sync_directory(folder);
}

[[noreturn]] void fail_rename(const fs::path& to, int error) {
  fail_data("Cannot put the report at '", to.string(), "': ", system_reason(error), ".");
}

// Exchanges the new folder with the old one, in one step if the file system can. If the file system
// cannot, moves the old folder to `aside`, and restores it if the new one cannot be renamed.
void exchange(const fs::path& fresh, const fs::path& target, const fs::path& aside) {
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
#endif
  if (std::rename(target.c_str(), aside.c_str()) != 0) fail_rename(target, errno);
  if (std::rename(fresh.c_str(), target.c_str()) != 0) {
    const int error = errno;
    if (std::rename(aside.c_str(), target.c_str()) != 0) {
      fail_data("Cannot put the report at '", target.string(), "': ", system_reason(error),
                "; the earlier one is now '", aside.string(), "'.");
    }
    fail_rename(target, error);
  }
}

// The folder itself, with all links resolved.
fs::path target_of(const fs::path& folder) {
  if (folder.empty()) fail_usage("The report needs a folder; its name is empty.");
  fs::path target = canonical_path(folder);
  if (target.filename().empty()) target = target.parent_path();
  if (target == target.root_path()) {
    fail_usage("The report cannot be written over '", target.string(), "'; give a folder.");
  }
  return target;
}

bool fits_one_line(const json& value) {
  if (!value.is_structured() || value.empty()) return true;
  return value.is_array() && std::none_of(value.begin(), value.end(),
                                          [](const json& item) { return item.is_structured(); });
}

void append(std::string& out, const json& value, size_t depth) {
  if (fits_one_line(value)) {
    out += json_text(value);
    return;
  }
  const std::string indent(2 * depth + 2, ' ');
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    out += first ? "\n" : ",\n";
    first = false;
    out += indent;
    if (value.is_object()) out += json_text(json(item.key())) + ": ";
    append(out, *item, depth + 1);
  }
  out += '\n' + std::string(2 * depth, ' ');
  out += value.is_object() ? '}' : ']';
}

json nested_values(const double* values, at::IntArrayRef shape,
                   function_ref<double(double)> written) {
  if (shape.empty()) return number_or_null(written(*values));
  const at::IntArrayRef inner = shape.slice(1);
  json list = json::array();
  for (int64_t i = 0; i < shape[0]; ++i) {
    list.push_back(nested_values(values + i * c10::multiply_integers(inner), inner, written));
  }
  return list;
}

}  // namespace

bool check_report_target(const fs::path& wanted, bool overwrite) {
  const fs::path folder = target_of(wanted);
  if (!is_taken(folder)) return false;
  if (!is_folder(folder)) {
    fail_usage("'", folder.string(), "' is a file; give the name of a folder for the report.");
  }
  if (is_empty_folder(folder)) return false;
  if (!overwrite) {
    fail_usage("'", folder.string(),
               "' already holds files; choose another folder, or replace an earlier report with "
               "--overwrite.");
  }
  if (!holds_report(folder)) {
    fail_usage("'", folder.string(),
               "' holds files but no report; only a report is overwritten, choose another folder.");
  }
  const std::string foreign = foreign_file(folder);
  if (!foreign.empty()) {
    fail_usage("'", folder.string(), "' holds '", foreign,
               "', which is not part of a report; move it away or choose another folder.");
  }
  return true;
}

void write_report(const fs::path& folder, const nlohmann::json& numbers, bool overwrite) {
  const fs::path target = target_of(folder);
  const bool replace = check_report_target(folder, overwrite);
  make_directories(target.parent_path());
  const auto sibling = [&](const char* what) {
    return target.parent_path() / cat('.', target.filename().string(), what, ::getpid());
  };
  const fs::path fresh = sibling(".new-"), aside = sibling(".old-");
  try {
    discard(fresh);
    write_files(fresh, numbers);
    if (replace) {
      exchange(fresh, target, aside);
    } else if (std::rename(fresh.c_str(), target.c_str()) != 0) {
      fail_rename(target, errno);
    }
  } catch (...) {
    discard(fresh);
    throw;
  }
  sync_directory(target.parent_path());
  discard(fresh);
  discard(aside);
}

std::string report_text(const json& numbers) {
  std::string out(kReportMarker);
  for (const auto& [key, value] : numbers.items()) {
    if (key == "tost_report") continue;
    out += ",\n  " + json_text(json(key)) + ": ";
    append(out, value, 1);
  }
  return out + "\n}\n";
}

std::string report_page(const json& numbers) {
  constexpr std::string_view kMark = "@numbers@";
  const std::string written = json_text(numbers);
  std::string page(kExplainPage), text;
  // Escapes characters by which a text could end the page's script or a line of the script.
  for (size_t at = 0; at < written.size(); ++at) {
    const std::string_view next = std::string_view(written).substr(at, 3);
    if (next[0] == '<') {
      text += "\\u003c";
    } else if (next == "\u2028" || next == "\u2029") {
      text += next == "\u2028" ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      text += next[0];
    }
  }
  return page.replace(page.find(kMark), kMark.size(), text);
}

json nested(const Tensor& tensor, function_ref<double(double)> written) {
  if (!tensor.defined()) return {};
  const Tensor values = tensor.to(torch::kDouble).contiguous();
  return nested_values(values.data_ptr<double>(), values.sizes(), written);
}

json rounded(const Tensor& tensor, int decimals) {
  const double unit = std::pow(10.0, decimals);
  return nested(tensor, [unit](double value) { return std::round(value * unit) / unit; });
}

std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what) {
  for (const int64_t number : wanted) {
    if (number >= 1 && number <= count) continue;
    if (count == 0) fail_usage("There is no ", what, " ", number, "; the model has none.");
    fail_usage("There is no ", what, " ", number, "; the model has ", count, " ", what,
               count == 1 ? "" : "s", ", counted from 1.");
  }
  std::vector<int64_t> chosen = wanted;
  if (chosen.empty()) {
    chosen.resize(size_t(count));
    std::iota(chosen.begin(), chosen.end(), 1);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::vector<int64_t> spread_numbers(int64_t count, int64_t most) {
  const int64_t shown = std::min(count, most);
  if (shown < 1) return {};
  if (shown == 1) return {count};
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < shown; ++i) {
    numbers.push_back(1 + (i * (count - 1) + (shown - 1) / 2) / (shown - 1));
  }
  return numbers;
}

}  // namespace tost
