// Saves a text that is being written, and continues it: a safetensors file with the model's state.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tost/io/safetensors.h"
#include "tost/kinds/language/generate.h"

namespace tost {

// Reads and writes the sessions of one model. A file names the model by its architecture and a sum
// over the bits of all weights, which the constructor computes. Other members are thread-safe.
class SessionFormat {
 public:
  explicit SessionFormat(LanguageModel& model);

  // Writes a session; `notes` are further metadata, which read() ignores.
  std::string bytes(const TextSession& session,
                    const std::map<std::string, std::string>& notes = {}) const;
  // The size of the state after one token: about that of a session without growing caches.
  int64_t least_bytes() const { return state_bytes(example_); }
  // Atomic and durable.
  void save(const std::filesystem::path& file, const TextSession& session) const;
  // Reads an untrusted session, and copies its tensors. Throws a data Error beginning with `where`
  // unless it is a whole session of this model, with the same weights. The model may have another
  // precision than the one with which the session was saved.
  TextSession read(const SafetensorsFile& content, const std::string& where) const;

 private:
  void read_state(const SafetensorsFile& content, LanguageState& state) const;

  nlohmann::json config_;
  int64_t weight_sum_, vocab_, window_;
  int64_t block_;          // of learned positions; 0: no limit
  LanguageState example_;  // after one token
};

void save_session(const std::filesystem::path& file, const TextSession& session,
                  LanguageModel& model);

// Throws a data Error naming the file as SessionFormat::read().
TextSession load_session(const std::filesystem::path& file, LanguageModel& model);

}  // namespace tost
