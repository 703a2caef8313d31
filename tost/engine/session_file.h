// Saves an unfinished text with the model's state as a safetensors file, to continue it later.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "tost/engine/arrays_file.h"
#include "tost/engine/generate.h"

namespace tost {

// The form of the sessions of one model, which outlives it. The file names the model by its
// architecture and a sum over the bits of all weights, which is computed once it is needed. Members
// may be called by several threads at once, also while the model reads.
class SessionFormat {
 public:
  explicit SessionFormat(TextModel& model);

  // `notes` are additional metadata, which read() ignores.
  std::string bytes(const TextSession& session,
                    const std::map<std::string, std::string>& notes = {}) const;
  // The size of the state after one token, which is about that of a session if no cache grows.
  int64_t least_bytes() const { return state_bytes(example_); }
  // Atomic and durable.
  void save(const std::filesystem::path& file, const TextSession& session) const;
  // Reads the content of an untrusted file, and copies its arrays. Throws a data Error beginning
  // with `where` unless the file is a complete session of a model with the same weights. The model
  // may have another precision than the one that saved the session.
  TextSession read(const ArraysFile& content, const std::string& where) const;

 private:
  void read_state(const ArraysFile& content, LanguageState& state) const;
  std::map<std::string, std::string> head_of(const TextSession& session) const;
  int64_t weight_sum() const;

  const TextModel& model_;
  nlohmann::json config_;
  int64_t vocab_, window_;
  int64_t block_;          // of learned positions; 0: no limit
  LanguageState example_;  // after one token
  mutable std::once_flag summed_;
  mutable int64_t weight_sum_ = 0;
};

void save_session(const std::filesystem::path& file, const TextSession& session, TextModel& model);

// Throws the data Errors of SessionFormat::read(), with the name of the file.
TextSession load_session(const std::filesystem::path& file, TextModel& model);

}  // namespace tost
