//! Numbers through JSON lines: they come back as they were, or are refused.

use firesteel::prelude::*;

fn context() -> Context {
    let builder = Context::builder().master("local[2]").app_name("json numbers");
    builder
        .arguments([] as [&str; 0])
        .config("spark.ui.showConsoleProgress", false)
        .build()
        .unwrap()
}

fn through_json<T: Data + Clone>(ctx: &Context, items: Vec<T>) -> Result<Vec<T>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    ctx.parallelize_in(2, items).save_as_json_lines(&path)?;
    ctx.json_lines::<T>(path.to_str().unwrap())?.collect()
}

#[test]
fn floating_point_numbers_come_back_to_the_last_bit() {
    let ctx = context();
    let mut random = fastrand::Rng::with_seed(5);
    let any = std::iter::repeat_with(|| f64::from_bits(random.u64(..))).filter(|x| x.is_finite());
    let mut doubles: Vec<f64> = any.take(50_000).collect();
    let mut random = fastrand::Rng::with_seed(6);
    doubles.extend(std::iter::repeat_with(|| random.f64()).take(50_000));
    doubles.extend([0.0, -0.0, 0.1, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 5e-324]);
    let found = through_json(&ctx, doubles.clone()).unwrap();
    assert!(found.iter().map(|x| x.to_bits()).eq(doubles.iter().map(|x| x.to_bits())));
    let singles: Vec<f32> = doubles.iter().map(|x| *x as f32).filter(|x| x.is_finite()).collect();
    let found = through_json(&ctx, singles.clone()).unwrap();
    assert!(found.iter().map(|x| x.to_bits()).eq(singles.iter().map(|x| x.to_bits())));
}

#[test]
fn numbers_that_json_does_not_have_are_refused_and_options_stay() {
    let ctx = context();
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = through_json(&ctx, vec![(1.0, number)]).unwrap_err().to_string();
        assert!(error.contains("no JSON number") && error.contains("Option"), "{error}");
        assert!(through_json(&ctx, vec![Some(vec![number as f32])]).is_err());
    }
    let options = vec![None, Some(1.5), None];
    assert_eq!(through_json(&ctx, options.clone()).unwrap(), options);
}
