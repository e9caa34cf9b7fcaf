//! The batch computation that the flights example is compared with, checked against figures of the data set that were
//! found by other means (its own documentation and a script in another language).

#[path = "../examples/flights/batch.rs"]
mod batch;
#[path = "../examples/flights/records.rs"]
mod records;

use std::collections::HashSet;

use anyhow::{Context as _, Result};
use batch::{Figures, Observations, figures};
use records::{Band, Flight, Weather, load_flights, load_weather};

#[test]
fn the_files_hold_every_flight_and_observation_of_january_2013() -> Result<()> {
    let (flights, weather) = (load_flights()?, load_weather()?);
    assert_eq!(flights.len(), 27_004);
    assert_eq!(flights.iter().filter(|f| f.departed()).count(), 26_483);
    assert_eq!(weather.len(), 2_226);
    Ok(())
}

#[test]
fn no_two_flights_have_the_same_identity() -> Result<()> {
    let flights = load_flights()?;
    assert_eq!(flights.iter().map(Flight::identity).collect::<HashSet<_>>().len(), flights.len());
    assert_eq!(flights.first().context("no flight")?.identity(), "EWR/UA1545/2013-01-01T10");
    Ok(())
}

#[test]
fn every_departed_flight_has_weather_of_its_own_hour_or_the_last_before_it() -> Result<()> {
    let (flights, weather) = (load_flights()?, load_weather()?);
    let observations = Observations::new(&weather);
    let (mut same_hour, mut earlier, mut none) = (0, 0, 0);
    for flight in flights.iter().filter(|f| f.departed()) {
        match observations.before(flight) {
            Some(found) if found.time_hour == flight.time_hour => same_hour += 1,
            Some(found) => {
                assert_eq!(found.origin, flight.origin);
                assert!(found.time_hour < flight.time_hour);
                earlier += 1;
            }
            None => none += 1,
        }
    }
    assert_eq!((same_hour, earlier, none), (26_431, 52, 0));
    Ok(())
}

#[test]
fn the_figures_are_those_of_an_independent_computation() -> Result<()> {
    let rows = [
        ("EWR", Band::Clear, 8_665, 122_642),
        ("EWR", Band::Rain, 319, 6_176),
        ("EWR", Band::LowVisibility, 671, 15_097),
        ("JFK", Band::Clear, 7_869, 58_958),
        ("JFK", Band::Rain, 442, 5_387),
        ("JFK", Band::LowVisibility, 750, 13_723),
        ("LGA", Band::Clear, 6_976, 37_415),
        ("LGA", Band::Rain, 360, 3_611),
        ("LGA", Band::LowVisibility, 431, 2_792),
    ];
    let expected: Figures =
        rows.into_iter().map(|(a, band, n, minutes)| ((a.to_owned(), band), (n, minutes))).collect();
    let found = figures(&load_flights()?, &load_weather()?);
    assert_eq!(found, expected);
    assert_eq!(found.values().map(|(departures, _)| departures).sum::<u64>(), 26_483);
    Ok(())
}

#[test]
fn a_flight_before_the_first_observation_of_its_airport_has_unknown_weather() -> Result<()> {
    let flights = load_flights()?;
    let elsewhere: Vec<Weather> = load_weather()?.into_iter().filter(|w| w.origin == "LGA").collect();
    let found = figures(&flights, &elsewhere);
    assert!(found.contains_key(&("JFK".to_owned(), Band::Unknown)));
    assert!(found.keys().filter(|(airport, _)| airport != "LGA").all(|(_, band)| *band == Band::Unknown));
    Ok(())
}

#[test]
fn bands_have_names_that_pad_in_a_table() {
    let names = [Band::Clear, Band::Rain, Band::LowVisibility, Band::Unknown].map(|band| format!("{band:>15}|"));
    assert_eq!(names, ["          clear|", "           rain|", " low visibility|", "        unknown|"]);
}
