//! Parquet files, read and written over every transport, and those that do not fit.

#![cfg(feature = "parquet")]

mod scratch;

use firesteel::prelude::*;
use firesteel::types::{JobError, TaskFailure};
use scratch::{Scratch, TRANSPORTS, assert_usable, builder, context, fails_with, names_in};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Trip {
    id: u64,
    city: String,
    fare: f64,
    tip: Option<f64>,
    stops: Vec<i32>,
    vendor: Vendor,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Vendor {
    name: String,
    rank: u8,
}

fn trip(id: u64) -> Trip {
    Trip {
        id,
        city: format!("city {}", id % 7),
        fare: id as f64 / 4.0,
        tip: id.is_multiple_of(3).then_some(id as f64),
        stops: (0..(id % 4) as i32).collect(),
        vendor: Vendor { name: "v".to_owned(), rank: (id % 5) as u8 },
    }
}

#[track_caller]
fn is_fatal(error: Error) {
    let Error::Job(JobError::TaskFailed { failure, .. }) = error else { panic!("{error:?}") };
    assert!(matches!(failure, TaskFailure::Fatal { .. }), "{failure:?}");
}

#[test]
fn rows_are_saved_and_read_back_whole_or_only_the_columns_that_are_wanted() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Tip {
        tip: Option<f64>,
        id: u32,
        missing: Option<String>,
    }
    let trips: Vec<Trip> = (0..20_000).map(trip).collect();
    for transport in TRANSPORTS {
        let ctx = builder().config("spark.firesteel.local.transport", transport).build().unwrap();
        let scratch = Scratch::new();
        let rdd = ctx.parallelize_in(3, trips.clone());
        let out = scratch.path("trips");
        rdd.save_as_parquet(&out).unwrap();
        assert_eq!(names_in(&out)[1], "part-00000.parquet");
        assert_eq!(names_in(&out).len(), 4);
        let back = ctx.parquet::<Trip>(&out).unwrap();
        assert_eq!(back.collect().unwrap(), trips);
        let tips = ctx.parquet::<Tip>(&out).unwrap().collect().unwrap();
        assert_eq!(tips.len(), trips.len());
        assert_eq!(tips[3], Tip { tip: Some(3.0), id: 3, missing: None });
        let zstd = SaveOptions::new().compression(Compression::Zstd);
        rdd.save_as_parquet_with(scratch.path("zstd"), &zstd).unwrap();
        let back = ctx.parquet::<Trip>(&scratch.path("zstd")).unwrap();
        assert_eq!(back.count().unwrap(), 20_000);
    }
}

#[test]
fn splits_of_a_file_have_each_row_once() {
    let scratch = Scratch::new();
    let out = scratch.path("trips");
    let writing = context();
    writing
        .parallelize_in(1, (0..5_000).map(trip).collect::<Vec<_>>())
        .save_as_parquet(&out)
        .unwrap();
    for bytes in [1000, 10_000, 1 << 30] {
        let ctx = builder().config("spark.files.maxPartitionBytes", bytes).build().unwrap();
        let trips = ctx.parquet::<Trip>(&out).unwrap();
        assert_eq!(trips.partition_count() > 1, bytes < 1 << 20, "{bytes}");
        assert_eq!(trips.count().unwrap(), 5_000);
    }
}

#[test]
fn files_that_are_cut_off_or_something_else_are_named() {
    for transport in TRANSPORTS {
        let ctx = builder().config("spark.firesteel.local.transport", transport).build().unwrap();
        let scratch = Scratch::new();
        let out = scratch.path("trips");
        ctx.parallelize_in(1, (0..5_000).map(trip).collect::<Vec<_>>())
            .save_as_parquet(&out)
            .unwrap();
        let whole = std::fs::read(format!("{out}/part-00000.parquet")).unwrap();
        for (name, bytes) in [
            ("cut.parquet", &whole[..whole.len() / 2]),
            ("empty.parquet", b"".as_slice()),
            ("text.parquet", b"name,age\nAda,36\nBob,7\n".as_slice()),
        ] {
            let path = scratch.write(name, bytes);
            let trips = ctx.parquet::<Trip>(&path).unwrap();
            is_fatal(fails_with(trips.count(), &[name, "not a Parquet file", "cut off"]));
        }
        // Rotten pages behind good metadata.
        let mut rotten = whole.clone();
        rotten[8..2000].fill(0xa5);
        let path = scratch.write("rotten.parquet", &rotten);
        is_fatal(fails_with(
            ctx.parquet::<Trip>(&path).unwrap().count(),
            &["rotten.parquet", "damaged"],
        ));
        let path = scratch.write("gone.parquet", &whole);
        let trips = ctx.parquet::<Trip>(&path).unwrap();
        std::fs::write(&path, &whole[..100]).unwrap();
        fails_with(trips.count(), &["gone.parquet", "changed meanwhile"]);
        std::fs::remove_file(&path).unwrap();
        fails_with(trips.count(), &["could not open", "gone.parquet", "No such file"]);
        assert_usable(&ctx);
    }
}

#[test]
fn columns_that_are_missing_or_of_another_type_are_named_with_both_types() {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Renamed {
        id: u64,
        town: String,
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Retyped {
        id: u64,
        city: u32,
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Narrowed {
        id: u8,
    }
    let (ctx, scratch) = (context(), Scratch::new());
    let out = scratch.path("trips");
    ctx.parallelize_in(1, (0..500).map(trip).collect::<Vec<_>>()).save_as_parquet(&out).unwrap();
    let renamed = ctx.parquet::<Renamed>(&out).unwrap();
    let words = ["part-00000.parquet", "column \"town\" is missing", "expected str", "city: "];
    is_fatal(fails_with(renamed.count(), &words));
    let retyped = ctx.parquet::<Retyped>(&out).unwrap();
    let words = ["part-00000.parquet", "column \"city\" is ", "Utf8", "u32 is expected"];
    is_fatal(fails_with(retyped.count(), &words));
    let narrowed = ctx.parquet::<Narrowed>(&out).unwrap();
    let words =
        ["part-00000.parquet", "do not fit", "Narrowed", "column \"id\": a value is too large"];
    let error = fails_with(narrowed.count(), &words);
    assert!(!error.to_string().contains("Error:"), "{error}");
    is_fatal(error);
    let numbers = ctx.range(0..10u64);
    is_fatal(fails_with(numbers.save_as_parquet(scratch.path("n")), &["no columns", "structs"]));
    let bzip2 = SaveOptions::new().compression(Compression::Bzip2);
    let trips = ctx.parallelize([trip(1)]);
    is_fatal(fails_with(trips.save_as_parquet_with(scratch.path("n"), &bzip2), &["no bzip2"]));
    assert_eq!(scratch.names(), ["trips"]);
    assert_usable(&ctx);
}

#[test]
fn an_enum_with_data_is_refused_by_the_name_of_its_field() {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    enum Shape {
        Circle(f64),
        Square { side: f64 },
        Point,
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Drawn {
        id: u64,
        shape: Shape,
    }
    let (ctx, scratch) = (context(), Scratch::new());
    let shapes = [Shape::Circle(1.0), Shape::Square { side: 2.0 }, Shape::Point];
    let drawn = shapes.into_iter().enumerate().map(|(id, shape)| Drawn { id: id as u64, shape });
    let drawn = ctx.parallelize(drawn.collect::<Vec<_>>());
    let words =
        ["Drawn has no columns", "field `shape` is an enum with data", "enums without data"];
    let error = fails_with(drawn.save_as_parquet(scratch.path("drawn")), &words);
    assert!(!error.to_string().contains("TracingOptions"), "{error}");
    is_fatal(error);
    assert!(scratch.names().is_empty());
}

#[test]
fn a_type_that_refuses_an_empty_text_is_read_with_all_its_fields() {
    #[derive(Clone, Debug, PartialEq, Serialize)]
    struct City(String);
    impl<'de> Deserialize<'de> for City {
        fn deserialize<D: serde::Deserializer<'de>>(
            from: D,
        ) -> std::result::Result<Self, D::Error> {
            let name = String::deserialize(from)?;
            let refused = || serde::de::Error::custom("a city has a name");
            (!name.is_empty()).then_some(City(name)).ok_or_else(refused)
        }
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Stay {
        city: City,
        id: u64,
    }
    let (ctx, scratch) = (context(), Scratch::new());
    let out = scratch.path("trips");
    ctx.parallelize((0..9).map(trip).collect::<Vec<_>>()).save_as_parquet(&out).unwrap();
    let stays = ctx.parquet::<Stay>(&out).unwrap().collect().unwrap();
    assert_eq!(stays[8], Stay { city: City("city 1".to_owned()), id: 8 });
}
