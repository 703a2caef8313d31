#include "tost/kinds/convert.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/safetensors.h"
#include "tost/io/safetensors_index.h"
#include "tost/kinds/model_layouts.h"
#include "tost/nn/state_dict.h"
#include "tost/store/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

std::string layout_of(const fs::path& out, const std::string& wanted) {
  const auto names = model_layout_names();
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  if (wanted != "auto") {
    fail_usage("There is no layout '", wanted, "'; the layouts are ", join(names, ", "), ".",
               did_you_mean(wanted, names));
  }
  const std::string ending = to_lower(out.extension().string());
  if (ending == ".safetensors") return "tost";
  return ending == ".pth" || ending == ".pt" || ending == ".bin" ? "official" : "hub";
}

void check_output(const fs::path& out, const std::string& layout, const ConvertOptions& options) {
  if (is_taken(out)) {
    fail_usage("'", out.string(), "' exists already; remove it, or choose another name.");
  }
  const fs::path folder = absolute_path(out).parent_path();
  if (!is_folder(folder)) {
    fail_usage("The folder '", folder.string(), "' does not exist; make it first.");
  }
  const bool torch_file = layout == "official" || layout == "nanogpt";
  if (!options.prefix.empty() && !torch_file) {
    fail_usage("A prefix goes with the layouts official and nanogpt, and this is ", layout, ".");
  }
  if (options.shard_bytes < 0) fail_usage("Shards have at least one byte.");
  if (options.shard_bytes > 0 && (torch_file || layout == "tost")) {
    fail_usage("Shards go with the layouts hub, timm and gpt2, and this is ", layout, ".");
  }
}

void check_room(const fs::path& out, int64_t bytes) {
  constexpr int64_t kRest = 1 << 20;  // headers and small files
  const int64_t free = free_bytes(absolute_path(out).parent_path());
  if (free >= bytes + kRest) return;
  fail_data("'", out.string(), "' needs about ", human_bytes(bytes + kRest), " and ",
            human_bytes(free), " are free on its disk.");
}

// model.safetensors, or its shards and their index.
void write_weights(const fs::path& folder, const StateDict& state,
                   const std::map<std::string, std::string>& metadata, int64_t shard_bytes) {
  if (shard_bytes == 0 || tensor_bytes(state) <= shard_bytes) {
    return save_safetensors(folder / kModelFile, state, metadata);
  }
  save_sharded_safetensors(folder, state, metadata, shard_bytes);
}

// Files of a folder, which appears when all are durable.
void write_folder(const fs::path& out, const std::map<std::string, std::string>& files,
                  const StateDict& state, const std::map<std::string, std::string>& metadata,
                  int64_t shard_bytes) {
  const fs::path partial =
      absolute_path(out).parent_path() / cat(".", out.filename().string(), ".tost-unfinished");
  remove_tree(partial);
  try {
    make_directories(partial);
    write_weights(partial, state, metadata, shard_bytes);
    for (const auto& [name, content] : files) write_file_atomic(partial / name, content);
    sync_directory(partial);
    rename_durably(partial, out);
  } catch (...) {
    discard(partial);
    throw;
  }
}

void list_weights(const fs::path& folder, std::vector<fs::path>& files) {
  const fs::path index = folder / kSafetensorsIndexFile;
  if (!path_exists(index)) return files.push_back(folder / kModelFile);
  files.push_back(index);
  for (const auto& [name, tensors] : read_safetensors_index(index).shards) {
    files.push_back(folder / name);
  }
}

void change(PortableModel& model, const std::string& layout, const ConvertOptions& options,
            std::vector<std::string>& notes) {
  if (options.image_size != 0) change_image_size(model, options.image_size);
  if (options.block != 0) change_block(model, options.block);
  if (layout == "nanogpt" || layout == "gpt2") {
    fold_layer_scale(model, layout == "gpt2");
    notes.push_back(
        "LayerScale is folded into the projections; further training would not have it");
    if (layout == "nanogpt" && model.language->config.activation != "gelu") {
      notes.push_back("the model has the approximate GELU, and nanoGPT computes the exact one");
    }
  }
  change_dtype(model.state, options.dtype);
  if (options.dtype != "float32") {
    notes.push_back(cat("weights are rounded to ", options.dtype));
  }
}

void write(const PortableModel& model, const std::string& layout, const fs::path& out,
           const ConvertOptions& options, ConvertResult& result) {
  std::map<std::string, std::string> files;
  if (layout == "tost") return save_safetensors(out, model.state, model.metadata());
  if (layout == "official" || layout == "nanogpt") {
    return write_torch_layout(model, out, options.prefix);
  }
  if (layout == "hub") files = hub_files(model, options.dtype);
  if (layout == "timm") files = timm_files(model);
  if (layout == "gpt2") files = gpt2_files(model, options.dtype);
  const bool gpt2 = layout == "gpt2";
  write_folder(out, files, gpt2 ? gpt2_state(model) : model.state,
               gpt2 ? std::map<std::string, std::string>{{"format", "pt"}} : model.metadata(),
               options.shard_bytes);
  list_weights(out, result.files);
  for (const auto& [name, content] : files) result.files.push_back(out / name);
}

}  // namespace

std::vector<std::string> model_layout_names() {
  return {"tost", "official", "hub", "timm", "nanogpt", "gpt2"};
}

ConvertResult convert_model(const fs::path& in, const fs::path& place,
                            const ConvertOptions& options) {
  const fs::path out = place.has_filename() ? place : place.parent_path();  // "folder/"
  ConvertResult result;
  result.layout = layout_of(out, options.layout);
  check_output(out, result.layout, options);
  PortableModel model = load_portable(in, options.weights);
  if (result.layout == "timm" && !model.vision) {
    fail_usage("The layout timm is for image models, and '", in.string(), "' holds a ", model.kind,
               " model.");
  }
  if (result.layout == "official" && model.sequence) {
    fail_usage("'", in.string(),
               "' holds a sequence model, of which there is no official layout; "
               "use tost or hub.");
  }
  result.kind = model.kind;
  change(model, result.layout, options, result.notes);
  result.tensors = int64_t(model.state.size());
  result.bytes = tensor_bytes(model.state);
  check_room(out, result.bytes);
  write(model, result.layout, out, options, result);
  if (result.files.empty()) result.files.push_back(out);
  return result;
}

}  // namespace tost
