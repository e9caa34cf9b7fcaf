use slipstream::prelude::*;

struct Event {
    hour: u32,
}

static ACTIVITY: SharedStream<Event> = SharedStream::new("activity", || stream::iter([Event { hour: 1 }]).boxed());

static CHECKPOINT: Checkpoint<Event> = Checkpoint::new("activity", |it| {
    it.dependent(&ACTIVITY, |event| event.hour)
        .dependency(Dependency::new("weather", stream::iter([2]), |hour| *hour))
        .hold()
});

fn main() {}
