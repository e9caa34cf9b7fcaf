//! Tables and the connection that their topics are read by: where their store is, and what a partition begins with.

use std::sync::Arc;

use super::driver::{Assignment, Backend, Home};
use super::hub::Session;
use crate::error::{Error, Kind, Result};
use crate::flow::Env;
use crate::flow::fold::{FoldHome, LaneFold, LogEnds, SourceFold};

/// Opens the store of all that is folded over one connection, before anything is read.
pub(super) async fn open(
    backend: &dyn Backend,
    folds: impl Iterator<Item = &Arc<dyn SourceFold>>,
    env: &Env,
) -> Result<()> {
    for fold in folds {
        let home = home(backend, env).await?;
        let fold = Arc::clone(fold);
        blocking(move || fold.open(home)).await?;
    }
    Ok(())
}

/// A store belongs to one broker, whatever its address, and to one app.
async fn home(backend: &dyn Backend, env: &Env) -> Result<FoldHome> {
    let app = &env.parts().state_dir;
    if let Some(home) = backend.tables_home(app)? {
        return Ok(home);
    }
    match backend.own_positions().await? {
        Home::Named(name) => Ok(FoldHome { dir: app.join("tables").join(name), keep: None }),
        Home::Here(_) => Err(Error::new(Kind::Unsupported, "this broker has no place for tables")),
    }
}

impl Session {
    /// Starts a lane, with the rows of its tables. Rows that are built anew begin before what was assigned, and so do those
    /// with records that were not told of.
    pub(super) async fn begin_lane(&mut self, assignment: &Assignment) -> Result<()> {
        let Some(fold) = self.makers.get(&assignment.feed.topic).and_then(|maker| maker.fold()) else {
            self.start_lane(assignment, None);
            return Ok(());
        };
        let mut fold = begin(&*self.backend, fold, assignment).await?;
        let from = self.begin_rows(assignment, &mut *fold).await?;
        if from >= assignment.from {
            self.start_lane(assignment, Some(fold));
            return Ok(());
        }
        let feed = &assignment.feed;
        let mut earlier = self.driver.seek(Arc::clone(&feed.topic), feed.partition, from).await?;
        earlier.committed = assignment.committed;
        earlier.note.clone_from(&assignment.note);
        self.start_lane(&earlier, Some(fold));
        Ok(())
    }
}

/// Takes a partition, before anything of it is dispatched.
async fn begin(
    backend: &dyn Backend,
    fold: &Arc<dyn SourceFold>,
    assignment: &Assignment,
) -> Result<Box<dyn LaneFold>> {
    let (topic, partition) = (Arc::clone(&assignment.feed.topic), assignment.feed.partition);
    let described = backend.manage()?.describe(Arc::clone(&topic)).await?;
    let gone = || Error::new(Kind::UnknownTopic, "there is no such topic").at(topic.to_string());
    let log: Vec<_> =
        described.ok_or_else(gone)?.partitions.iter().map(|(low, high)| LogEnds { low: *low, high: *high }).collect();
    let (fold, committed) = (Arc::clone(fold), assignment.committed);
    blocking(move || fold.begin(partition, committed, &log)).await
}

async fn blocking<T: Send + 'static>(f: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(f).await;
    done.unwrap_or_else(|error| Err(Error::new(Kind::Store, "the tables were interrupted").because(error)))
}
