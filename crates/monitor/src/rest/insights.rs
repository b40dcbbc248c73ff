//! Insights in answers of the REST API: ours, Spark has none.

use firesteel_status::Insight;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InsightData<'a> {
    kind: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage_attempt_id: Option<u32>,
    place: &'a str,
    figure: &'a str,
    advice: &'a str,
    /// In milliseconds; `None`: that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_time: Option<u64>,
}

impl<'a> InsightData<'a> {
    pub(super) fn of(insight: &'a Insight) -> Self {
        InsightData {
            kind: insight.kind.as_str(),
            title: insight.kind.title(),
            job_id: insight.job.map(|job| job.0),
            stage_id: insight.stage.map(|stage| stage.stage.0),
            stage_attempt_id: insight.stage.map(|stage| stage.attempt),
            place: &insight.place,
            figure: &insight.figure,
            advice: &insight.advice,
            lost_time: insight.lost_ms,
        }
    }
}
