// Runs of seconds on one core, and the files they write.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"
#include "tost/store/checkpoint_store.h"

namespace tost::testing {

// Drawn shapes of 16 x 16, twelve steps.
inline nlohmann::json tiny_vision_values() {
  return {{"data", "shapes"},
          {"data_side", 16},
          {"train_size", 96},
          {"test_size", 32},
          {"batch", 16},
          {"epochs", 2},
          {"eval_batch", 32},
          {"drop_path", 0.2},
          {"mixup", 0.4},
          {"ema_decay", 0.9},
          {"threads", 1},
          {"model_options", {{"dim", 16}, {"depth", 1}, {"heads", 2}, {"class_blocks", 1}}}};
}

inline nlohmann::json tiny_language_values(const std::filesystem::path& text) {
  return {{"model", "tost_gpt_char"},
          {"data", text.string()},
          {"tokenizer", "chars"},
          {"batch", 3},
          {"warmup_steps", 2},
          {"eval_batches", 2},
          {"threads", 1},
          {"dropout", 0.1},
          {"block", 16},
          {"dim", 16},
          {"depth", 2},
          {"heads", 2}};
}

// A text for it.
inline std::filesystem::path write_text_of_numbers(const TempDir& dir) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "one two three four five\n";
  write_file_atomic(dir.path() / "text.txt", text);
  return dir.path() / "text.txt";
}

inline Checkpoint newest_checkpoint(const std::filesystem::path& run) {
  std::vector<std::string> messages;
  return *CheckpointStore(run / kCheckpointFolder, 9).load_newest(messages);
}

}  // namespace tost::testing
