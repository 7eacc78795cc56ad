//! stub
pub(crate) fn main(_args: &crate::args::EvaluateArgs) -> crate::Result<()> { Ok(()) }
