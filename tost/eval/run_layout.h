// Where a training run keeps its files:
//   RUN/config.json: the effective configuration; RUN/model.json: architecture, classes and
//   preprocessing RUN/metrics.jsonl, RUN/events.out.tfevents.*: the log, and the same for
//   TensorBoard RUN/checkpoints/step-000000123/{model,ema,optimizer}.safetensors, state.json,
//   manifest.json RUN/checkpoints/{latest,best}: one line, the name of a checkpoint folder
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tost {

inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kModelInfoFile[] = "model.json";
inline constexpr char kMetricsFile[] = "metrics.jsonl";
inline constexpr char kCheckpointFolder[] = "checkpoints";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kEmaFile[] = "ema.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kLatestPointer[] = "latest";
inline constexpr char kBestPointer[] = "best";

// "step-000000123"
std::string checkpoint_name(int64_t step);
// The step of such a name, or -1.
int64_t checkpoint_step(const std::string& name);

// The checkpoint folder that RUN/checkpoints/`pointer` names; empty where there is no such pointer.
// Throws a data Error when the pointer's content is not the name of a checkpoint folder beside it.
std::filesystem::path follow_pointer(const std::filesystem::path& checkpoints, const char* pointer);

}  // namespace tost
