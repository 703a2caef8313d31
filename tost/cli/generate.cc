// tost generate: text from a language model, streamed to stdout.
#include "tost/eval/generate.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/process_memory.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/eval/precision.h"
#include "tost/eval/session_file.h"

namespace tost {
namespace {

constexpr int64_t kMaxPromptBytes = int64_t{1} << 32;

struct Options {
  RunOptions run;
  std::string checkpoint;
  std::string prompt, prompt_file, prompts_file;
  bool prompt_given = false;
  int64_t samples = 1;
  std::string session;
  std::string precision = "fp32";
  bool ema = false, stats = false;
  GenerateConfig generate;
};

std::string read_prompt_file(const std::string& path) {
  if (path != "-") return read_file(path, kMaxPromptBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> prompt_texts(const Options& o) {
  const int given =
      int(o.prompt_given) + int(!o.prompt_file.empty()) + int(!o.prompts_file.empty());
  if (given > 1) fail_usage("--prompt, --prompt-file and --prompts exclude each other; give one.");
  if (o.samples < 1) fail_usage("--samples is ", o.samples, "; it must be 1 or above.");
  std::vector<std::string> texts;
  if (!o.prompts_file.empty()) {
    texts = lines_of(read_prompt_file(o.prompts_file));
    if (texts.empty()) fail_data("'", o.prompts_file, "' holds no prompt; one a line is expected.");
  } else if (!o.prompt_file.empty()) {
    texts = {read_prompt_file(o.prompt_file)};
  } else {
    texts = {o.prompt};
  }
  std::vector<std::string> all;
  for (const auto& text : texts) all.insert(all.end(), size_t(o.samples), text);
  if (!o.session.empty() && all.size() != 1) {
    fail_usage("--session goes on with one text; leave out --samples and --prompts.");
  }
  return all;
}

std::vector<std::vector<int64_t>> encode_all(const std::vector<std::string>& texts,
                                             const Tokenizer& tokenizer, bool may_be_empty) {
  std::vector<std::vector<int64_t>> prompts;
  for (const auto& text : texts) {
    const auto ids = tokenizer.encode(text);
    if (ids.empty() && !may_be_empty) {
      fail_usage("The prompt is empty; give at least one character with --prompt.");
    }
    prompts.emplace_back(ids.begin(), ids.end());
  }
  return prompts;
}

nlohmann::json to_json(const GenerateStats& s) {
  const auto rate = [](double count, double seconds) {
    return seconds > 0 ? nlohmann::json(count / seconds) : nlohmann::json();
  };
  return {{"prompt_tokens", s.prompt_tokens},
          {"new_tokens", s.new_tokens},
          {"prefill_s", s.prefill_s},
          {"prefill_tokens_per_s", rate(double(s.prompt_tokens), s.prefill_s)},
          {"decode_s", s.decode_s},
          {"decode_ms_per_token", rate(1e3 * s.decode_s, double(s.decode_steps))},
          {"state_bytes", s.state_bytes},
          {"resident_bytes", resident_bytes()},
          {"peak_resident_bytes", peak_resident_bytes()}};
}

void print_stats(const GenerateStats& s) {
  std::fprintf(stderr, "prefill  %s tokens in %.2f s, %.0f a second\n",
               human_number(s.prompt_tokens).c_str(), s.prefill_s,
               s.prefill_s > 0 ? double(s.prompt_tokens) / s.prefill_s : 0.0);
  if (s.decode_steps > 0) {
    std::fprintf(stderr, "decode   %s tokens in %.2f s, %.1f a second, %.2f ms a token\n",
                 human_number(s.new_tokens).c_str(), s.decode_s, double(s.new_tokens) / s.decode_s,
                 1e3 * s.decode_s / double(s.decode_steps));
  }
  std::fprintf(stderr, "memory   %s of state, %s resident, %s at most\n",
               human_bytes(s.state_bytes).c_str(), human_bytes(resident_bytes()).c_str(),
               human_bytes(peak_resident_bytes()).c_str());
}

void add(GenerateStats& sum, const GenerateStats& s) {
  sum.prompt_tokens += s.prompt_tokens;
  sum.new_tokens += s.new_tokens;
  sum.decode_steps += s.decode_steps;
  sum.prefill_s += s.prefill_s;
  sum.decode_s += s.decode_s;
  sum.state_bytes += s.state_bytes;
}

// Prompts of one length are written together; the others after them.
GenerateResult generate_all(const Options& o, LanguageModel& model, const Tokenizer& tokenizer,
                            std::vector<std::vector<int64_t>> prompts, TextSession* session,
                            bool stream) {
  GenerateResult all;
  all.texts.resize(prompts.size());
  std::vector<bool> done(prompts.size());
  for (size_t first = 0; first < prompts.size(); ++first) {
    if (done[first]) continue;
    std::vector<size_t> group;
    std::vector<std::vector<int64_t>> together;
    const size_t length = prompts[first].size();
    for (size_t i = first; i < prompts.size(); ++i) {
      if (done[i] || prompts[i].size() != length) continue;
      done[i] = true;
      group.push_back(i);
      together.push_back(std::move(prompts[i]));
    }
    const OnText on_text = [](int64_t, const std::string& piece) {
      std::cout << piece << std::flush;
    };
    auto result = generate(model, tokenizer, std::move(together), o.generate, session,
                           stream ? on_text : OnText(), stop_flag());
    for (size_t i = 0; i < group.size(); ++i) all.texts[group[i]] = std::move(result.texts[i]);
    add(all.stats, result.stats);
  }
  return all;
}

void print_texts(const std::vector<std::string>& prompts, const GenerateResult& result) {
  for (size_t i = 0; i < result.texts.size(); ++i) {
    if (result.texts.size() > 1) std::cout << "--- " << i + 1 << ": " << prompts[i] << "\n";
    std::cout << result.texts[i].text << "\n";
  }
}

nlohmann::json to_json(const Options& o, const std::string& file,
                       const std::vector<std::string>& prompts, const GenerateResult& result) {
  nlohmann::json texts = nlohmann::json::array();
  for (size_t i = 0; i < result.texts.size(); ++i) {
    const auto& t = result.texts[i];
    texts.push_back({{"prompt", prompts[i]}, {"text", t.text}, {"ids", t.ids}, {"ended", t.ended}});
  }
  return {{"checkpoint", file},
          {"seed", o.generate.seed},
          {"texts", texts},
          {"stats", to_json(result.stats)}};
}

void run_generate(const Options& o) {
  set_threads(o.run.threads);
  check_generate(o.generate);
  const auto texts = prompt_texts(o);
  auto loaded = load_language_file(o.checkpoint, o.ema ? Weights::kEma : Weights::kRaw);
  if (loaded.info.tokenizer == nullptr) {
    fail_data("'", loaded.file.string(),
              "' was trained on tokens without a vocabulary, so it cannot write text.");
  }
  use_precision(*loaded.model, o.precision);
  TextSession session;
  const bool resumed = !o.session.empty() && std::filesystem::exists(o.session);
  if (resumed) session = load_session(o.session, *loaded.model);
  const bool pending = !session.pending.empty();
  auto prompts = encode_all(texts, *loaded.info.tokenizer, pending);
  const bool stream = !o.run.json && prompts.size() == 1;
  const auto result = generate_all(o, *loaded.model, *loaded.info.tokenizer, std::move(prompts),
                                   o.session.empty() ? nullptr : &session, stream);
  if (!o.session.empty()) save_session(o.session, session, *loaded.model);
  if (o.run.json) {
    print_json(to_json(o, loaded.file.string(), texts, result));
  } else if (stream) {
    std::cout << "\n";
  } else {
    print_texts(texts, result);
  }
  if (o.stats && !o.run.json) print_stats(result.stats);
  if (stop_flag()->load()) set_exit_code(kExitInterrupted);
}

void add_text_options(CLI::App& command, Options& o) {
  command.add_option("--prompt", o.prompt, "Text to continue")
      ->each([&o](const std::string&) { o.prompt_given = true; })
      ->default_str("a line break");
  command.add_option("--prompt-file", o.prompt_file, "File to continue; - is stdin");
  command.add_option("--prompts", o.prompts_file, "File of prompts, one a line; - is stdin");
  command.add_option("--samples", o.samples, "Texts for each prompt")->capture_default_str();
  command.add_option("--max-tokens", o.generate.max_tokens, "New tokens a text")
      ->capture_default_str();
  command.add_option("--stop", o.generate.stop, "End a text before this string; may be repeated")
      ->take_all()
      ->expected(1);
  command.add_flag("--ignore-end", o.generate.ignore_end, "Go on past an end-of-text token");
  command.add_option("--session", o.session,
                     "File that keeps the state: goes on where it stopped, saves when done");
  command
      .add_option("--past-block", o.generate.past_block,
                  "With learned positions, past their number: stop or slide")
      ->capture_default_str();
}

void add_sampling_options(CLI::App& command, Options& o) {
  auto& s = o.generate.sampling;
  command.add_option("--temperature", s.temperature, "0: the most likely token")
      ->capture_default_str();
  command.add_option("--top-k", s.top_k, "Draw from the k most likely tokens; 0: all")
      ->capture_default_str();
  command.add_option("--top-p", s.top_p, "Draw from the fewest tokens whose probability reaches p")
      ->capture_default_str();
  command
      .add_option("--min-p", s.min_p,
                  "Leave out tokens less likely than this share of the most likely one")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", s.repetition_penalty,
                  "Above 1 makes tokens that came before less likely")
      ->capture_default_str();
  command.add_option("--seed", o.generate.seed, "Of the drawing")->capture_default_str();
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Write text with a trained language model");
  auto options = std::make_shared<Options>();
  options->prompt = "\n";
  command
      ->add_option("checkpoint", options->checkpoint,
                   "Run folder, checkpoint folder or .safetensors file")
      ->required();
  add_text_options(*command, *options);
  add_sampling_options(*command, *options);
  command->add_option("--precision", options->precision, "fp32 or bf16 weights")
      ->capture_default_str();
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  command->add_flag("--stats", options->stats, "Speed and memory on stderr");
  add_run_options(*command, options->run);
  add_example(*command, "  tost generate run --prompt \"ROMEO:\" --temperature 0.8 --top-k 40");
  command->callback([options] { run_generate(*options); });
}

}  // namespace tost
