"""Fault injection: `farthing run` must lose nothing, whichever known fault interrupts it.

    python -m benchmarks.reliability.faults --count 1000              1,000 in all; resumable
    python -m benchmarks.reliability.faults --count 1000 --part 1/3   a third, beside two others
    python -m benchmarks.reliability.faults --only lock --count 5     five of one kind, not kept
    python -m benchmarks.reliability.faults --table                   the kept results as a table
    python -m benchmarks.reliability.faults --budget-check            a budget of one minute

Each injection runs the real command on its own database and injects one fault. `plan` draws the
fault, its target and its time; `strikes` causes it from outside, `inside` in the command's own
processes. Then the same command finishes the study. Meanwhile this process reads the database as
often as it can, and every process of the command checks each state that it commits (`books`). At
the end, the trials are compared with what they wrote into a log.

Every injection has its own folder. The working directory identifies its processes, including forks
that have not called exec and processes whose parent is dead.

FARTHING_TEST_POSTGRES names the PostgreSQL server (`.ci/postgres` starts one). To restart a server,
`server` starts another one from the same programs. The disk that fills up is a tmpfs of 16 MB,
which only root can mount. Each injection is one line of benchmarks/results/faults.jsonl. The exit
code is 1 if an injection found a fault.
"""
