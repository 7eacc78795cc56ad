//! The `kmill` command, implemented in the library of the same name.

fn main() -> std::process::ExitCode {
    kmill::run()
}
