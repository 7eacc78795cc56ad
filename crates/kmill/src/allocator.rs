//! Settings that make glibc's allocator return freed memory, the message of an aborted process, and
//! the signals that the process handles through C.
//!
//! By default every thread may open its own arena (a region from which it allocates). A buffer
//! above a threshold size gets its own pages, which go back to the system when the buffer is freed.
//! But at that moment glibc raises the threshold to the size of the buffer, up to 32 MiB. From then
//! on, freed buffers stay resident in an arena, and a memory budget cannot account for them.
//!
//! These settings do not change the time, and lower the peak memory, measured on two cores: `kmill
//! fit ridge` on 60,000 rows x 29 of beijing-pm25 at rank 500 with 5 folds takes 50 MiB instead of
//! 62 to 66 MiB on 2 threads, and 54 to 56 MiB instead of 68 to 70 MiB on 8 threads. `kmill inspect
//! --stats` on fashion-mnist takes 132 to 135 MiB instead of 136 to 142 MiB.

/// Maximum number of arenas. Two threads that share an arena wait for each other, for example in
/// matrix products, which pack their operands into new buffers. The fit of beijing-pm25 at rank
/// 2,000 took 14.3 s with 2 arenas and 13.3 s with 8 arenas, with the same peak memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAX_ARENAS: libc::c_int = 8;

/// Size above which a buffer gets its own pages, which are returned to the system when the buffer
/// is freed. Because the size is set, glibc does not raise it. It is smaller than the page buffer
/// of a decoder (1 MiB) and larger than most other allocations.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_THRESHOLD: libc::c_int = 256 << 10;

/// Free memory kept at the end of an arena, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_THRESHOLD: libc::c_int = 1 << 20;

/// Memory budget from which a subcommand of many small fits keeps freed memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MIN_KEEPING_MEMORY: usize = 4 << 30;

/// The two thresholds while freed memory is kept: the largest buffer that an arena can hold, and
/// the size of an arena.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEEPING_THRESHOLDS: [libc::c_int; 2] = [32 << 20, 64 << 20];

/// Address space that an arena reserves, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENA_BYTES: usize = 64 << 20;

/// All arenas together may reserve the address-space limit of the process divided by this number.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENA_DIVISOR: usize = 8;

/// Message of an aborted process. The standard library has already printed the reason, such as a
/// failed allocation.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ABORT_MESSAGE: &[u8] =
    b"error: aborted for the reason above; nothing more was written; if memory ran out, raise the limit (ulimit -v, \
ulimit -d), or lower --memory or --threads\n";

/// Handles SIGABRT: removes the temporary files, prints a message and ends the process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "write and _exit are C functions; this is the one file of the crate that may")]
extern "C" fn handle_abort(_signal: libc::c_int) {
    // SAFETY: alarm takes a number and touches no memory; it ends the process if the signal was
    // sent from outside during an allocation.
    unsafe { libc::alarm(5) };
    kstore::remove_temporaries();
    // SAFETY: both take numbers and a pointer to static bytes, and are safe in a signal handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, ABORT_MESSAGE.as_ptr().cast(), ABORT_MESSAGE.len());
        libc::_exit(1);
    }
}

/// Configures the allocator and the signals. Must run before any thread starts. Because SIGXFSZ is
/// ignored, a write beyond the file size limit (`ulimit -f`) fails like a write to a full disk,
/// instead of ending the process and leaving temporary files behind.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt and signal are C functions; this is the one file of the crate that may")]
pub(crate) fn configure() {
    // the address space that arenas reserve counts against the limit of the process, even if it is
    // hardly used
    let arena_count_within = |limit: usize| {
        libc::c_int::try_from(limit / ARENA_DIVISOR / ARENA_BYTES).unwrap_or(MAX_ARENAS).clamp(1, MAX_ARENAS)
    };
    let arena_count = kstore::budget::address_space_limit().map_or(MAX_ARENAS, arena_count_within);
    let settings = [
        (libc::M_ARENA_MAX, arena_count),
        (libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD),
        (libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD),
    ];
    for (option, value) in settings {
        // SAFETY: mallopt takes two integers and only changes the allocator's own parameters, under
        // its lock. For an unknown option it returns 0 and keeps the default, which is harmless.
        unsafe { libc::mallopt(option, value) };
    }
    // SAFETY: SIG_IGN installs no handler. `handle_abort` runs on the thread that aborts, at its
    // call to abort and not in the middle of other code. The calls change this process's
    // disposition of two signals; they fail, harmlessly, only for signals that cannot be caught.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGABRT, handle_abort as *const () as libc::sighandler_t);
    }
}

/// Lets the arenas keep freed memory for the next buffers, if the budget is large. For subcommands
/// that fit hundreds of small problems: otherwise the system clears the pages of their matrices for
/// every fit. Measured on two cores: `kmill curve` on kin40k at ranks 250 to 1,000 takes 36 s
/// instead of 41 s, with 1.0 s instead of 4.7 s of system time, and 451 MiB instead of 361 MiB. The
/// trials of `kmill tune` on 2,000 rows take .7 of the time, and 370 MiB instead of 202
/// MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt is a C function; this is the one file of the crate that may")]
pub(crate) fn keep_freed_memory(memory_budget: usize) {
    if memory_budget >= MIN_KEEPING_MEMORY {
        for (option, value) in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD].into_iter().zip(KEEPING_THRESHOLDS) {
            // SAFETY: as in `configure`; the parameters may change while threads run.
            unsafe { libc::mallopt(option, value) };
        }
    }
}

/// Gives free pages in arenas back to the system. Returns the resident bytes that remain, or 0 if
/// the system does not report them. A subcommand with two parts calls this function between them,
/// so that freed memory of the first part does not add to the peak of the second. `kmill
/// coordinates` on 1,500 objects peaks at 89 MiB with this call and at 131 MiB without it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim is a C function; this is the one file of the crate that may")]
pub(crate) fn trim_and_measure() -> usize {
    // SAFETY: malloc_trim takes an integer and only touches free pages, under the locks of the
    // arenas.
    unsafe { libc::malloc_trim(0) };
    kstore::budget::rss().unwrap_or(0)
}

/// Returns the resident bytes; 0 if the system does not report them.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim_and_measure() -> usize {
    kstore::budget::rss().unwrap_or(0)
}

/// Does nothing on other systems, whose allocators keep freed memory themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn keep_freed_memory(_memory_budget: usize) {}

/// Does nothing on other systems: their allocators return freed pages themselves or cannot be
/// configured, and there is no such signal.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn configure() {}
