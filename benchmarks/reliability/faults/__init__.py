"""Fault injection: `farthing run` meets with every accident we know of, and nothing is lost by it.

    python -m benchmarks.reliability.faults --count 1000              in all; it goes on where it was
    python -m benchmarks.reliability.faults --count 1000 --part 1/3   every third one, beside two others
    python -m benchmarks.reliability.faults --only lock --count 5     five of one kind
    python -m benchmarks.reliability.faults --table                   what is kept, as a table
    python -m benchmarks.reliability.faults --budget-check            a budget of a minute, trials of any length

Each injection runs the real command on a database of its own, and strikes (`plan` says what, when
and whom; `strikes` does it from outside, `inside` in the command's own processes). Then the same
command finishes the study. Meanwhile this process reads the database as often as it can, and every
process of the command checks each state that it commits (`books`); afterwards the trials are
compared with what they themselves wrote into a log.

Every injection has a folder of its own, and the working directory tells which processes belong to
it: also those that were forked and never executed anything, and those whose parent is dead.

PostgreSQL is the server that FARTHING_TEST_POSTGRES names (`.ci/postgres` starts one); one that is
restarted is a new one from the same programs (`server`). A disk that fills up is a tmpfs of 16 MB,
which only root may mount. Every injection is a line of benchmarks/results/faults.jsonl. The exit
code is 1 if anything was found.
"""
