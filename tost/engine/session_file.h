// A text being written, saved and taken up again: a safetensors file with the model's state.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tost/engine/arrays_file.h"
#include "tost/engine/generate.h"

namespace tost {

// The form of the sessions of one model. The file names the model by its architecture and a sum
// over the bits of all weights, which is computed once, here. Other members may be called by
// several threads at once.
class SessionFormat {
 public:
  explicit SessionFormat(TextModel& model);

  // `notes`: further metadata, which read() ignores.
  std::string bytes(const TextSession& session,
                    const std::map<std::string, std::string>& notes = {}) const;
  // The size of the state after one token: about that of a session without growing caches.
  int64_t least_bytes() const { return state_bytes(example_); }
  // Atomic and durable.
  void save(const std::filesystem::path& file, const TextSession& session) const;
  // The content of a file from anywhere. Its arrays are copied. Throws a data Error beginning with
  // `where` unless it is a session, whole, and of this model (not of other weights of the same
  // architecture). The model may have another precision than the one it was saved with.
  TextSession read(const ArraysFile& content, const std::string& where) const;

 private:
  void read_state(const ArraysFile& content, LanguageState& state) const;

  nlohmann::json config_;
  int64_t weight_sum_, vocab_, window_;
  int64_t block_;          // of learned positions; 0: no limit
  LanguageState example_;  // after one token
};

void save_session(const std::filesystem::path& file, const TextSession& session, TextModel& model);

// Throws a data Error naming the file as SessionFormat::read().
TextSession load_session(const std::filesystem::path& file, TextModel& model);

}  // namespace tost
