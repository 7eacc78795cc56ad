//! glibc's allocator, told to give freed memory back; what is said when an abort follows; and the one signal that is asked of C to be left alone.
//!
//! By default every thread may open an arena of its own, and the size from which a buffer gets pages of its own grows
//! to 32 MiB as such buffers are freed; from then on a freed buffer stays resident in some arena. A budget cannot
//! count that.
//!
//! Measured on two cores: `kmill fit ridge` on 60,000 rows x 29 of beijing-pm25 at rank 500 with 5 folds peaks at 50 MiB
//! with these settings and at 62 to 66 MiB without (2 threads), at 54 to 56 MiB and 68 to 70 MiB (8 threads), in the
//! same time; `kmill inspect --stats` on fashion-mnist at 132 to 135 MiB and 136 to 142 MiB.

/// Most arenas: one for each of a few threads. Each product packs its operands into a fresh buffer, and two threads that
/// share an arena wait for each other: the fit of beijing-pm25 at rank 2,000 took 14.3 s with 2 arenas and 13.3 s with 8,
/// with the same peak.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: libc::c_int = 8;

/// From this size on a buffer has pages of its own, returned when it is freed. Setting it also stops its growth.
/// Below a decoder's page (1 MiB) and above what the many small allocations ask for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PAGES: libc::c_int = 256 << 10;

/// Free memory kept at the end of an arena.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 1 << 20;

/// Address space that an arena reserves, and the part of a limit of the process that all arenas may have.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENA: (usize, usize) = (64 << 20, 8);

/// What is said when the process is aborted; the standard library has told the reason, such as an allocation that failed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ABORTED: &[u8] =
    b"error: aborted for the reason above, nothing more was written; if it is memory, raise the limit (ulimit -v, \
ulimit -d), or lower --memory or --threads\n";

/// Ends an aborted process with a sentence and without temporary files.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "write and _exit are C functions; this is the one file of the crate that may")]
extern "C" fn aborted(_signal: libc::c_int) {
    // SAFETY: alarm takes a number and touches no memory; it ends the process if the signal came from outside, amid an allocation.
    unsafe { libc::alarm(5) };
    kstore::remove_temporaries();
    // SAFETY: both take numbers and a pointer to bytes that live as long as the program, and are safe in a signal handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, ABORTED.as_ptr().cast(), ABORTED.len());
        libc::_exit(1);
    }
}

/// Sets the limits, and makes a file that reaches the limit of its size (`ulimit -f`) fail a write, as a full disk does, instead of ending
/// the process where it stands with its temporary files left behind. First thing in the process, before there are threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt and signal are C functions; this is the one file of the crate that may")]
pub(crate) fn configure() {
    // the address space of arenas counts against the limit of the process, however little of it is used
    let room = |limit: usize| libc::c_int::try_from(limit / ARENA.1 / ARENA.0).unwrap_or(ARENAS).clamp(1, ARENAS);
    let arenas = kstore::budget::address_limit().map_or(ARENAS, room);
    let settings = [(libc::M_ARENA_MAX, arenas), (libc::M_MMAP_THRESHOLD, OWN_PAGES), (libc::M_TRIM_THRESHOLD, KEPT)];
    for (option, value) in settings {
        // SAFETY: mallopt takes two integers and touches the allocator's own parameters only, under its lock; an
        // option it does not know makes it return 0, which is harmless: the default stays.
        unsafe { libc::mallopt(option, value) };
    }
    // SAFETY: SIG_IGN installs no handler, and `aborted` runs on the thread that aborts, at a call of its own and not in the middle of other code;
    // the calls change this process's disposition of two signals and fail, harmlessly, only for signals that cannot be caught.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGABRT, aborted as *const () as libc::sighandler_t);
    }
}

/// Gives the pages of freed memory back that arenas keep, and returns the resident bytes that are left, 0 where the system does not tell. A verb with
/// two parts calls it between them, so that the first part leaves the second one only what it still holds: with it `kmill coordinates` on 1,500
/// objects peaks at 89 MiB, without at 131.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim is a C function; this is the one file of the crate that may")]
pub(crate) fn resident() -> usize {
    // SAFETY: malloc_trim takes an integer and touches free pages only, under the locks of the arenas.
    unsafe { libc::malloc_trim(0) };
    kstore::budget::rss().unwrap_or(0)
}

/// The resident bytes; 0 where the system does not tell.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn resident() -> usize {
    kstore::budget::rss().unwrap_or(0)
}

/// Does nothing: other allocators return freed pages by themselves or cannot be told to, and other systems do not have the signal.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn configure() {}
