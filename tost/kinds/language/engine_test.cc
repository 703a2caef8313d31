#include "tost/kinds/language/engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/quantized_weight.h"
#include "tost/engine/text_trace.h"
#include "tost/kinds/language/explain_trace.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

using torch::Tensor;

LanguageConfig small(const std::string& mixer) {
  LanguageConfig c;
  c.vocab = 97;
  c.block = 64;
  c.dim = 48;
  c.depth = 3;
  c.heads = 4;
  c.layer_scale = 1;
  c.mixer = mixer;
  c.positions = "none";
  return c;
}

// Weights large enough for every part to show in the logits.
std::shared_ptr<LanguageModel> model_of(const LanguageConfig& config) {
  torch::manual_seed(7);
  auto model = make_language_model(config);
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_dict(*model)) {
    if (tensor.dim() == 2) tensor.mul_(4);
    if (tensor.dim() == 1) tensor.add_(0.1 * torch::randn_like(tensor));
    if (name.find("denom_bias") != std::string::npos) tensor.normal_(0, 0.02);
  }
  model->eval();
  return model;
}

Tensor ids_of(const LanguageConfig& config, int64_t batch, int64_t tokens) {
  return torch::randint(0, config.vocab, {batch, tokens}, torch::kLong);
}

double distance(const Tensor& found, const Tensor& wanted) {
  return ((found - wanted).abs().max() / wanted.abs().max()).item<double>();
}

// The same model on weights rounded as the precision says.
std::shared_ptr<LanguageModel> rounded(const LanguageModel& model, Precision precision) {
  const torch::NoGradGuard no_grad;
  auto copy = make_language_model(model.config(), WeightInit::kNone);
  load_state_dict(*copy, state_dict(model));
  const auto linear = linear_weight_names(*copy), tables = token_table_names(*copy);
  for (auto& [name, tensor] : state_dict(*copy)) {
    if (linear.count(name) == 0 && tables.count(name) == 0) continue;
    if (precision == Precision::kBf16) {
      tensor.copy_(tensor.to(torch::kBFloat16));
    } else {
      const PrecisionFacts& facts = facts_of(precision);
      const bool table = tables.count(name) != 0;
      tensor.copy_(
          tensor_of(dequantize(quantize(array_of(tensor), table ? facts.tables : facts.maps))));
    }
  }
  copy->eval();
  return copy;
}

std::vector<LanguageConfig> configs() {
  std::vector<LanguageConfig> list;
  for (const char* mixer : {"tssa", "softmax", "means", "delta"}) list.push_back(small(mixer));
  list.push_back(small("tssa"));
  list.back().positions = "learned";
  list.back().bias = true;
  list.back().activation = "gelu-tanh";
  list.back().options.scale_pi = true;
  list.push_back(small("tssa"));
  list.back().options.conv = 3;
  list.back().options.gate = true;
  list.push_back(small("means"));
  list.back().options.conv = 4;
  list.back().options.decay = "learned";
  list.back().options.gate = true;
  list.push_back(small("delta"));
  list.back().options.conv = 2;
  list.back().options.beta_range = list.back().options.delta_steps = 2;
  list.push_back(small("delta"));
  list.back().bias = true;
  list.back().options.conv = 4;
  list.back().options.decay = "learned";
  list.back().options.gate = true;
  list.push_back(small("softmax"));
  list.back().options.conv = 2;
  list.back().options.window = 7;
  list.push_back(small("softmax"));
  list.back().options.gate = true;
  list.back().options.window = 1;
  list.push_back(small("softmax"));
  list.back().positions = "learned";
  list.back().bias = true;
  list.push_back(small("tssa"));
  list.back().hybrid_every = 2;
  list.back().options.gate = true;
  list.push_back(small("means"));
  list.back().hybrid_every = 2;
  list.back().hybrid_mixer = "delta";
  list.back().options.decay = "fixed";
  list.back().options.delta_steps = 2;
  return list;
}

// For products of bfloat16 in steps of many texts, which need multiples of 32 inputs.
std::vector<LanguageConfig> wide_configs() {
  auto list = configs();
  for (auto& config : list) config.dim = 64;
  return list;
}

TEST(LanguageEngine, Float32IsTheModelToRounding) {
  for (const auto& config : configs()) {
    const auto model = model_of(config);
    LanguageEngine engine(*model);
    for (const int64_t batch : {1, 3, 6}) {
      LanguageState plain, fast;
      for (const int64_t tokens : {1, 2, 7, 1, 30, 1}) {
        const auto ids = ids_of(config, batch, tokens);
        const auto wanted = model->extend(ids, plain), found = engine.extend(ids, fast);
        ASSERT_EQ(found.sizes(), wanted.sizes());
        EXPECT_LE(distance(found, wanted), 2e-5) << config.mixer << " " << batch << " " << tokens;
      }
      EXPECT_EQ(fast.position, plain.position);
      ASSERT_EQ(fast.blocks.size(), plain.blocks.size());
      for (size_t i = 0; i < fast.blocks.size(); ++i) {
        ASSERT_EQ(fast.blocks[i].size(), plain.blocks[i].size());
        for (const auto& [name, array] : plain.blocks[i]) {
          const auto own = tensor_of(fast.blocks[i].at(name)), tensor = tensor_of(array);
          ASSERT_EQ(own.sizes(), tensor.sizes()) << name;
          ASSERT_EQ(own.scalar_type(), tensor.scalar_type()) << name;
          EXPECT_TRUE(torch::allclose(own, tensor, 1e-4, 1e-4)) << config.mixer << " " << name;
        }
      }
    }
  }
}

// Compares numbers of one text [H][T] with those of a batch of one [1, H, T].
void expect_same(const TracedBlock::ByHead& found, const Tensor& wanted) {
  ASSERT_EQ(found.empty(), !wanted.defined());
  for (size_t h = 0; h < found.size(); ++h) {
    const auto row = wanted[0].dim() == 1 ? wanted[0] : wanted[0][int64_t(h)];
    ASSERT_EQ(int64_t(found[h].size()), row.size(0));
    EXPECT_LE(distance(torch::tensor(found[h], torch::kDouble), row), 1e-5);
  }
}

TEST(LanguageEngine, StepsKeepLogitsThatSomebodyHolds) {
  const auto config = configs()[0];
  const auto engine = text_engine(*model_of(config), Precision::kFp32);
  LanguageState state;
  auto held = engine->step({1}, {&state});
  const auto before = tensor_of(held).clone();
  const float* memory = held.data();
  EXPECT_NE(engine->step({2}, {&state}).data(), memory);
  EXPECT_TRUE(torch::equal(tensor_of(held), before));
  const float* next = engine->step({3}, {&state}).data();
  EXPECT_EQ(engine->step({4}, {&state}).data(), next);
}

TEST(LanguageEngine, TracesAreThoseOfTheModules) {
  for (auto& config : configs()) {
    SCOPED_TRACE(config.mixer);
    config.block = 150;  // more than two pieces
    const auto model = model_of(config);
    const auto ids = ids_of(config, 1, 150);
    const auto wanted = trace_text(*model, ids);
    const auto* first = ids.const_data_ptr<int64_t>();
    const auto found = text_engine(*model, Precision::kFp32)->trace({first, first + 150});
    expect_same({found.surprisal}, wanted.loss);
    ASSERT_EQ(found.blocks.size(), wanted.layers.size());
    for (size_t i = 0; i < found.blocks.size(); ++i) {
      const TracedBlock& block = found.blocks[i];
      const TextLayer& layer = wanted.layers[i];
      EXPECT_EQ(block.mixer, layer.mixer);
      expect_same({block.effect}, layer.effect);
      expect_same(block.memberships, layer.pi);
      expect_same(block.mean_norm, layer.mean_norm);
      expect_same(block.mean_cosine, layer.mean_cosine);
      if (layer.pi.defined()) expect_same({membership_entropy(block.memberships)}, layer.entropy);
    }
  }
}

// Steps compute on the rounded weights exactly; many tokens at once may also round activations.
TEST(LanguageEngine, EveryPrecisionIsTheModelOnRoundedWeights) {
  for (const auto& config : configs()) {
    const auto model = model_of(config);
    for (const Precision precision : stored_precisions()) {
      LanguageEngine engine(*model, precision);
      const auto plain = rounded(*model, precision);
      LanguageState wanted_state, steps, whole;
      const auto ids = ids_of(config, 2, 20);
      const auto wanted = plain->extend(ids, wanted_state);
      Tensor last;
      for (int64_t t = 0; t < 20; ++t) last = engine.extend(ids.narrow(1, t, 1), steps);
      const bool biased = config.bias && precision == Precision::kBf16;
      EXPECT_LE(distance(last, wanted), biased ? 5e-3 : 3e-4) << config.mixer << " " << precision;
      EXPECT_LE(distance(engine.extend(ids, whole), wanted), 4e-2)
          << config.mixer << " " << precision;
    }
  }
}

// Also after a call that failed.
TEST(LanguageEngine, StepsOfTextsAreTheModelsToRounding) {
  for (const auto& config : wide_configs()) {
    const auto model = model_of(config);
    const auto engine = text_engine(*model, Precision::kBf16);
    engine->expect_texts();
    LanguageState of_two, wanted_state;
    const auto ids = ids_of(config, 3, 10), two = ids_of(config, 2, 1);
    engine->extend(two.const_data_ptr<int64_t>(), 2, 1, of_two);
    EXPECT_THROW(engine->step({1}, {&of_two}), Error);
    std::vector<LanguageState> states(3);
    std::vector<int64_t> next;
    for (int64_t i = 0; i < 3; ++i) {
      engine->extend(ids[i].const_data_ptr<int64_t>(), 1, 9, states[size_t(i)]);
      next.push_back(ids[i][9].item<int64_t>());
    }
    const Array found = engine->step(next, {&states[0], &states[1], &states[2]});
    const auto wanted = rounded(*model, Precision::kBf16)->extend(ids, wanted_state);
    EXPECT_LE(distance(tensor_of(found), wanted), 4e-2) << config.mixer;
  }
}

// Without narrow products, a passing text is read by steps of many tokens.
TEST(LanguageEngine, APassingTextIsReadAsByStoredWeights) {
  for (const auto& config : configs()) {
    const auto model = model_of(config);
    for (const Precision precision : all_precisions()) {
      Arrays arrays;
      for (const auto& [name, tensor] : state_dict(*model)) arrays[name] = array_of(tensor);
      WeightSource source(std::move(arrays), "The model", /*finite=*/true);
      EngineModel passing(std::make_unique<LanguageWeights>(config, source, precision), precision,
                          Layout::kPassing);
      const auto stored = text_engine(*model, precision);
      LanguageState state, wanted_state;
      const int64_t most = config.positions == "learned" ? config.block - 1 : 150;
      for (const int64_t tokens : {std::min<int64_t>(most, 150), int64_t{1}}) {
        const auto ids = ids_of(config, 1, tokens);
        const auto* from = ids.const_data_ptr<int64_t>();
        const Array found = passing.extend(from, 1, tokens, state);
        const Array wanted = stored->extend(from, 1, tokens, wanted_state);
        // Products of narrow weights may round their inputs to bfloat16.
        EXPECT_LE(distance(tensor_of(found), tensor_of(wanted)),
                  precision == Precision::kFp32 ? 2e-5 : 2e-2)
            << config.mixer << " " << precision << " " << tokens;
      }
    }
  }
}

TEST(LanguageEngine, HiddenAndLogitsAreTheModels) {
  const torch::NoGradGuard no_grad;
  const auto config = small("tssa");
  const auto model = model_of(config);
  LanguageEngine engine(*model);
  const auto ids = ids_of(config, 2, 33);
  const auto wanted = model->hidden(ids), found = engine.hidden(ids);
  EXPECT_LE(distance(found, wanted), 2e-5);
  EXPECT_LE(distance(engine.logits(found), model->logits(wanted)), 2e-5);
  LanguageState state;
  engine.hidden(ids.narrow(1, 0, 20), &state);
  EXPECT_LE(distance(engine.hidden(ids.narrow(1, 20, 13), &state), wanted.narrow(1, 20, 13)), 2e-5);
}

TEST(LanguageEngine, CopiesOfAStateStayAsTheyWere) {
  const auto config = small("tssa");
  LanguageEngine engine(*model_of(config));
  LanguageState state;
  engine.extend(ids_of(config, 1, 5), state);
  const LanguageState copy = state;
  const auto statistics = [](const LanguageState& of) {
    return tensor_of(of.blocks[0].at("statistics"));
  };
  const auto before = statistics(copy).clone();
  engine.extend(ids_of(config, 1, 1), state);
  EXPECT_TRUE(torch::equal(statistics(copy), before));
  EXPECT_FALSE(torch::equal(statistics(state), before));
}

// Texts that begin and end at different times are read in changing company, which none of them may
// notice.
TEST(LanguageEngine, StepsOfManyTextsAreThoseOfEachAlone) {
  const torch::NoGradGuard no_grad;
  auto all = configs();
  const auto wide = wide_configs();
  all.insert(all.end(), wide.begin(), wide.end());
  for (const auto& config : all) {
    const auto model = model_of(config);
    for (const Precision precision : all_precisions()) {
      const auto engine = text_engine(*model, precision);
      engine->expect_texts();
      const size_t texts_in_all = config.dim == 64 ? 60 : 6;  // more rows than two tiles have
      std::vector<LanguageState> alone(texts_in_all), together(texts_in_all);
      for (size_t i = 0; i < texts_in_all; ++i) {
        const auto prompt = ids_of(config, 1, 1 + int64_t(3 * i) % 50);
        for (LanguageState* state : {&alone[i], &together[i]}) {
          engine->extend(prompt.const_data_ptr<int64_t>(), 1, prompt.size(1), *state);
        }
      }
      for (int step = 0; step < 4; ++step) {
        std::vector<int64_t> ids;
        std::vector<size_t> texts;
        std::vector<LanguageState*> states;
        for (size_t i = 0; i < texts_in_all; ++i) {
          if (torch::rand({1}).item<double>() < 0.3) continue;
          texts.push_back(i);
          ids.push_back(torch::randint(0, config.vocab, {1}).item<int64_t>());
          states.push_back(&together[i]);
        }
        const Array found = engine->step(ids, states);
        for (size_t r = 0; r < texts.size(); ++r) {
          const Array wanted = engine->step({ids[r]}, {&alone[texts[r]]});
          ASSERT_TRUE(torch::equal(tensor_of(found)[int64_t(r)], tensor_of(wanted)[0]))
              << config.mixer << " " << precision << " " << texts.size();
        }
      }
      for (size_t i = 0; i < texts_in_all; ++i) {
        ASSERT_EQ(together[i].position, alone[i].position);
        for (size_t b = 0; b < alone[i].blocks.size(); ++b) {
          for (const auto& [name, array] : alone[i].blocks[b]) {
            const auto own = tensor_of(together[i].blocks[b].at(name));
            ASSERT_TRUE(torch::equal(own, tensor_of(array))) << name;
          }
        }
      }
    }
  }
}

TEST(LanguageEngine, AStepRefusesWhatTheModelCannotRead) {
  auto config = small("tssa");
  config.positions = "learned";
  config.block = 2;
  const auto engine = text_engine(*model_of(config), Precision::kFp32);
  LanguageState state;
  engine->step({1}, {&state});
  EXPECT_THROW(engine->step({config.vocab}, {&state}), Error);
  EXPECT_EQ(state.position, 1);
  engine->step({1}, {&state});
  EXPECT_THROW(engine->step({1}, {&state}), Error);
  EXPECT_EQ(engine->step({}, {}).size(0), 0);
}

TEST(LanguageEngine, PiecesOfLongTextsAreOneText) {
  const auto config = small("tssa");
  const auto model = model_of(config);
  LanguageEngine engine(*model);
  LanguageState plain, fast;
  const auto ids = ids_of(config, 1, 4500);
  EXPECT_LE(distance(engine.extend(ids, fast), model->extend(ids, plain)), 2e-5);
  EXPECT_EQ(fast.position, 4500);
}

TEST(LanguageEngine, AutocastOfTheCallerChangesNothing) {
  for (const char* mixer : {"softmax", "means"}) {
    const auto model = model_of(small(mixer));
    LanguageEngine engine(*model);
    const auto ids = ids_of(model->config(), 2, 40);
    LanguageState one, two;
    const auto plain = engine.extend(ids, one);
    const DeviceAutocast autocast(Autocast::kBfloat16);
    EXPECT_TRUE(torch::equal(engine.extend(ids, two), plain)) << mixer;
  }
}

TEST(LanguageEngine, NamesTheTensorThatCannotBeRounded) {
  const torch::NoGradGuard no_grad;
  for (const char* mixer : {"tssa", "softmax"}) {
    for (const char* part : {"h.1.mlp.c_fc.weight", "wte.weight"}) {
      const auto model = model_of(small(mixer));
      for (auto& [name, tensor] : state_dict(*model)) {
        if (ends_with(name, part)) tensor[1][1] = INFINITY;
      }
      try {
        LanguageEngine(*model, Precision::kInt4);
        FAIL() << "accepted " << part;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData);
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
      EXPECT_NO_THROW(LanguageEngine(*model, Precision::kBf16));
    }
  }
}

TEST(LanguageEngine, RefusesWhatTheModelRefuses) {
  auto config = small("tssa");
  config.positions = "learned";
  const auto model = model_of(config);
  LanguageEngine engine(*model);
  LanguageState state;
  EXPECT_THROW(engine.extend(torch::full({1, 1}, 97, torch::kLong), state), Error);
  EXPECT_THROW(engine.extend(ids_of(config, 1, 65), state), Error);
  EXPECT_THROW(engine.extend(ids_of(config, 1, 0), state), Error);
  EXPECT_EQ(state.position, 0);
  engine.extend(ids_of(config, 1, 3), state);
  EXPECT_THROW(engine.extend(ids_of(config, 2, 1), state), Error) << "another batch";
  EXPECT_THROW(engine.extend(ids_of(config, 1, 62), state), Error);
  EXPECT_EQ(state.position, 3);
}

}  // namespace
}  // namespace tost
