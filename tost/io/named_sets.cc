#include "tost/io/named_sets.h"

#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

// A published data set, as in the table of docs/data.md.
struct Published {
  std::vector<std::string> names;  // only lower-case letters and digits
  const char* title;
  const char* source;
  const char* files;
};

constexpr char kIdxFiles[] =
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte, plain or .gz";

const std::vector<Published>& published() {
  static const std::vector<Published> kSets = {
      {{"fashionmnist"},
       "Fashion-MNIST",
       "Zalando Research (GitHub zalandoresearch/fashion-mnist, MIT)",
       kIdxFiles},
      {{"mnist"}, "MNIST", "Yann LeCun and Corinna Cortes (CC BY-SA 3.0)", kIdxFiles},
      {{"cifar10", "cifar10batchesbin"},
       "CIFAR-10",
       "Alex Krizhevsky, University of Toronto (binary version; no licence stated)",
       "batches.meta.txt, data_batch_1.bin to data_batch_5.bin and test_batch.bin"},
      {{"cifar100", "cifar100binary"},
       "CIFAR-100",
       "Alex Krizhevsky, University of Toronto (binary version; no licence stated)",
       "fine_label_names.txt, train.bin and test.bin"},
      {{"imagenet", "imagenet1k"},
       "ImageNet",
       "image-net.org (for research, on request)",
       "train/ and val/, each with a folder of JPEG files a class"},
      {{"tinyshakespeare", "shakespeare"},
       "Tiny Shakespeare",
       "Andrej Karpathy (GitHub karpathy/char-rnn, public domain)",
       "input.txt"},
      {{"wikitext2"},
       "WikiText-2",
       "Merity and others (the v1 release of words, CC BY-SA 3.0)",
       "train.txt, valid.txt and test.txt"},
      {{"lambada"},
       "LAMBADA",
       "Paperno and others (OpenAI's variant, MIT)",
       "one .jsonl file of {\"text\": \"...\"} a line"},
      {{"imdb", "aclimdb"},
       "The IMDB reviews",
       "Maas and others, Stanford (aclImdb; no licence stated)",
       "train/pos, train/neg, test/pos and test/neg, each with a text file a review"},
      {{"aan", "lraaan"},
       "The AAN pairs",
       "the Long Range Arena (GitHub google-research/long-range-arena, lra_release)",
       "new_aan_pairs.train.tsv, new_aan_pairs.eval.tsv and new_aan_pairs.test.tsv"},
      {{"moviereviews"},
       "The movie reviews",
       "Bo Pang and Lillian Lee (polarity dataset 2.0, also of NLTK; CC BY 4.0)",
       "pos/ and neg/, each with a text file a review"},
  };
  return kSets;
}

std::string plain_name(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path place = path;
  if (place.filename().empty()) place = place.parent_path();
  std::string name = to_lower(place.filename().string());
  std::erase_if(name, [](char c) { return c == '-' || c == '_' || c == '.' || c == ' '; });
  return name;
}

}  // namespace

const std::vector<std::string>& generated_sequences() {
  static const std::vector<std::string> kNames = {"listops"};
  return kNames;
}

const std::vector<std::string>& generated_sets() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names = generated_sequences();
    names.insert(names.begin(), "shapes");
    return names;
  }();
  return kNames;
}

bool means_generated(const std::string& path, const std::string& format) {
  const auto& names = generated_sets();
  if (std::find(names.begin(), names.end(), path) == names.end()) return false;
  return format == "auto" || format == path;
}

std::string origin_of(const std::string& path) {
  const std::string name = plain_name(path);
  for (const Published& set : published()) {
    if (std::find(set.names.begin(), set.names.end(), name) == set.names.end()) continue;
    return cat(" ", set.title, " is published by ", set.source, "; its folder holds ", set.files,
               " (docs/data.md).");
  }
  return "";
}

}  // namespace tost
