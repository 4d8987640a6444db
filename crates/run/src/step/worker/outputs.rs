//! What a model says at the last step of windows: all vertices at once, or as many at a time as in training.

use std::ops::Range;
use std::time::Instant;

use kymo_graph::Step;
use kymo_plan::{Neighbourhood, Targets};
use kymo_trace::Kind;

use super::Worker;
use crate::error::Result;
use crate::forward::{Forward, Outputs, OwnRows, RecurrentState, Written};
use crate::halo::Pass;
use crate::step::batches;
use crate::step::runner::WindowRun;
use crate::task::Goal;
use crate::workers::Work;

/// What was written of each window, whose rows that is, and the state that the last window leaves.
type Said = (Vec<Vec<f32>>, Vec<OwnRows>, Option<RecurrentState>);

impl Worker {
    /// What the model outputs at the last step of each of these windows, which overlap where they are
    /// several, and the state that the last one leaves, if that is wanted.
    pub fn evaluate(
        &mut self,
        windows: &[Range<Step>],
        before: Option<&RecurrentState>,
        hand_over: bool,
    ) -> Result<(Vec<Vec<f32>>, Option<RecurrentState>)> {
        self.at_last(windows, before, hand_over, |goal, forward| goal.outputs(forward))
    }

    /// The embeddings of the vertices here at the last step of each window: what the task's head reads.
    pub fn embed(
        &mut self,
        windows: &[Range<Step>],
        before: Option<&RecurrentState>,
        hand_over: bool,
    ) -> Result<(Vec<Vec<f32>>, Option<RecurrentState>)> {
        self.at_last(windows, before, hand_over, |_, forward| {
            let width = forward.model.width();
            Ok(forward.last_rows(width, &[], |_, rows, _| Ok(rows))?)
        })
    }

    fn at_last(
        &mut self,
        windows: &[Range<Step>],
        before: Option<&RecurrentState>,
        hand_over: bool,
        read: impl for<'a> Fn(&dyn Goal, &mut Forward<'_, 'a>) -> Result<Outputs<'a>>,
    ) -> Result<(Vec<Vec<f32>>, Option<RecurrentState>)> {
        let start = windows.iter().map(|window| window.start).min().unwrap_or(0);
        let steps = start..windows.iter().map(|window| window.end).max().unwrap_or(start);
        let (loaded, _) = self.load(&steps)?;
        let begun = Instant::now();
        let recorder = self.group.recorder.clone();
        let evaluating = recorder.open(Kind::Evaluate, if windows.len() > 1 { "windows" } else { "window" });
        let run = WindowRun {
            steps: &steps,
            loaded: &loaded,
            windows,
            targets: &Targets::All,
            neighbourhood: &Neighbourhood::Whole,
            before,
            hand_over,
            pass: Pass { epoch: self.epoch, trains: false },
            measures: false,
        };
        let said = match self.context.vertex_batches().copied() {
            None => {
                let (written, _, after) = self.say(run, &read)?;
                (written, after)
            }
            // No more vertices at a time than in training.
            Some(batches) => {
                let vertices = self.context.store.vertices();
                let mut whole: Vec<Vec<f32>> = vec![Vec::new(); windows.len()];
                for part in 0..batches.division() {
                    let (targets, neighbourhood) = &batches::part(&batches, part);
                    let (written, own, _) = self.say(WindowRun { targets, neighbourhood, ..run }, &read)?;
                    for ((whole, written), own) in whole.iter_mut().zip(&written).zip(&own) {
                        own.put(written, whole, vertices);
                    }
                }
                (whole, None)
            }
        };
        drop(evaluating);
        self.clock.add(Work::Predict, begun.elapsed());
        Ok(said)
    }

    fn say(
        &mut self,
        run: WindowRun<'_>,
        read: &impl for<'a> Fn(&dyn Goal, &mut Forward<'_, 'a>) -> Result<Outputs<'a>>,
    ) -> Result<Said> {
        let (mut written, mut own) = (Vec::new(), Vec::new());
        let (_, after) = self.runner.learn(
            &self.replica,
            run,
            |goal, mut forward, _| {
                own.push(forward.own(forward.exchanged.steps.len().saturating_sub(1)));
                let outputs = read(goal, &mut forward)?;
                written.push(outputs.written);
                Ok(Some(outputs.loss))
            },
            |_, _, _| Ok(()),
        )?;
        Ok((written.iter().map(Written::read).collect(), own, after))
    }
}
