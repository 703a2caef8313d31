// Writes the event files that tests/python/test_event_file.py reads: write_event_files FOLDER
#include "tost/train/event_file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  {
    tost::EventFile first(argv[1], 0);
    for (int64_t step = 1; step <= 300; ++step) first.add(step, {{"train/loss", double(step) / 8}});
    first.flush();
  }
  tost::EventFile resumed(argv[1], 201);
  for (int64_t step = 201; step <= 300; ++step)
    resumed.add(step, {{"train/loss", double(step) / 4}});
  resumed.add(5'000'000'000, {{"eval/top1", 0.9}});
  resumed.flush();
  return 0;
}
