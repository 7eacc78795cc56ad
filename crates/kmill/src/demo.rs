//! stub
pub(crate) fn main(_args: &crate::args::DemoArgs) -> crate::Result<()> { Ok(()) }
