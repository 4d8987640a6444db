//! `settings.toml`: the settings a run was made with, every one of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The value of a setting, of whatever kind.
pub use toml::Value as SettingValue;

/// The settings of a run by section and key.
///
/// They are read for reports and comparisons, whatever the version of Kymo that wrote them; a run is made
/// from settings by `kymo-run`, which knows and checks each of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SettingsRecord {
    /// Values by key, by section.
    pub sections: BTreeMap<String, BTreeMap<String, SettingValue>>,
}

impl SettingsRecord {
    /// The value of a setting, as in `get("train", "epochs")`.
    pub fn get(&self, section: &str, key: &str) -> Option<&SettingValue> {
        self.sections.get(section)?.get(key)
    }

    pub(super) fn from_toml(path: &Path, text: &str) -> Result<SettingsRecord> {
        toml::from_str(text).map_err(|error| {
            let message = error.message();
            let problem = format!("is not part of the settings of a run: {message}; restore the file");
            match error.span() {
                Some(span) => {
                    let before = text.get(..span.start).unwrap_or(text);
                    Error::line(path, before.matches('\n').count() + 1, problem)
                }
                None => Error::file(path, problem),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_and_have_their_kinds() {
        let text = "[train]\nepochs = 8\nmode = \"windows\"\nclip = 1.0\n\n[task]\nmetrics = [\"mae\"]\n";
        let path = Path::new("settings.toml");
        let settings = SettingsRecord::from_toml(path, text).unwrap();
        assert_eq!(settings.get("train", "epochs"), Some(&SettingValue::Integer(8)));
        assert_eq!(settings.get("train", "clip").and_then(SettingValue::as_float), Some(1.0));
        assert_eq!(settings.get("task", "metrics").and_then(SettingValue::as_array).map(Vec::len), Some(1));
        assert_eq!((settings.get("train", "none"), settings.get("none", "epochs")), (None, None));
        let again = toml::to_string(&settings).unwrap();
        assert_eq!(SettingsRecord::from_toml(path, &again).unwrap(), settings);
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<SettingsRecord>(&json).unwrap(), settings);
    }

    #[test]
    fn the_line_of_a_mistake_is_named() {
        for (text, line) in [("[train]\nepochs = \n", 2), ("epochs = 3\n", 1), ("[a]\n[b]\n[c\n", 3)] {
            let error = SettingsRecord::from_toml(Path::new("settings.toml"), text).unwrap_err().to_string();
            let expected = format!("settings.toml, line {line}: is not part of the settings of a run: ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
