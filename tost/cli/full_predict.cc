// Labels pictures and texts for tost predict with torch: any kind of model, any file, any device.
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/predict.h"

namespace tost {
namespace {

PredictReport predict_with_torch(const PredictRequest& request, const KindFlags& flags) {
  const Kind& kind = kind_named(model_kind(request.file, request.weights));
  if (!kind.predict) {
    fail_usage("'", request.file, "' holds ", with_article(cat(kind.label, " model")),
               "; tost generate continues texts.");
  }
  check_kind(kind, flags);
  return kind.predict(request);
}

}  // namespace

void add_predict_command(CLI::App& app) {
  add_predict_command(app, predict_with_torch);
}

}  // namespace tost
