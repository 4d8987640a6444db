//! Settings that describe themselves: each has its default and its description in one place, and lists
//! follow from that.

/// A part of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// What it is called.
    pub name: &'static str,
    /// What it is for, line by line.
    pub about: &'static [&'static str],
    /// Its settings.
    pub settings: &'static [Setting],
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is called.
    pub name: &'static str,
    /// What it means, line by line.
    pub about: &'static [&'static str],
    /// What it may be, where that is one of few.
    pub choices: &'static [Choice],
}

/// One thing that a setting may be.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// What is written for it.
    pub name: &'static str,
    /// What it means, line by line.
    pub about: &'static [&'static str],
}

/// The type of a setting.
pub(super) trait Kind {
    /// What it may be, where that is one of few.
    const CHOICES: &'static [Choice] = &[];
}

impl Kind for bool {}
impl Kind for usize {}
impl Kind for u64 {}
impl Kind for f64 {}
impl Kind for String {}
impl Kind for Vec<String> {}

/// A section: settings with what they are and what they are by default.
macro_rules! section {
    ($(#[doc = $of_all:literal])+ $section:ident {
        $($(#[doc = $about:literal])+ $name:ident: $type:ty = $default:expr,)+
    }) => {
        $(#[doc = $of_all])+
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $($(#[doc = $about])+ pub $name: $type,)+
        }

        impl Default for $section {
            fn default() -> Self {
                $section { $($name: $default,)+ }
            }
        }

        impl $section {
            pub(super) const SETTINGS: &'static [Setting] = &[$(Setting {
                name: stringify!($name),
                about: &[$($about),+],
                choices: <$type as Kind>::CHOICES,
            },)+];
        }
    };
}

/// All settings, section by section.
macro_rules! sections {
    ($(#[doc = $of_all:literal])+ $all:ident {
        $($(#[doc = $about:literal])+ $name:ident: $type:ident,)+
    }) => {
        $(#[doc = $of_all])+
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $all {
            $($(#[doc = $about])+ pub $name: $type,)+
        }

        impl $all {
            /// What there is to be set.
            pub const SECTIONS: &'static [Section] =
                &[$(Section { name: stringify!($name), about: &[$($about),+], settings: $type::SETTINGS },)+];
        }
    };
}

/// What a setting may be, where that is one of few; the first is the default.
macro_rules! choice {
    ($(#[doc = $of_all:literal])+ $type:ident {
        $(#[doc = $of_first:literal])+ $first:ident = $first_name:literal,
        $($(#[doc = $about:literal])+ $variant:ident = $name:literal,)+
    }) => {
        $(#[doc = $of_all])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $type {
            $(#[doc = $of_first])+
            #[default]
            #[serde(rename = $first_name)]
            $first,
            $($(#[doc = $about])+ #[serde(rename = $name)] $variant,)+
        }

        impl Kind for $type {
            const CHOICES: &'static [Choice] = &[
                Choice { name: $first_name, about: &[$($of_first),+] },
                $(Choice { name: $name, about: &[$($about),+] },)+
            ];
        }
    };
}

pub(super) use {choice, section, sections};
