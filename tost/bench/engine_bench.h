// Measures engines of pictures and of texts, which the caller opens.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/engine/language_engine.h"
#include "tost/engine/vision_engine.h"

namespace tost {

class BenchPictures : public BenchModel {
 public:
  using Open = std::function<std::unique_ptr<PictureEngine>(Precision precision)>;
  // `weights` is the number of the model's weights.
  BenchPictures(const VisionConfig& config, int64_t weights, Open open)
      : BenchModel({"vision", "images", config.mixer, config.image_size}),
        config_(config),
        weights_(weights),
        open_(std::move(open)) {}

  Array draw_input(const BenchTask& task) const override;
  BenchRunner make_runner(const BenchTask& task, const Array& input, Precision precision,
                          bool engine) override;

 protected:
  const VisionConfig config_;
  const int64_t weights_;

 private:
  const Open open_;
};

class BenchTexts : public BenchModel {
 public:
  using Open = std::function<std::unique_ptr<EngineModel>(Precision precision)>;
  BenchTexts(const LanguageConfig& config, Open open);

  Array draw_input(const BenchTask& task) const override;
  BenchRunner make_runner(const BenchTask& task, const Array& input, Precision precision,
                          bool engine) override;

 protected:
  // Reads ids [B, T] after a state, as the engine and plain modules do.
  using Extend = std::function<Array(const Array& ids, LanguageState& state)>;
  static BenchRunner runner_of(const BenchTask& task, const Array& ids, const Extend& extend,
                               LanguageState (*copy)(const LanguageState&));

 private:
  const int64_t vocab_;
  const Open open_;
};

}  // namespace tost
