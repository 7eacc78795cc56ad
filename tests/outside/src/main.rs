//! The `kmill` command with one extension of every kind: a file each, and a line each here.

mod columns;
mod half;
mod ramp;
mod raw;
mod shift;
mod step;
mod triangle;

fn main() -> std::process::ExitCode {
    let registered = kapprox::kernel::register(&triangle::FAMILY)
        .and_then(|()| kapprox::landmark::register(&half::SCHEME))
        .and_then(|()| kapprox::map::register(&columns::FAMILY))
        .map_err(kmill::Error::from)
        .and_then(|()| Ok(kfit::solver::register(&step::FAMILY)?))
        .and_then(|()| Ok(ksolve::statistic::register(&shift::FAMILY)?))
        .and_then(|()| Ok(kstore::source::register(&raw::FORMAT)?))
        .and_then(|()| kmill::generators::register(&ramp::RAMP));
    match registered {
        Ok(()) => kmill::run(),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
