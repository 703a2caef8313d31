#include "tost/kinds/vision/model_file.h"

#include "tost/base/error.h"
#include "tost/io/safetensors.h"
#include "tost/kinds/vision/foreign.h"
#include "tost/nn/state_dict.h"
#include "tost/store/foreign_source.h"
#include "tost/store/quantized_file.h"

namespace tost {

LoadedModel load_model_file(const std::filesystem::path& path, Weights weights) {
  LoadedModel loaded;
  loaded.file = find_intact_model_file(path, weights);
  if (is_foreign_checkpoint(loaded.file)) return load_foreign_vision(loaded.file, weights);
  const SafetensorsFile content = load_safetensors(loaded.file);
  const std::string where = cat("'", loaded.file.string(), "'");
  loaded.info = model_info_from_metadata(content.metadata, where);
  loaded.model = make_image_classifier(loaded.info.config, WeightInit::kNone);
  take_described_weights(*loaded.model, content.tensors, where);
  loaded.precision = stored_precision(content.metadata, where);
  return loaded;
}

void save_model_file(const std::filesystem::path& file, const ImageClassifier& model,
                     const ModelInfo& info) {
  save_safetensors(file, state_dict(model), to_metadata(info));
}

}  // namespace tost
