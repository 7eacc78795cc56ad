//! stub
pub(crate) fn main(_args: &crate::args::PredictArgs) -> crate::Result<()> { Ok(()) }
