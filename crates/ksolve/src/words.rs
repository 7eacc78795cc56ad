//! A macro for enums whose values are written as one word.

/// Implements `Display` and `FromStr` of an enum from one list of words; `$name` is the parameter named in errors.
macro_rules! words {
    ($type:ty, $name:literal, $($word:literal => $variant:ident),+ $(,)?) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::Error;

            fn from_str(text: &str) -> crate::Result<Self> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(crate::Error::option($name, format!("{text:?}"), concat!("expected one of" $(, " ", $word)+))),
                }
            }
        }
    };
}

pub(crate) use words;
