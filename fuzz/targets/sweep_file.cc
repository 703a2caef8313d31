// What a sweep reads: its file, and the record in the folder of a run.
#include <filesystem>
#include <fstream>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/data/corrupt.h"
#include "tost/study/run_record.h"
#include "tost/study/sweep_spec.h"
#include "tost/testing/temp_dir.h"

namespace tost::fuzz {
namespace {

void try_spec(std::string_view input) {
  const SweepSpec spec = read_sweep_file(MemoryFile(input).path());
  promise(!spec.title.empty() && !spec.seeds.empty(), "a title and a seed");
  promise(!spec.variants.empty() || !spec.grid.empty(), "something to compare");
  promise(spec.settings.is_object() && (!spec.pretrain || spec.pretrain->is_object()), "settings");
  for (const SweepVariant& variant : spec.variants) {
    promise(is_variant_name(variant.name) && variant.settings.is_object(), "a variant");
  }
  for (const GridAxis& axis : spec.grid) promise(!axis.values.empty(), "a value on every axis");
  if (!spec.corruptions) return;
  for (const std::string& kind : spec.corruptions->kinds) {
    for (const int64_t strength : spec.corruptions->strengths) check_corruption({kind, strength});
  }
}

void try_record(std::string_view input) {
  static const testing::TempDir folder;
  std::ofstream(folder.path() / "result.json", std::ios::binary) << input;
  const auto record = read_record(folder.path());
  promise(record.has_value(), "a record where there is a file");
  promise(record->curve.steps.size() == record->curve.values.size(), "a value a step");
  const std::string written = to_json(*record).dump();
  write_record(folder.path(), *record);
  promise(to_json(*read_record(folder.path())).dump() == written, "written and read the same");
}

}  // namespace

void try_sweep_file(std::string_view input) {
  const unsigned choice = take_choice(input);
  or_refuse([&] { choice % 2 == 0 ? try_spec(input) : try_record(input); });
}

}  // namespace tost::fuzz
