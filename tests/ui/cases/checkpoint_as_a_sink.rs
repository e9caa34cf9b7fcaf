use slipstream::prelude::*;

#[derive(Clone)]
struct Event {
    hour: u32,
}

static WEATHER: SharedStream<Event> = SharedStream::new("weather", || stream::iter([Event { hour: 1 }]).boxed());
static ACTIVITY: SharedStream<Event> = SharedStream::new("activity", || stream::iter([Event { hour: 1 }]).boxed());

static CHECKPOINT: Checkpoint<Event> = Checkpoint::new("activity", |it| {
    it.dependent(&ACTIVITY, |event| event.hour)
        .dependency(Dependency::new("weather", &WEATHER, |event| event.hour))
        .hold()
});

#[handle(WEATHER, sink = [CHECKPOINT])]
fn copy(weather: Event) -> Event {
    weather
}

fn main() {}
