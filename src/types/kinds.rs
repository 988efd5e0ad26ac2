//! Kinds of what events report.

/// Declares an enum of kinds with names that are stable in JSON, the list of all kinds, and what each is about.
macro_rules! kinds {
    ($(#[$meta:meta])* $name:ident; $($kind:ident: $about:literal)*) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $(#[doc = $about] $kind,)*
        }

        impl $name {
            /// Every kind, in the order of the names.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Returns what is reported with this kind.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$kind => $about,)*
                }
            }
        }
    };
}

pub(crate) use kinds;
