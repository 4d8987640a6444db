//! Models and tasks of the caller's own, beside those of the registries.
//!
//! Settings and checkpoints know a model and a task by name. A name of one's own means nothing to another
//! program: to resume or evaluate such a run, the model or the task has to be passed again.

use std::sync::Arc;

use kymo_model::metric::Metric;
use kymo_model::{Config, Model, zoo};

use crate::config::Settings;
use crate::error::{Error, Result};
use crate::task::{self, Task};

/// Makes a model for features and windows of some size.
type Make = dyn Fn(&Config) -> kymo_model::Result<Box<dyn Model>> + Send + Sync;

/// A model, a task, both or nothing of the caller's own.
#[derive(Clone, Default)]
pub struct Custom {
    model: Option<(String, Arc<Make>)>,
    task: Option<Arc<dyn Task>>,
}

impl Custom {
    /// Adds a model; each worker of a run shares the one that `make` gives.
    pub fn with_model<F>(mut self, name: impl Into<String>, make: F) -> Custom
    where
        F: Fn(&Config) -> kymo_model::Result<Box<dyn Model>> + Send + Sync + 'static,
    {
        self.model = Some((name.into(), Arc::new(make)));
        self
    }

    /// Adds a task.
    pub fn with_task(mut self, task: impl Task + 'static) -> Custom {
        self.task = Some(Arc::new(task));
        self
    }

    /// The metrics that are asked for, the deciding one first; fails where settings make no sense by
    /// themselves, whatever the data.
    pub fn check(&self, settings: &Settings) -> Result<Vec<&'static dyn Metric>> {
        settings.check()?;
        let model = settings.model.name.as_str();
        let built_in = zoo::find(model);
        match &self.model {
            Some((own, _)) => named("model", own, model, built_in.is_ok())?,
            None => drop(built_in?),
        }
        task::metrics_of(self.task(&settings.task.name)?, settings)
    }

    /// The task of this name.
    pub fn task(&self, name: &str) -> Result<&dyn Task> {
        match &self.task {
            Some(own) => {
                named("task", own.name(), name, task::find(name).is_ok())?;
                Ok(&**own)
            }
            None => Ok(task::find(name)?),
        }
    }

    /// The model of this name.
    pub fn model(&self, name: &str, config: &Config) -> Result<Box<dyn Model>> {
        match &self.model {
            Some((_, make)) => {
                config.check()?;
                Ok(zoo::stack(config, |config, _| make(config))?)
            }
            None => Ok(zoo::find(name)?.build(config)?),
        }
    }

    /// Fails where a run that is there already has a model or a task that is neither built in nor given.
    pub(crate) fn check_complete(&self, settings: &Settings, run: &std::path::Path) -> Result<()> {
        let (model, task) = (&settings.model.name, &settings.task.name);
        let missing = if self.model.is_none() && zoo::find(model).is_err() {
            ("model", model)
        } else if self.task.is_none() && task::find(task).is_err() {
            ("task", task)
        } else {
            return Ok(());
        };
        let (what, name) = missing;
        let problem = format!(
            "the run in {} has a {what} of its own, '{name}', which is not built in; pass it again, from the \
             Rust program that has it (with_{what})",
            run.display()
        );
        Err(Error::settings(format!("{what}.name"), problem))
    }
}

/// Fails unless `own` is the name in the settings, and no name that is built in: a run would be taken for
/// another.
fn named(what: &str, own: &str, name: &str, built_in: bool) -> Result<()> {
    let problem = match (own == name, built_in) {
        (true, false) => return Ok(()),
        (true, true) => format!("'{own}' is built in; give the {what} another name"),
        (false, _) => format!("the run has '{name}', but the {what} that was given is '{own}'"),
    };
    Err(Error::settings(format!("{what}.name"), problem))
}
