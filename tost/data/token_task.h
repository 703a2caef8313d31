// Reads synthetic tasks of tokens, which python/tost/tasks writes: FOLDER/SPLIT.safetensors with
//   tokens [n, T]   ids, of any type of integers
//   targets [n, T]  the token to predict at this position; -1: none
//   group [n]       optional: how long and how hard a sample is, an index of the names
// The metadata are `vocabulary` (a number), `task` (a name), `groups` (a JSON list of names),
// `restores` ("true" if targets are the tokens themselves) and `tokenizer` ("bytes", or none).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

struct TokenTaskBatch {
  torch::Tensor ids;      // [B, T] int64
  torch::Tensor targets;  // [B, T] int64, -1 where nothing is predicted
};

// A mapped split of a task. The data are immutable, and several threads may read them.
class TokenTaskData {
 public:
  // Throws a usage Error with the existing splits for a missing split. Throws a data Error naming
  // the file for missing tensors, wrong shapes or types, groups without a name, and samples without
  // a target.
  TokenTaskData(const std::filesystem::path& folder, const std::string& split);

  const std::string& task() const { return task_; }
  int64_t vocabulary() const { return vocabulary_; }
  bool restores() const { return restores_; }
  bool bytes() const { return bytes_; }
  int64_t groups() const { return std::ssize(names_); }
  const std::string& name(int64_t group) const { return names_[size_t(group)]; }
  int64_t samples(int64_t group) const { return std::ssize(rows_[size_t(group)]); }
  int64_t all_samples() const { return tokens_.size(0); }
  // The length of the group's longest sample, up to its last token with a target.
  int64_t length(int64_t group) const { return lengths_[size_t(group)]; }

  // Reads samples of a group, truncated to the length of the group. Throws a data Error naming the
  // file for tokens or targets outside the vocabulary.
  TokenTaskBatch batch(int64_t group, const std::vector<int64_t>& samples) const;

 private:
  void read_metadata(const std::map<std::string, std::string>& metadata);
  void read_groups(const torch::Tensor& group);

  std::string file_, task_;
  int64_t vocabulary_ = 0;
  bool restores_ = false, bytes_ = false;
  torch::Tensor tokens_, targets_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> rows_;  // by group
  std::vector<int64_t> lengths_;            // by group
};

}  // namespace tost
