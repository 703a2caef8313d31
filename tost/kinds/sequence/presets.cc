// Named classifiers of sequences.
#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/model_files.h"
#include "tost/kinds/sequence/classifier.h"

namespace tost {
namespace {

struct SequenceSize {
  const char* name;
  int64_t vocab, max_length, dim, depth, heads, mlp_hidden, classes;
  const char* pool;
  const char* positions;
  double dropout;
  bool pairs = false;
  const char* mixer = "tssa";
};

// The sizes of the plain Transformer in the Long Range Arena's repository
// (google-research/long-range-arena), with dropout 0.1 if the repository names none. The sizes for
// Image are those of the repository's linear Transformer. If the widths of queries and tokens
// differ, that of the tokens counts. Text is read to 4,000 bytes as in the paper (arXiv
// 2011.04006).
constexpr std::array kSequenceSizes{
    SequenceSize{"lra_listops", 16, 2000, 512, 6, 8, 2048, 10, "class", "sinusoidal", 0.1},
    SequenceSize{"lra_text", 257, 4000, 256, 4, 4, 1024, 2, "class", "sinusoidal", 0.1},
    SequenceSize{"lra_retrieval", 257, 4000, 128, 4, 4, 512, 2, "class", "sinusoidal", 0.1, true},
    SequenceSize{"lra_image", 257, 1024, 128, 1, 8, 128, 10, "class", "learned", 0.3},
    SequenceSize{"lra_pathfinder", 257, 1024, 128, 1, 4, 128, 2, "mean", "sinusoidal", 0.2},
    SequenceSize{"lra_pathx", 257, 16384, 32, 1, 2, 32, 2, "mean", "learned", 0.1},
    // One small model for every task.
    SequenceSize{"lra", 257, 4096, 128, 4, 4, 512, 2, "mean", "sinusoidal", 0.1},
    // Width, depth and dropout of S4's models (arXiv 2111.00396, repository as of arXiv
    // 2206.11893). An MLP of twice the width replaces the gate of S4's layers.
    SequenceSize{"s4_listops", 16, 2000, 128, 8, 4, 256, 10, "mean", "sinusoidal", 0},
    SequenceSize{"s4_text", 257, 4096, 256, 6, 8, 512, 2, "mean", "sinusoidal", 0},
    SequenceSize{"s4_retrieval", 257, 4000, 256, 6, 8, 512, 2, "mean", "sinusoidal", 0, true},
    SequenceSize{"s4_image", 257, 1024, 512, 6, 16, 1024, 10, "mean", "sinusoidal", 0.1},
    SequenceSize{"s4_pathfinder", 257, 1024, 256, 6, 8, 512, 2, "mean", "sinusoidal", 0},
    SequenceSize{"s4_pathx", 257, 16384, 256, 6, 8, 512, 2, "mean", "sinusoidal", 0},
    // Our small preset for first experiments.
    SequenceSize{"seq_tiny", 257, 1024, 64, 2, 4, 128, 2, "mean", "sinusoidal", 0},
    SequenceSize{"seq_means", 257, 1024, 64, 2, 4, 128, 2, "mean", "sinusoidal", 0, false, "means"},
    SequenceSize{"seq_running", 257, 1024, 64, 2, 4, 128, 2, "mean", "sinusoidal", 0, false,
                 "means"},
    SequenceSize{"seq_mssa", 257, 1024, 64, 2, 4, 128, 2, "mean", "sinusoidal", 0, false, "mssa"},
    SequenceSize{"seq_cbsa", 257, 1024, 64, 2, 4, 128, 2, "mean", "sinusoidal", 0, false, "cbsa"},
};

SequenceConfig config_of(const SequenceSize& size) {
  return {.name = cat("tost_", size.name),
          .mixer = size.mixer,
          .vocab = size.vocab,
          .max_length = size.max_length,
          .dim = size.dim,
          .depth = size.depth,
          .heads = size.heads,
          .mlp_hidden = size.mlp_hidden,
          .classes = size.classes,
          .pairs = size.pairs,
          .pool = size.pool,
          .positions = size.positions,
          .dropout = size.dropout};
}

}  // namespace

std::vector<std::string> sequence_preset_names() {
  std::vector<std::string> names;
  for (const auto& size : kSequenceSizes) names.push_back(cat("tost_", size.name));
  return names;
}

SequenceConfig sequence_preset(const std::string& name) {
  for (const auto& size : kSequenceSizes) {
    if (name == cat("tost_", size.name)) return config_of(size);
  }
  const auto names = sequence_preset_names();
  fail_usage("There is no sequence model '", name, "'; the models are ", join(names, ", "), ".",
             did_you_mean(name, names));
}

const PresetNames sequence_names{sequence_preset_names()};

}  // namespace tost
