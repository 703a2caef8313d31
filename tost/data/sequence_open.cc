#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/process_memory.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/listops_dataset.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_dataset.h"
#include "tost/data/sequence_generated.h"
#include "tost/data/sequence_layout.h"
#include "tost/data/sequence_pixels.h"
#include "tost/data/sequence_text.h"
#include "tost/data/views.h"

namespace tost {
namespace {

using Kind = SequenceSource::Kind;
using Opened = std::unique_ptr<SequenceDataset>;

constexpr uint64_t kWholeSeed = 20201108;

constexpr auto parallel = [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
  at::parallel_for(0, tasks, 64, [&](int64_t begin, int64_t end) { body(begin, end); });
};

Opened stored(SequenceRows rows, const SequenceSpec& spec) {
  return std::make_unique<StoredSequences>(std::move(rows), spec.max_length);
}

bool has(const std::vector<std::string>& splits, const std::string& split) {
  return std::find(splits.begin(), splits.end(), split) != splits.end();
}

// All pictures of a set are kept, as far as an eighth of the memory goes.
int64_t cache_for(const ImageDataset& pictures) {
  const int64_t whole = checked_mul(pictures.size(), pictures.side() * pictures.side() + 128,
                                    "Pictures as sequences");
  return std::max(DataSpec{}.cache_bytes, std::min(whole, available_bytes() / 8));
}

Opened pixels(std::unique_ptr<ImageDataset> pictures, const SequenceSpec& spec) {
  const int64_t cache = cache_for(*pictures);
  auto cached = std::make_unique<CachedDataset>(std::move(pictures), cache);
  const std::string format = cached->format();
  return std::make_unique<PixelSequences>(std::move(cached), format, spec.max_length);
}

// Expressions are kept in memory, each with about 64 bytes more.
void check_memory(int64_t needed) {
  const int64_t available = available_bytes();
  if (available == 0 || needed <= available) return;
  fail_data("The expressions need up to ", human_bytes(needed), " of memory, but ",
            human_bytes(available), " are available; take fewer or shorter ones.");
}

Opened open_generated(const SequenceSpec& spec, const std::string& split) {
  const int64_t size = generated_size(spec, split);
  const ListOpsRules rules = generated_rules(spec);
  check_listops_rules(rules);
  check_memory(checked_mul(size, spec.max_tokens + 64, "Generated ListOps"));
  return stored(generated_listops(rules, spec.seed, split, size, parallel), spec);
}

// All splits count their classes as the training split does, where there is one.
Opened open_table(const SequenceSource& source, const SequenceSpec& spec,
                  const std::string& split) {
  const std::string& path = source.files.at(split);
  if (source.format == "listops") return stored(read_listops(path), spec);
  const bool pairs = source.format == "retrieval";
  return stored(read_text_table(path, table_classes(first_split(source.files), pairs), pairs),
                spec);
}

Opened open_folder(const SequenceSource& source, const SequenceSpec& spec,
                   const std::string& split) {
  return stored(read_text_folders(source.files.at(split), text_classes(first_split(source.files)),
                                  spec.max_length),
                spec);
}

Opened open_fold(const SequenceSource& source, const SequenceSpec& spec, const std::string& split) {
  std::shared_ptr<const SequenceDataset> whole = open_folder(source, spec, "train");
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < whole->size(); ++i) {
    if (fold_of(std::filesystem::path(whole->name(i)).filename().string()) == split) {
      indices.push_back(i);
    }
  }
  if (indices.empty()) {
    fail_data("'", spec.path, "' has no file of the ", split, " fold (cvNNN_...).");
  }
  return std::make_unique<SequenceSubset>(std::move(whole), std::move(indices));
}

Opened open_pictures(const SequenceSpec& spec, const std::string& split) {
  DataSpec pictures;
  pictures.path = spec.path;
  pictures.holdout = 0;
  return std::make_unique<PixelSequences>(open_image_dataset(pictures, split), "pixels",
                                          spec.max_length);
}

// The benchmark's shares of a set without splits: 80 % for training, 10 % each for validation and
// testing, drawn by a fixed seed.
std::vector<int64_t> tenths(int64_t size, const std::string& split) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  Random random(kWholeSeed);
  shuffle(order.data(), size, random);
  const int64_t part = std::max<int64_t>(size / 10, 1);
  const auto test = order.end() - part, validation = test - part;
  const auto [begin, end] = split == "train"        ? std::pair(order.begin(), validation)
                            : split == "validation" ? std::pair(validation, test)
                                                    : std::pair(test, order.end());
  std::sort(begin, end);
  return {begin, end};
}

Opened open_whole(const SequenceSource& source, const SequenceSpec& spec,
                  const std::string& split) {
  const std::string& path = source.files.at("train");
  std::shared_ptr<const SequenceDataset> whole = pixels(
      is_pathfinder_archive(path) ? open_pathfinder_archive(path) : open_pathfinder_idx(path),
      spec);
  if (whole->size() < 10) {
    fail_data("'", spec.path, "' has ", whole->size(),
              " pictures, too few to take a tenth for validation and one for testing.");
  }
  return std::make_unique<SequenceSubset>(whole, tenths(whole->size(), split));
}

Opened open_own(const SequenceSource& source, const SequenceSpec& spec, const std::string& split) {
  switch (source.kind) {
    case Kind::kGenerated:
      return open_generated(spec, split);
    case Kind::kTables:
      return open_table(source, spec, split);
    case Kind::kFolders:
      return open_folder(source, spec, split);
    case Kind::kFolds:
      return open_fold(source, spec, split);
    case Kind::kArchives:
      return pixels(open_pathfinder_archive(source.files.at(split)), spec);
    case Kind::kWhole:
      return open_whole(source, spec, split);
    case Kind::kPictures:
      break;
  }
  return open_pictures(spec, split);
}

std::string checked_sequence_split(const std::string& split) {
  if (split == "val") return "validation";
  if (!has(kSplits, split)) {
    fail_usage("Unknown split '", split, "'; use train, validation or test.",
               did_you_mean(split, kSplits));
  }
  return split;
}

std::vector<std::string> available(std::vector<std::string> own, double holdout) {
  if (holdout != 0 && has(own, "train") && !has(own, "validation")) {
    own.insert(own.begin() + 1, "validation");
  }
  return own;
}

}  // namespace

std::vector<std::string> sequence_dataset_splits(const SequenceSpec& spec) {
  return available(own_splits(find_sequences(spec), spec), spec.holdout);
}

std::unique_ptr<SequenceDataset> open_sequence_dataset(const SequenceSpec& spec,
                                                       const std::string& split) {
  const std::string wanted = checked_sequence_split(split);
  const SequenceSource source = find_sequences(spec);
  const std::vector<std::string> own = own_splits(source, spec);
  const std::vector<std::string> splits = available(own, spec.holdout);
  if (!has(splits, wanted)) {
    fail_data("'", spec.path, "' has no ", wanted, " split; it has ", join(splits, ", "),
              wanted == "validation" && has(own, "train")
                  ? " (a held-out share of train above 0 would give one)."
                  : ".");
  }
  const bool from_train = has(own, "train") && !has(own, "validation") && spec.holdout != 0;
  if (!from_train || wanted == "test") return open_own(source, spec, wanted);
  std::shared_ptr<const SequenceDataset> whole = open_own(source, spec, "train");
  Holdout holdout = split_holdout(whole->size(), spec.holdout);
  return std::make_unique<SequenceSubset>(std::move(whole), wanted == "train"
                                                                ? std::move(holdout.train)
                                                                : std::move(holdout.validation));
}

}  // namespace tost
