use slipstream::prelude::*;

#[derive(Clone)]
struct Event {
    hour: u32,
}

static WEATHER: SharedStream<Event> = SharedStream::new("weather", || stream::iter([Event { hour: 1 }]).boxed());
static ACTIVITY: SharedStream<Event> = SharedStream::new("activity", || stream::iter([Event { hour: 1 }]).boxed());

static CHECKPOINT: Checkpoint<Event> = Checkpoint::new("activity", |it| {
    let weather = Dependency::new("weather", &WEATHER, |event| event.hour).downtime_check(|gap| gap.dependency.len());
    it.dependent(&ACTIVITY, |event| event.hour).dependency(weather)
});

fn main() {}
