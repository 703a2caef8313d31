#include "tost/data/token_task.h"

#include <algorithm>
#include <charconv>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/named_sets.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/text_layout.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr int64_t kMaxGroups = 4096, kMaxVocabulary = int64_t{1} << 24;
constexpr int64_t kMaxLength = int64_t{1} << 24;
constexpr int64_t kRowsAtOnce = 4096;

Tensor take(const SafetensorsFile& file, const std::string& where, const char* name,
            int64_t dimensions) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) fail_data(where, " has no tensor '", name, "'.");
  const Tensor& tensor = found->second;
  if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) {
    fail_data(where, ": '", name, "' must hold integers.");
  }
  if (tensor.dim() != dimensions || tensor.numel() == 0) {
    fail_data(where, ": '", name, "' must have ", dimensions, dimensions == 1 ? " axis" : " axes",
              " and not be empty.");
  }
  return tensor;
}

// The number of tokens of each sample up to the last target; 0 if there are no targets.
Tensor lengths_of(const Tensor& targets) {
  const Tensor places = torch::arange(1, targets.size(1) + 1);
  std::vector<Tensor> parts;
  for (int64_t row = 0; row < targets.size(0); row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, targets.size(0) - row);
    const Tensor has_target = targets.narrow(0, row, count).to(torch::kInt64).ge(0);
    parts.push_back(std::get<0>(has_target.to(torch::kInt64).mul(places).max(1)));
  }
  return torch::cat(parts);
}

}  // namespace

TokenTaskData::TokenTaskData(const fs::path& folder, const std::string& split) {
  const fs::path path = token_task_file(folder, split);
  const bool known = std::find(kSplits.begin(), kSplits.end(), split) != kSplits.end();
  if (!known || !is_plain_file(path)) {
    std::vector<std::string> found;
    for (const std::string& name : kSplits) {
      if (is_plain_file(token_task_file(folder, name))) found.push_back(name);
    }
    fail_usage("'", folder.string(), "' has no split '", split, "' of a task",
               found.empty() ? "; python -m tost.tasks makes tasks."
                             : cat("; there are ", join(found, ", "), "."));
  }
  const SafetensorsFile file = load_safetensors(path);
  file_ = cat("'", path.string(), "'");
  tokens_ = take(file, file_, "tokens", 2);
  targets_ = take(file, file_, "targets", 2);
  if (tokens_.sizes() != targets_.sizes()) {
    fail_data(file_, ": 'tokens' and 'targets' differ in shape.");
  }
  if (tokens_.size(1) > kMaxLength) {
    fail_data(file_, " has samples of ", tokens_.size(1), " tokens; at most ", kMaxLength,
              " are possible.");
  }
  read_metadata(file.metadata);
  const bool grouped = file.tensors.contains("group");
  read_groups(grouped ? take(file, file_, "group", 1).to(torch::kInt64)
                      : torch::zeros({tokens_.size(0)}, torch::kInt64));
}

void TokenTaskData::read_metadata(const std::map<std::string, std::string>& metadata) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const std::string vocabulary = text("vocabulary"), tokenizer = text("tokenizer");
  const char* end = vocabulary.data() + vocabulary.size();
  const auto read = std::from_chars(vocabulary.data(), end, vocabulary_);
  if (read.ec != std::errc() || read.ptr != end || vocabulary_ < 1 ||
      vocabulary_ > kMaxVocabulary) {
    fail_data(file_, ": the metadata 'vocabulary' is ", shown(vocabulary, 40),
              " but must be a number from 1 to ", kMaxVocabulary, ".");
  }
  if (!tokenizer.empty() && tokenizer != "bytes") {
    fail_data(file_, ": the metadata 'tokenizer' is ", shown(tokenizer, 40),
              " but must be bytes, or left out.");
  }
  task_ = text("task");
  restores_ = text("restores") == "true";
  bytes_ = tokenizer == "bytes";
  const std::string names = text("groups");
  if (names.empty()) {
    names_ = {"all"};
    return;
  }
  const auto list = parse_json(names, cat("The metadata 'groups' of ", file_), {.nesting = 2});
  const bool texts =
      list.is_array() && !list.empty() && std::ssize(list) <= kMaxGroups &&
      std::all_of(list.begin(), list.end(), [](const auto& one) { return one.is_string(); });
  if (!texts) {
    fail_data(file_, ": the metadata 'groups' must be a list of 1 to ", kMaxGroups, " names.");
  }
  for (const auto& one : list) names_.push_back(one.template get<std::string>());
}

void TokenTaskData::read_groups(const Tensor& group) {
  const int64_t count = tokens_.size(0);
  if (group.size(0) != count) {
    fail_data(file_, ": 'group' has ", group.size(0), " entries for ", count, " samples.");
  }
  const Tensor lengths = lengths_of(targets_);
  rows_.resize(names_.size());
  lengths_.resize(names_.size());
  const auto groups = group.accessor<int64_t, 1>(), longest = lengths.accessor<int64_t, 1>();
  for (int64_t row = 0; row < count; ++row) {
    const int64_t index = groups[row];
    if (index < 0 || index >= std::ssize(names_)) {
      fail_data(file_, ": sample ", row, " is of group ", index, ", and there are ", names_.size(),
                " names of groups.");
    }
    if (longest[row] == 0) fail_data(file_, ": sample ", row, " asks for no token.");
    rows_[size_t(index)].push_back(row);
    lengths_[size_t(index)] = std::max(lengths_[size_t(index)], longest[row]);
  }
  for (size_t i = names_.size(); i-- > 0;) {  // drops names of groups without a sample
    if (!rows_[i].empty()) continue;
    names_.erase(names_.begin() + int64_t(i));
    rows_.erase(rows_.begin() + int64_t(i));
    lengths_.erase(lengths_.begin() + int64_t(i));
  }
}

TokenTaskBatch TokenTaskData::batch(int64_t group, const std::vector<int64_t>& samples) const {
  const auto& rows = rows_[size_t(group)];
  std::vector<int64_t> chosen;
  for (const int64_t sample : samples) chosen.push_back(rows.at(size_t(sample)));
  const Tensor index = torch::tensor(chosen);
  const auto part = [&](const Tensor& all, const char* what, int64_t least) {
    const Tensor some =
        all.index_select(0, index).narrow(1, 0, length(group)).to(torch::kInt64).contiguous();
    const int64_t low = some.min().item<int64_t>(), high = some.max().item<int64_t>();
    if (low < least || high >= vocabulary_) {
      fail_data(file_, ": ", what, " ", low < least ? low : high, " is outside the vocabulary of ",
                vocabulary_, ".");
    }
    return some;
  };
  return {part(tokens_, "token", 0), part(targets_, "target", -1)};
}

}  // namespace tost
