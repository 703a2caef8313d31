// Generated tasks in which a model must find again what it has read: associative recall, a needle
// in a haystack of bytes, copying, state tracking, and tasks of MAD. Free of torch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

// Targets stand where the token to be predicted comes next, as a language model is scored; those of
// compression are the ids themselves.
struct RecallSample {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;  // as many as ids; -1 where nothing is asked
  // One a target that is not -1, in order: tokens from there back to where the answer stands; in
  // state tracking, to the first token. 0 where the answer stands nowhere, and where every token is
  // asked for.
  std::vector<int64_t> distances;
};

// How long and how hard a sample is.
struct RecallCase {
  int64_t length = 64;  // ids of a sample
  int64_t pairs = 4;    // mqar: keys with a value; selective-copying: symbols
  // needle: share of the haystack that stands before the needle, 0 ... 1; -1: drawn for every
  // sample, uniformly.
  double depth = -1;

  bool operator==(const RecallCase&) const = default;
};

struct RecallSpec {
  std::string task = "mqar";  // of recall_tasks()
  uint64_t seed = 0;
  // Of all but needle (257 ids: bytes, as the tokenizer has), parity and s3.
  int64_t vocab = 256;
  // mqar: a query follows its pairs at the k-th free place with weight k^(power - 1); 1 is uniform.
  double power = 0.01;
  bool random_filler = true;  // mqar: tokens that are neither pair nor query; false: all 0
  int64_t distractors = 0;    // needle: needles with other keys
  int64_t questions = 1;      // needle: the first is of the needle, others are of distractors
  std::string text{};         // needle: file that is the haystack; "": sentences of a small grammar
  int64_t gap = 0;            // copying: blanks between the string and the sign to repeat it
  double noise = 0.2;         // noisy-in-context-recall: share of pairs that are noise
};

std::vector<std::string> recall_tasks();
// Those of them with a vocabulary of any size.
std::vector<std::string> recall_tasks_with_vocab();
// mqar and selective-copying, whose cases differ in RecallCase::pairs too.
bool recall_has_pairs(const std::string& task);
// Those whose split train asks for every next token: in-context-recall and its variants.
bool recall_trains_on_all(const std::string& task);

class RecallSource {
 public:
  virtual ~RecallSource() = default;

  virtual int64_t vocab() const = 0;
  // Whether a target is the token that stands there, to be restored once all have been read.
  virtual bool restores() const { return false; }
  // Throws a usage Error, with what would fit, for a case that cannot be made.
  virtual void check(const RecallCase& size) const = 0;
  // A pure function of the seed and the arguments; safe to call from several threads at once.
  // Throws what check() throws, and a usage Error for another split.
  virtual RecallSample sample(const RecallCase& size, const std::string& split,
                              int64_t index) const = 0;
};

// mqar (Arora, Eyuboglu et al., arXiv 2312.04927, with the official generator's rules): `pairs`
// keys from 1 ... vocab/2 - 1, each followed by its value from vocab/2 ... vocab - 1, both without
// repetition; then every key once more as a query, at an even place after the pairs, where its
// value is to be predicted. Other places hold random ids.
//
// needle: sentences with "The code of KEY is 12345. " among them, and at the end
// "\nThe code of KEY is ", whose five digits are to be predicted. Sample i has the same key and
// haystack at every depth.
//
// copying: random ids from 2 on, `gap` blanks (0), the sign 1, and the ids again, all to be
// predicted; (length - gap) / 2 of them.
//
// parity, s3: uniform elements of the group of 2 or of the 6 permutations of three things (0 is the
// identity); after each the product so far, first element first, is to be told.
//
// Tasks of MAD (Poli et al., arXiv 2403.17844, by the rules of the authors' generator, with several
// queries). Where a score asks for some tokens, training asks for every next token:
// - in-context-recall: keys of the lower half of the vocabulary, each followed by its value, drawn
//   when the key first occurs. The values of repeated keys are asked for.
// - noisy-in-context-recall: the last 16 ids are noise, two of which stand in place of a pair.
// - fuzzy-in-context-recall: keys and values are one to three tokens without repetition, padded on
//   the left. Keys of three tokens are asked for.
// - selective-copying: `pairs` symbols among blanks (vocab - 2), a sign (vocab - 1), and as many
//   blanks. The symbols are asked for at these, in order.
// - memorization: keys, each followed by a sign (vocab - 1), at which the key's value is asked for.
//   The values are the same in every sample of any seed.
// - compression: random ids and a sign (vocab - 1), all of which are to be restored from what is
//   known at the sign.
//
// Throws a usage Error for an unknown task (nearest offered) and impossible settings, a data Error
// for a text that cannot be read.
std::unique_ptr<RecallSource> open_recall(const RecallSpec& spec);

// Lists of recall cases as they are written in settings and flags.

// "64, 128" or "1k,16k" (k: 1,024) → integers of at least 1. Throws a usage Error naming
// `what` for anything else and for an empty list.
std::vector<int64_t> parse_counts(const std::string& text, const std::string& what);
// "0, 0.5, 1" → numbers from 0 to 1.
std::vector<double> parse_shares(const std::string& text, const std::string& what);

// lengths "64,128" and pairs "4,8" → two cases; one value goes with all of the other list. Throws a
// usage Error for lists of different lengths.
std::vector<RecallCase> parse_recall_cases(const std::string& lengths, const std::string& pairs);

// Every length at every depth, depth by depth; random depths where there are none.
std::vector<RecallCase> parse_needle_cases(const std::string& lengths, const std::string& depths);

// Batches of recall samples.

struct RecallBatch {
  torch::Tensor ids;               // [B, T] int64
  torch::Tensor targets;           // [B, T] int64, -1 where nothing is asked
  std::vector<int64_t> distances;  // one a target that is not -1, in row-major order
};

// Samples first ... first + count - 1 of the split. Throws what sample() throws.
RecallBatch make_recall_batch(const RecallSource& source, const RecallCase& size,
                              const std::string& split, int64_t first, int64_t count);

}  // namespace tost
