"""The BLAS behind NumPy as it comes, for everything that is timed beside kmill. Import this before NumPy: OpenBLAS reads its variables once.

OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE hold OpenBLAS to the kernels of another processor. A machine that sets them has a slower BLAS than
its processor allows (Haswell's kernels on a processor with AVX-512: half of the rate), and every figure beside it would flatter kmill.
"""

import os

HOLDS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

for name in HOLDS:
    os.environ.pop(name, None)


def set_threads(count):
    """Sets the threads of every BLAS that is loaded after this call, in this process and in those it starts."""
    os.environ.update({name: str(count) for name in THREADS})


def kernels():
    """Name, version and chosen kernel of every BLAS that is loaded, such as `openblas 0.3.30 SkylakeX`."""
    from threadpoolctl import threadpool_info

    loaded = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return sorted({" ".join(filter(None, (info["internal_api"], info["version"], info.get("architecture")))) for info in loaded})
