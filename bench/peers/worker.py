"""One contestant in a process of its own, driven by lines on stdin.

    worker.py CONTESTANT CASE FOLDER SHARED

CASE is a case in JSON, FOLDER the contestant's own, SHARED that of the case. Answers with one JSON
object a line: first {"ready": seconds, "logits": FILE}, then for each line "run N" {"ms": [...],
"peak_mib": ...}. A contestant that cannot run answers {"failed": reason}.
"""

import json
import logging
import os
import resource
import sys
import time
import warnings

import rounds


def main():
    contestant, case, folder, shared = sys.argv[1:5]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not belong to the answers
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)

    def answer(**fields):
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    start = time.perf_counter()
    try:
        import cases
        import contestants
        import tensors

        task = cases.Task(cases.Case(**json.loads(case)))
        call = contestants.ALL[contestant](task, shared)
        logits = task.logits(call).float().clone()
        out = os.path.join(folder, "logits.safetensors")
        tensors.save(out, {"logits": logits})
    except Exception as error:  # whatever a library cannot do here is its result
        answer(failed=rounds.reason(error))
        return
    answer(ready=time.perf_counter() - start, logits=out)
    for line in sys.stdin:
        times = []
        for _ in range(int(line.split()[1])):
            begin = time.perf_counter()
            task.logits(call)
            times.append(1e3 * (time.perf_counter() - begin) / task.case.steps)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answer(ms=times, peak_mib=peak)


main()
