"""Resets the BLAS of NumPy to its default kernels, for fair benchmarks. Import this module before NumPy: OpenBLAS reads its variables once.

OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE make OpenBLAS use the kernels of another processor. On a machine that sets them, BLAS is slower than
the processor allows (Haswell kernels on a processor with AVX-512: half of the rate), and comparisons would favour kmill.
"""

import os

KERNEL_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

for name in KERNEL_VARIABLES:
    os.environ.pop(name, None)


def set_threads(count):
    """Sets the number of threads of each BLAS that is loaded after this call, in this process and its children."""
    os.environ.update({name: str(count) for name in THREADS})


def kernels():
    """Returns name, version and selected kernel of each loaded BLAS, such as `openblas 0.3.30 SkylakeX`."""
    from threadpoolctl import threadpool_info

    loaded = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return sorted({" ".join(filter(None, (info["internal_api"], info["version"], info.get("architecture")))) for info in loaded})
