//! Joins two CSV files: orders with the customers who placed them.
//!
//! ```sh
//! cargo run --release --example csv_join -- [ORDERS CUSTOMERS] [--master local[4]] [--conf key=value]
//! ```
//!
//! Both files have a header line; `ORDERS` has the columns `order,customer,item,amount`, `CUSTOMERS` has
//! `customer,name,country`, in any order. Without arguments, small files are made up. Shows reading a
//! format with a crate that knows it, `join`, `left_outer_join`, `reduce_by_key`, `sort_by_desc`, and
//! an accumulator that collects.
//!
//! Fields may be quoted, with commas, quotes and line breaks inside: so a file is read by one task as a
//! whole, not cut at lines. A row that does not fit its columns is left out and told on standard
//! error with its file and line; a file that cannot be read fails the job.
//!
//! Prints the revenue per country, highest first, and the orders of customers that nobody knows.

use std::path::{Path, PathBuf};

use firesteel::Total;
use firesteel::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    order: u64,
    customer: u64,
    item: String,
    amount: f64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Customer {
    customer: u64,
    name: String,
    country: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = firesteel::arguments()?;
    let made_up = MadeUp(std::env::temp_dir().join(format!("csv_join-{}", std::process::id())));
    let (orders, customers) = match &arguments[..] {
        [] => make_up(&made_up.0)?,
        [orders, customers] => (orders.clone(), customers.clone()),
        _ => usage("two files are needed, or none"),
    };

    let ctx = Context::builder().app_name("csv join").build()?;
    let problems = ctx.accumulator::<Vec<String>>();
    let orders = ctx
        .parallelize_in(1, [orders])
        .with(problems.clone())
        .flat_map(|problems, path| rows::<Order>(path, problems.clone()))
        .map(|order| (order.customer, order))
        .cache();
    let customers = ctx
        .parallelize_in(1, [customers])
        .with(problems.clone())
        .flat_map(|problems, path| rows::<Customer>(path, problems.clone()))
        .map(|customer| (customer.customer, customer))
        .cache();

    let revenue = orders
        .join(&customers)
        .map(|(_, (order, customer))| (customer.country, order.amount))
        .reduce_by_key(|a, b| a + b);
    println!("revenue by country:");
    for (country, sum) in revenue.sort_by_desc(|(_, sum)| Total(*sum)).collect()? {
        println!("{sum:>10.2} {country}");
    }

    println!("orders of unknown customers:");
    let unknown = orders
        .left_outer_join(&customers)
        .flat_map(|(_, (order, customer))| customer.is_none().then_some(order));
    for order in unknown.sort_by(|order| order.order).collect()? {
        println!("{:>10} {} (customer {})", order.order, order.item, order.customer);
    }
    for problem in problems.value() {
        eprintln!("left out: {problem}");
    }
    Ok(())
}

/// The rows of a CSV file; those that are not `T`s are told to `problems` with file and line.
fn rows<T: DeserializeOwned>(
    path: String,
    problems: Accumulator<Vec<String>>,
) -> impl Iterator<Item = T> {
    let reader = csv::Reader::from_path(&path);
    let reader = reader.unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    reader.into_deserialize().filter_map(move |row: std::result::Result<T, csv::Error>| {
        row.map_err(|error| problems.add(describe(&path, &error))).ok()
    })
}

fn describe(path: &str, error: &csv::Error) -> String {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => format!("{path}:{line}: {err}"),
        _ => format!("{path}:{line}: {error}"),
    }
}

/// A directory that goes with its value.
struct MadeUp(PathBuf);

impl Drop for MadeUp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes sample files; returns where.
fn make_up(directory: &Path) -> std::io::Result<(String, String)> {
    std::fs::create_dir(directory)?;
    let (orders, customers) = (directory.join("orders.csv"), directory.join("customers.csv"));
    std::fs::write(
        &orders,
        "order,customer,item,amount\n\
         1,7,\"anvil, 50 kg\",120.50\n\
         2,8,\"the \"\"good\"\" rope\",9.99\n\
         3,7,tnt,44\n\
         4,9,\"two\nlines\",15.25\n\
         5,12,rocket,300\n\
         6,8,magnet,a lot\n",
    )?;
    std::fs::write(
        &customers,
        "customer,name,country\n7,Wile E.,US\n8,\"Meyer, Ilse\",DE\n9,Chloé,FR\n",
    )?;
    Ok((orders.display().to_string(), customers.display().to_string()))
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: csv_join [ORDERS CUSTOMERS]");
    std::process::exit(2)
}
