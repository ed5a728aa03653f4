"""check.py RDMA_TOPO: says of each file that a line of standard input names, which has what rdma_topo
dump prints, what rdma_topo check --virt does: ok, fail, or the error with which it refuses."""

import argparse
import contextlib
import io
import sys
import types

# One process for all files. The program ends with a call of main.
source = open(sys.argv[1]).read().rstrip().removesuffix("main()")
program = types.ModuleType("rdma_topo")
sys.modules["rdma_topo"] = program
exec(compile(source, "rdma_topo", "exec"), program.__dict__)

for line in sys.stdin:
    answer = "ok"
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            program.cmd_check(argparse.Namespace(sysfs_dump=line.strip(), virt=True))
        except SystemExit:
            answer = "fail"
        except program.CommandError as error:
            answer = str(error)
    print(answer)
