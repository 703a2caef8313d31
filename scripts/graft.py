#!/usr/bin/env python3
"""auditwheel that grafts all libraries but those of the C and C++ runtimes.

auditwheel takes libX11, libz and others for part of every system. Servers and containers do not have all of them.
"""
import sys

from auditwheel import policy
from auditwheel.main import main

RUNTIMES = {"libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
            "libutil.so.1", "ld-linux-x86-64.so.2"}
policy._fixup_musl_libc_soname = lambda libc, arch, names: frozenset(names) & RUNTIMES
sys.exit(main())
