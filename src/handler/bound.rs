//! A handler bound to its sinks: the stage that a lane drives.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use super::outputs::Outputs;
use crate::error::{BoxError, Error, Kind, Result};
use crate::flow::{Sink, Stage, UnitCx};
use crate::util::panic_message;

pin_project! {
    /// One handler with its sinks, for one lane.
    pub struct Bound<C, O: Outputs, S> {
        call: Arc<C>,
        name: Arc<str>,
        timeout: Option<Duration>,
        // The outputs that are still to come, and the one that the sinks have not accepted yet.
        #[pin]
        outputs: Option<O>,
        value: Option<O::Item>,
        #[pin]
        sinks: S,
        sending: bool,
        deadline: Option<Pin<Box<Sleep>>>,
    }
}

impl<C, O: Outputs, S> Bound<C, O, S> {
    pub(crate) fn new(call: Arc<C>, name: Arc<str>, timeout: Option<Duration>, sinks: S) -> Self {
        Self { call, name, timeout, outputs: None, value: None, sinks, sending: false, deadline: None }
    }
}

impl<C, O: Outputs, S: Sink<O::Item>> Bound<C, O, S> {
    /// Sends what is in hand and then each further output.
    fn poll_outputs(self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut this = self.project();
        loop {
            if *this.sending {
                let sent = ready!(this.sinks.as_mut().poll_send(this.value, unit, cx));
                *this.sending = false;
                sent.map_err(Failure::Sink)?;
                unit.next_output();
            }
            let Some(outputs) = this.outputs.as_mut().as_pin_mut() else { return Poll::Ready(Ok(())) };
            match ready!(outputs.poll_next(cx)) {
                Some(Ok(_)) if unit.is_muted() => {}
                Some(Ok(value)) => {
                    *this.value = Some(value);
                    *this.sending = true;
                }
                Some(Err(error)) => return Poll::Ready(Err(Failure::Handler(error))),
                None => {
                    this.outputs.set(None);
                    unit.set_output(0);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// The loop for outputs that never wait: nothing is pinned unless a sink is full.
    #[inline]
    fn start_sync(
        self: Pin<&mut Self>,
        mut outputs: O,
        unit: &mut UnitCx,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        let mut this = self.project();
        let is_muted = unit.is_muted();
        let mut number = 0;
        while let Some(output) = outputs.next_now() {
            // Kept here, where it needs no memory, unless a sink has no room for it.
            let mut value = Some(output.map_err(Failure::Handler)?);
            if is_muted {
                continue;
            }
            if number > 0 {
                unit.set_output(number);
            }
            match this.sinks.as_mut().poll_send(&mut value, unit, cx) {
                Poll::Ready(sent) => sent.map_err(Failure::Sink)?,
                Poll::Pending => {
                    *this.value = value;
                    *this.sending = true;
                    this.outputs.set(Some(outputs));
                    return Poll::Pending;
                }
            }
            number += 1;
        }
        if number > 1 {
            unit.set_output(0);
        }
        Poll::Ready(Ok(()))
    }

    fn arm(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let this = self.project();
        let Some(timeout) = *this.timeout else { return Poll::Pending };
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        deadline.as_mut().poll(cx).map(|()| Err(Failure::Timeout(timeout)))
    }

    /// Gives up what is in hand and says where it went wrong.
    #[cold]
    fn give_up(mut self: Pin<&mut Self>, failure: Failure, unit: &UnitCx) -> Error {
        let mut this = self.as_mut().project();
        this.outputs.set(None);
        *this.value = None;
        *this.sending = false;
        *this.deadline = None;
        failure.into_error(this.name, &unit.place())
    }
}

/// Which part of a stage failed.
enum Failure {
    Handler(BoxError),
    Sink(BoxError),
    Timeout(Duration),
    Panic(String),
}

impl Failure {
    fn into_error(self, handler: &str, place: &str) -> Error {
        let place = format!("handler {handler} on {place}");
        match self {
            Self::Handler(error) => Error::new(Kind::Handler, "failed").because(error).at(place),
            Self::Sink(error) => Error::new(Kind::Sink, "a sink refused an output").because(error).at(place),
            Self::Timeout(limit) => Error::new(Kind::Timeout, format!("took longer than {limit:?}")).at(place),
            Self::Panic(message) => Error::new(Kind::Panic, format!("panicked: {message}")).at(place),
        }
    }
}

/// Turns a panic inside `poll` into a failure. The stage gives up what was in hand, so nothing half-done is seen again.
#[inline]
fn caught(poll: impl FnOnce() -> Poll<Result<(), Failure>>) -> Poll<Result<(), Failure>> {
    match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(result) => result,
        Err(panic) => Poll::Ready(Err(Failure::Panic(panic_message(&*panic)))),
    }
}

impl<In, C, O, S> Stage<In> for Bound<C, O, S>
where
    C: Fn(In, &UnitCx) -> O + Send + Sync,
    O: Outputs,
    S: Sink<O::Item>,
{
    #[inline]
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = caught(|| {
            let outputs = (self.call)(input, unit);
            if O::SYNC {
                return self.as_mut().start_sync(outputs, unit, cx);
            }
            self.as_mut().project().outputs.set(Some(outputs));
            self.as_mut().poll_outputs(unit, cx)
        });
        match polled {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(failure)) => Poll::Ready(Err(self.give_up(failure, unit))),
            Poll::Pending => self.as_mut().arm(cx).map(|result| result.map_err(|late| self.give_up(late, unit))),
        }
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = caught(|| self.as_mut().poll_outputs(unit, cx));
        let polled = if polled.is_pending() { self.as_mut().arm(cx) } else { polled };
        let result = ready!(polled);
        *self.as_mut().project().deadline = None;
        Poll::Ready(result.map_err(|failure| self.give_up(failure, unit)))
    }
}
