//! The `kmill` command. Everything it does is in the library of the same name.

fn main() -> std::process::ExitCode {
    kmill::run()
}
